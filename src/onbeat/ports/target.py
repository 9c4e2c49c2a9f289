"""Target runners, and the run that they receive."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from onbeat.model.event import Event
from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Outcome
from onbeat.model.target import Target


class Run(Protocol):
    """One attempt, as its target sees it."""

    @property
    def job(self) -> Job: ...

    @property
    def events(self) -> Sequence[Event]:
        """The events that the job was made for and its target gets; mostly none."""
        ...

    @property
    def is_question(self) -> bool:
        """Whether this has to be answered at once: it judges a condition, before the attempt of the
        job begins, or is the request of a channel.
        """
        ...

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


class RunWithJob:
    """Implements `Run`: the same attempt, with another form of its job."""

    def __init__(self, run: Run, job: Job) -> None:
        self._run = run
        self._job = job

    @property
    def job(self) -> Job:
        return self._job

    @property
    def events(self) -> Sequence[Event]:
        return self._run.events

    @property
    def is_question(self) -> bool:
        return self._run.is_question

    @property
    def deadline(self) -> datetime | None:
        return self._run.deadline

    @property
    def stop_reason(self) -> str | None:
        return self._run.stop_reason

    def note_progress(self, progress: Progress) -> None:
        self._run.note_progress(progress)

    def is_held(self) -> bool:
        return self._run.is_held()

    def is_closed(self) -> bool:
        return self._run.is_closed()

    async def confirm(self) -> None:
        await self._run.confirm()


class UnleasedRun:
    """Implements `Run` for a call without a lease, which nothing can stop or take away."""

    stop_reason: str | None = None
    is_question = False

    def __init__(
        self, job: Job, events: Sequence[Event] = (), deadline: datetime | None = None
    ) -> None:
        self.job = job
        self.events = events
        self.deadline = deadline

    def note_progress(self, progress: Progress) -> None: ...

    def is_held(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    async def confirm(self) -> None: ...


class HandedOver(Exception):
    """The target has taken the job on, and reports the outcome of the attempt until `until`."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"handed over until {until}")
        self.until = until


ReportAddress = Callable[[Job, datetime], Awaitable[str]]
"""The address at which the running attempt of a job may be reported, until an instant."""


class TargetRunner(Protocol):
    """Runs one kind of target.

    It may raise anything, `asyncio.CancelledError` included; the worker turns that into an outcome.
    After `HandedOver` the attempt goes on without the worker.
    """

    def run(self, run: Run) -> Coroutine[Any, Any, Outcome]: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...


Runners = Mapping[type[Target], TargetRunner]
"""The runners of this process by the kind of target."""

CheckStart = Callable[[Job, Sequence[Event]], Awaitable[Outcome | None]]
"""What is asked before a job is sent to a worker elsewhere: None where its target may run."""


async def allow_start(_job: Job, _events: Sequence[Event]) -> Outcome | None:
    return None


Lanes = Callable[[], frozenset[str]]
"""Returns the lanes that this process can run now (see `onbeat.model.target.lane_of`)."""
