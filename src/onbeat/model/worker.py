"""A worker: a live process, as others see it."""

from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.ids import WorkerId


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a worker process.

    `beat` only rises; that it has not risen for a lease's length, by the watcher's own monotonic
    clock, is what makes a worker dead to others. `boot` and `process_started` tell, on the same
    machine, whether process `pid` is still this one. `lanes` is what it can run (see
    `target.lane_of`), `queues` is None when it serves all.
    """

    id: WorkerId
    host: str
    pid: int
    started_at: datetime
    beat: int = 0
    beat_at: datetime | None = None
    boot: str = ""
    process_started: str = ""
    lease_seconds: float = 15.0
    concurrency: int = 1
    queues: tuple[str, ...] | None = None
    lanes: tuple[str, ...] = ()
    running: int = 0


CARRIER: Final = "carrier:"
REMOTE: Final = "remote:"


def carrier_id(id: str) -> WorkerId:
    """Holds the leases of jobs that are on their way to a worker, none of which has started."""
    return WorkerId(CARRIER + id)


def remote_id(name: str) -> WorkerId:
    """Holds the timed leases of a worker that has no row in the store."""
    return WorkerId(REMOTE + name)


def is_carried(worker: WorkerId | None) -> bool:
    """Whether a job with this holder is on its way: no worker has started it."""
    return worker is not None and worker.startswith(CARRIER)


def is_remote(worker: WorkerId | None) -> bool:
    """Whether a job with this holder was sent, by a timed lease, to a worker without a row."""
    return worker is not None and worker.startswith(REMOTE)
