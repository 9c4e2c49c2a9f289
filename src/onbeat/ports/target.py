"""Target runners, and the run that they receive."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol

from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Outcome


class Run(Protocol):
    """One attempt, as its target sees it."""

    @property
    def job(self) -> Job: ...

    @property
    def deadline(self) -> datetime | None:
        """When the attempt is stopped by its timeout."""
        ...

    @property
    def stop_reason(self) -> str | None:
        """Why the attempt should stop (cancel, timeout, lost lease, shutdown); else None."""
        ...

    def note_progress(self, progress: Progress) -> None: ...

    def is_held(self) -> bool:
        """Whether this attempt certainly still holds its lease. May be called from any thread."""
        ...

    def is_closed(self) -> bool:
        """Whether the attempt's task is not running: its coroutine is closed from outside."""
        ...

    async def confirm(self) -> None:
        """Returns once the lease is certainly held; if it was lost, the attempt is cancelled."""
        ...


class TargetRunner(Protocol):
    """Runs one kind of target.

    It may raise anything, `asyncio.CancelledError` included; the worker turns that into an outcome.
    """

    def run(self, run: Run) -> Coroutine[Any, Any, Outcome]: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...


Lanes = Callable[[], frozenset[str]]
"""Returns the lanes that this process can run now (see `onbeat.model.target.lane_of`)."""
