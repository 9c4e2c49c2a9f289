"""One attempt while it runs: what its target may read, and the ways to stop it."""

import asyncio
from datetime import datetime
from enum import Enum, auto

from onbeat.model.job import Job, Progress


class Stop(Enum):
    """Why an attempt is stopped; only a cancel may write an end of the job."""

    CANCEL = auto()
    LEASE_LOST = auto()
    SHUTDOWN = auto()


class Running:
    """Implements `onbeat.ports.target.Run`, and is the worker's handle on the attempt."""

    def __init__(self, job: Job, deadline: datetime | None) -> None:
        self.job = job
        self.deadline = deadline
        self.stop: Stop | None = None
        self.stop_reason: str | None = None
        self.is_settling = False
        self.progress: Progress | None = None
        self.task: asyncio.Task[None] | None = None

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
