"""What runs an attempt, and what it is given."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Outcome


class Run(Protocol):
    """One attempt as its target sees it."""

    @property
    def job(self) -> Job: ...

    @property
    def deadline(self) -> datetime | None:
        """When the attempt is stopped for taking too long."""
        ...

    @property
    def stop_reason(self) -> str | None:
        """Why it should stop (cancel, timeout, lost lease, shutdown); None while it may go on."""
        ...

    def note_progress(self, progress: Progress) -> None: ...


class TargetRunner(Protocol):
    """Runs one kind of target.

    It may raise anything, `asyncio.CancelledError` included; the worker turns that into an outcome.
    """

    async def run(self, run: Run) -> Outcome: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...


Lanes = Callable[[], frozenset[str]]
"""What this process can run just now (see `onbeat.model.target.lane_of`)."""
