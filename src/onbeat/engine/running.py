"""One attempt while it runs: what its target may read, and the ways to stop it."""

import asyncio
from datetime import datetime
from enum import Enum, auto

import msgspec

from onbeat.model.job import Job, Progress


class Stop(Enum):
    """Why an attempt is stopped. One that has lost its lease writes nothing."""

    CANCEL = auto()
    TIMEOUT = auto()
    LEASE_LOST = auto()
    SHUTDOWN = auto()


class Running(msgspec.Struct, eq=False, gc=False):
    """Implements `onbeat.ports.target.Run`, and is the worker's handle on the attempt.

    There are many, so the garbage collector does not track them. `task` leads back here, and is
    let go when the attempt has ended.
    """

    job: Job
    deadline: datetime | None
    stop: Stop | None = None
    stop_reason: str | None = None
    is_settling: bool = False
    progress: Progress | None = None
    task: asyncio.Task[None] | None = None

    def note_progress(self, progress: Progress) -> None:
        """May be called from any thread: the newest value is what the next beat stores."""
        self.progress = progress

    def stop_for(self, stop: Stop, reason: str) -> None:
        """Ask the attempt to stop; the first reason stands. No effect once it has an outcome."""
        if self.stop is not None or self.is_settling:
            return
        self.stop = stop
        self.stop_reason = reason
        if self.task is not None:
            self.task.cancel()
