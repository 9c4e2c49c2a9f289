"""The log lines of handlers: where they go while an attempt runs, and where they are kept."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol

from onbeat.model.ids import JobId
from onbeat.model.log_line import JobLogLine, LineKey, LogEntry


class AttemptLog(Protocol):
    """The log of an attempt. May be used from any thread."""

    @property
    def kept_level(self) -> int | None:
        """The least level that is kept, as a number of `logging`; None where nothing is kept."""
        ...

    def add_entry(self, entry: LogEntry) -> None:
        """Keep the entry with the job of the attempt, within bounds. Never raises, never waits."""
        ...


ATTEMPT_LOG: Final = ContextVar[AttemptLog | None]("onbeat_attempt_log", default=None)
"""The log of the attempt that runs here. Tasks that a handler starts have it too, and so does
`asyncio.to_thread`.
"""


class JobLogStore(Protocol):
    async def add_log_lines(self, lines: Sequence[JobLogLine]) -> int:
        """Add lines of stored jobs; returns how many.

        Lines of unknown jobs, and those whose number is there already, are left out.
        """
        ...

    async def log_lines(
        self, job: JobId, after: int, limit: int, attempt: int | None = None
    ) -> Sequence[JobLogLine]:
        """Lines of the job with a number above `after`, in order; only those of `attempt`."""
        ...

    async def export_log_lines(self, after: LineKey | None, limit: int) -> Sequence[JobLogLine]:
        """Lines by job and number, after `after`."""
        ...
