"""A running attempt: what its target may read, and how to stop it."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from enum import Enum, auto

import msgspec

from onbeat.engine.job_log import JobLog, LinesOfAttempt
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.model.event import Event
from onbeat.model.job import Job, Progress
from onbeat.model.log_line import LogEntry


class StopReason(Enum):
    """Why an attempt is stopped. After `LEASE_LOST` an attempt writes nothing."""

    CANCEL = auto()
    TIMEOUT = auto()
    LEASE_LOST = auto()
    SHUTDOWN = auto()


class RunningAttempt(msgspec.Struct, eq=False, gc=False):
    """Implements `onbeat.ports.target.Run`; the worker uses it to control the attempt.

    Implements `onbeat.ports.job_log.AttemptLog` too, if it has a `log`. Not tracked by the garbage
    collector, as there are many. `task` refers back to it, from the first step to the end of the
    attempt.
    """

    job: Job
    deadline: datetime | None
    guard: LeaseGuard
    stop: StopReason | None = None
    stop_reason: str | None = None
    is_settling: bool = False
    progress: Progress | None = None
    kept_progress: Progress | None = None
    events: Sequence[Event] = ()
    task: asyncio.Task[None] | None = None
    log: JobLog | None = None
    lines: LinesOfAttempt | None = None

    @property
    def is_question(self) -> bool:
        return False

    @property
    def kept_level(self) -> int | None:
        return None if self.log is None or self.is_settling else self.log.level

    def add_entry(self, entry: LogEntry) -> None:
        log = self.log
        if log is not None and not self.is_settling:
            log.add(self.lines or self.first_lines(log), self.job, entry)

    def first_lines(self, log: JobLog) -> LinesOfAttempt:
        """Only for attempts that log something; several threads may begin at once."""
        with log.lock:
            if self.lines is None:
                self.lines = LinesOfAttempt()
            return self.lines

    def end_log(self) -> None:
        """Later lines, of what the handler has left running, are not kept."""
        if self.log is not None and self.lines is not None:
            self.log.end(self.lines, self.job)

    def note_progress(self, progress: Progress) -> None:
        """Thread-safe. The next heartbeat stores the newest value, or the end of the job does."""
        self.progress = progress

    def unkept_progress(self) -> Progress | None:
        """The newest value, unless it is stored already."""
        return None if self.progress is self.kept_progress else self.progress

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
