"""One virtual clock for planner, leases, retries and store: years in seconds, nothing sleeps."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from onbeat.app.calls import Span, span
from onbeat.app.composition import Machinery
from onbeat.app.task import AnyTask
from onbeat.model.errors import Invalid
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.schedule import Schedule
from onbeat.model.target import lane_of
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store
from onbeat.ports.telemetry import Telemetry
from onbeat.telemetry.standard import Silent

ROUNDS_MAX = 1_000_000


class ManualClock:
    """Stands still until it is set; never goes back."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.since = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - self.since).total_seconds()

    def set(self, at: datetime) -> None:
        assert at >= self.at, "time does not go back"
        self.at = at


class Ran:
    """One attempt that ended: the job as it then stood, what came of it, and when it began."""

    def __init__(self, job: Job, outcome: Outcome, at: datetime) -> None:
        self.job = job
        self.outcome = outcome
        self.at = at

    def __repr__(self) -> str:
        return f"{lane_of(self.job.target)} at {self.at:%Y-%m-%d %H:%M:%S}Z: {self.outcome}"


class Recorder(Silent):
    """A telemetry that remembers what ran."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ran: list[Ran] = []
        self.errors: list[BaseException] = []

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        self.ran.append(Ran(job, outcome, job.started_at or self.clock.now()))

    def unplannable(self, schedule: Schedule, error: Exception) -> None:
        self.errors.append(error)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        self.errors.append(error)


class Host(Protocol):
    """What a trial changes about an `Onbeat`, and puts back."""

    clock: Clock
    telemetry: Telemetry
    is_open: bool

    @property
    def store(self) -> Store: ...

    @store.setter
    def store(self, store: Store) -> None: ...

    def wait_for(self, work: Any) -> Any: ...

    def build(self) -> Machinery: ...

    async def open(self) -> None: ...

    async def put_declared(self) -> None: ...


class Trial:
    """A program under test: its tasks and schedules on a memory store and a clock of its own.

    `advance` moves the clock from one due instant to the next and runs what is due at each;
    `drain` runs what is due now. Handlers run for real, one after another instant; their own
    timeouts count real time. The `a`-forms are for coroutines.
    """

    def __init__(self, host: Host, store: Store, at: datetime) -> None:
        self.host = host
        self.clock = ManualClock(at)
        self.recorder = Recorder(self.clock)
        self.before = (host.store, host.clock, host.telemetry, host.is_open)
        host.store, host.clock, host.telemetry, host.is_open = (
            store,
            self.clock,
            self.recorder,
            False,
        )
        self.machinery: Machinery | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.host.wait_for(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def ran(self) -> Sequence[Ran]:
        """Every attempt that has ended, in order."""
        return tuple(self.recorder.ran)

    def ran_of(self, task: AnyTask | str) -> Sequence[Ran]:
        name = task if isinstance(task, str) else task.name
        return tuple(ran for ran in self.recorder.ran if lane_of(ran.job.target) == name)

    def assert_ran(self, task: AnyTask | str, times: int | None = None) -> None:
        """Raises AssertionError, saying what did run, unless `task` ran (so many times)."""
        found = len(self.ran_of(task))
        name = task if isinstance(task, str) else task.name
        wanted = "at least once" if times is None else f"{times} times"
        fits = found > 0 if times is None else found == times
        assert fits, f"{name} should have run {wanted}, and ran {found} times; ran: {self.ran}"

    def advance(self, by: Span) -> None:
        """Let so much time pass."""
        self.host.wait_for(self.aadvance(by))

    async def aadvance(self, by: Span) -> None:
        wanted = span("by", by)
        assert wanted is not None
        await self.aadvance_to(self.clock.now() + wanted)

    def advance_to(self, at: datetime) -> None:
        """Let time pass until `at`."""
        self.host.wait_for(self.aadvance_to(at))

    async def aadvance_to(self, at: datetime) -> None:
        for _ in range(ROUNDS_MAX):
            following = await self.adrain()
            if following is None or following > at:
                break
            self.clock.set(max(following, self.clock.now()))
        self.clock.set(max(at, self.clock.now()))
        await self.adrain()

    def drain(self) -> None:
        """Run everything that is due now, and what becomes due by that, until nothing is."""
        self.host.wait_for(self.adrain())

    async def adrain(self) -> datetime | None:
        """The same; answers when something is due next."""
        runtime = (await self.opened()).runtime
        for _ in range(ROUNDS_MAX):
            planned = await runtime.planner.plan_due() + await runtime.planner.judge_lapsed()
            count, due_at = await runtime.dispatcher.dispatch_due()
            if count:
                runtime.worker.accept(await runtime.transport.receive())
                await runtime.worker.idle.wait()
            elif not planned:
                return await self.next_event(due_at)
        raise Invalid(f"there was always more to do in {ROUNDS_MAX} rounds at {self.now}")

    async def next_event(self, due_at: datetime | None) -> datetime | None:
        plan_at = await self.host.store.next_plan_at()
        times = [at for at in (due_at, plan_at) if at is not None]
        return min(times) if times else None

    async def opened(self) -> Machinery:
        """The loops' parts, ready to be stepped; none of the loops runs."""
        if self.machinery is None:
            await self.host.open()
            await self.host.put_declared()
            self.machinery = self.host.build()
            await self.machinery.open()
            await self.machinery.runtime.renewer.renew_held()
        return self.machinery

    async def aclose(self) -> None:
        """Give the `Onbeat` its own store and clock back."""
        if self.machinery is not None:
            await self.machinery.close()
        store = self.host.store
        self.host.store, self.host.clock, self.host.telemetry, self.host.is_open = self.before
        await store.close()


def instant(at: datetime | str) -> datetime:
    """An aware instant, from a datetime or RFC 3339 text. Raises `Invalid`."""
    try:
        found = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise Invalid(f"at: {error}", field="at") from error
    if found.tzinfo is None:
        raise Invalid("at needs an offset, such as 2026-03-28T23:00+01:00", field="at")
    return found.astimezone(UTC)
