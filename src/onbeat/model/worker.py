"""A worker: a live process, as other processes see it."""

from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.ids import WorkerId

FIRST_BEAT: Final = 1
"""The `beat` with which a worker makes itself known."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a worker process.

    `beat` only rises. A worker counts as dead when its `beat` has not risen for the length of its
    lease, by the observer's monotonic clock. `boot` and `process_started` show, on the same
    machine, whether process `pid` is still this worker. `lanes` are the tasks and targets that it
    can run (see `target.lane_of`), `queues` is None when it serves all. `release` is the version of
    its program, where that names one. `session` names its sessions on the store's server, if they
    show whether it lives. `memory` is what it holds of the machine's, in bytes; None
    where the system does not tell.
    """

    id: WorkerId
    host: str
    pid: int
    started_at: datetime
    beat: int = 0
    beat_at: datetime | None = None
    boot: str = ""
    process_started: str = ""
    session: str = ""
    lease_seconds: float = 15.0
    release: str | None = None
    memory: int | None = None
    concurrency: int = 1
    queues: tuple[str, ...] | None = None
    lanes: tuple[str, ...] = ()
    running: int = 0


CARRIER: Final = "carrier:"
CALLS: Final = f"{CARRIER}calls:"
REMOTE: Final = "remote:"
RECEIVER: Final = WorkerId("receiver")
"""The holder of jobs whose callback was answered with 202, and whose result comes later."""


def carrier_id(id: str) -> WorkerId:
    """The id of a carrier, which holds the leases of jobs that are in transit to a worker."""
    return WorkerId(CARRIER + id)


def remote_id(name: str) -> WorkerId:
    """The id that holds the timed leases of a worker without a row in the store."""
    return WorkerId(REMOTE + name)


def calls_id(id: str) -> WorkerId:
    """The id of the carrier of the calls that were sent to remote workers."""
    return WorkerId(CALLS + id)


def has_calls(worker: WorkerId) -> bool:
    """Whether this carrier holds calls to remote workers, of tasks that no other worker has."""
    return worker.startswith(CALLS)


def heard_id(worker: WorkerId) -> WorkerId:
    """The holder of a timed lease once its worker has renewed it: a call is carried no more."""
    return remote_id(worker.removeprefix(CARRIER)) if is_carried(worker) else worker


def is_carried(worker: WorkerId | None) -> bool:
    """Whether a job with this holder is in transit: no worker is known to have started it."""
    return worker is not None and worker.startswith(CARRIER)


def is_remote(worker: WorkerId | None) -> bool:
    """Whether a job with this holder runs, under a timed lease, on a worker without a row."""
    return worker is not None and worker.startswith(REMOTE)
