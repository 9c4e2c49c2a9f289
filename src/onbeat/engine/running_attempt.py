"""A running attempt: what its target may read, and how to stop it."""

import asyncio
from datetime import datetime
from enum import Enum, auto

import msgspec

from onbeat.engine.lease_guard import LeaseGuard
from onbeat.model.job import Job, Progress


class StopReason(Enum):
    """Why an attempt is stopped. After `LEASE_LOST` an attempt writes nothing."""

    CANCEL = auto()
    TIMEOUT = auto()
    LEASE_LOST = auto()
    SHUTDOWN = auto()


class RunningAttempt(msgspec.Struct, eq=False, gc=False):
    """Implements `onbeat.ports.target.Run`; the worker uses it to control the attempt.

    Not tracked by the garbage collector, as there are many. `task` refers back to it, and is
    cleared when the attempt ends.
    """

    job: Job
    deadline: datetime | None
    guard: LeaseGuard
    stop: StopReason | None = None
    stop_reason: str | None = None
    is_settling: bool = False
    progress: Progress | None = None
    task: asyncio.Task[None] | None = None

    def note_progress(self, progress: Progress) -> None:
        """Thread-safe. The next heartbeat stores the newest value."""
        self.progress = progress

    def is_held(self) -> bool:
        return self.guard.holds()

    def is_closed(self) -> bool:
        try:
            return asyncio.current_task() is not self.task
        except RuntimeError:  # no loop is running
            return True

    async def confirm(self) -> None:
        await self.guard.confirm()

    def request_stop(self, stop: StopReason, reason: str) -> None:
        """Ask the attempt to stop. The first reason counts. Does nothing once it has an outcome."""
        if self.stop is not None or self.is_settling:
            return
        self.stop = stop
        self.stop_reason = reason
        if self.task is not None:
            self.task.cancel()
