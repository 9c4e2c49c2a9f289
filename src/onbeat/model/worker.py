"""A worker: a live process, as others see it."""

from datetime import datetime

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
