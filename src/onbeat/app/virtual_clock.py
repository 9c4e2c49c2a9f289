"""A virtual clock for planner, leases, retries and store: years pass in seconds without sleep."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack, cast

from onbeat.app.backend import Backend
from onbeat.app.call import Span, span
from onbeat.app.composition import RunningApp
from onbeat.app.sent_jobs import SentJob, sent_jobs
from onbeat.app.stores import open_store
from onbeat.app.task import AnyTask, Task
from onbeat.app.trial_faults import CRASHES, ArmedCrash, FaultRates, Mishap, TrialStore
from onbeat.engine.runtime import Runtime
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome, Succeeded
from onbeat.model.schedule import Schedule
from onbeat.model.target import lane_of
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store, SucceededAttempt
from onbeat.ports.telemetry import Telemetry
from onbeat.telemetry.composite import NullTelemetry, settled

ROUNDS_MAX = 1_000_000
STEPPED_ELSEWHERE = (
    "this clock is stepped in another event loop; await aadvance and adrain in coroutines, or call"
    " advance and drain everywhere"
)
IN_MEMORY = "memory://"


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


class FinishedAttempt:
    """One ended attempt: the job after it, its outcome, and its start."""

    def __init__(self, job: Job, outcome: Outcome, at: datetime) -> None:
        self.job = job
        self.outcome = outcome
        self.at = at

    def __repr__(self) -> str:
        return f"{lane_of(self.job.target)} at {self.at:%Y-%m-%d %H:%M:%S}Z: {self.outcome}"


class RecordingTelemetry(NullTelemetry):
    """A telemetry that records ended attempts."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ran: list[FinishedAttempt] = []
        self.errors: list[BaseException] = []

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None:
        self.ran.append(FinishedAttempt(job, outcome, job.started_at or self.clock.now()))

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None:
        for success in ended:
            self.ended(settled(success), Succeeded(success.result), success.seconds)

    def unplannable(self, schedule: Schedule, error: BaseException) -> None:
        self.errors.append(error)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        self.errors.append(error)


class MishapRates(TypedDict, total=False):
    """The chances of mishaps of one attempt, each from 0 to 1."""

    crashes: float
    store_errors: float
    lost_answers: float
    target_timeouts: float


class VirtualRun:
    """A program under test: its tasks and schedules on a store of its own and a virtual clock.

    `advance` moves the clock from one due instant to the next and runs the jobs due at each;
    `drain` runs the jobs due now. Handlers run for real, at one instant after another; their own
    timeouts use real time. The `a`-forms are for coroutines.
    """

    def __init__(self, backend: Backend, at: datetime, url: str = IN_MEMORY) -> None:
        self.store = TrialStore(open_store(url))
        self.backend = backend
        self.clock = ManualClock(at)
        self.recorder = RecordingTelemetry(self.clock)
        self.saved = (backend.store, backend.clock, backend.telemetry, backend.is_open)
        self.replace_parts(cast("Store", self.store), self.clock, self.recorder, is_open=False)
        self.running: RunningApp | None = None
        self.loop: asyncio.AbstractEventLoop | None = None  # in which it was opened
        self.begun = at
        self.is_draining = False
        self.is_closed = False
        self.waits_before = backend.run_due_jobs
        backend.run_due_jobs = self.run_due_jobs

    def replace_parts(
        self, store: Store, clock: Clock, telemetry: Telemetry, *, is_open: bool
    ) -> None:
        backend = self.backend
        backend.store, backend.clock, backend.telemetry = store, clock, telemetry
        backend.is_open = is_open

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.backend.wait_for(self.aclose())

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
    def ran(self) -> Sequence[FinishedAttempt]:
        """All ended attempts, in order."""
        return tuple(self.recorder.ran)

    def ran_of(self, task: AnyTask | Callable[..., Any] | str) -> Sequence[FinishedAttempt]:
        name = task_name(task)
        return tuple(ran for ran in self.recorder.ran if lane_of(ran.job.target) == name)

    def assert_ran(
        self, task: AnyTask | Callable[..., Any] | str, times: int | None = None
    ) -> None:
        """Raises AssertionError, listing what ran, unless `task` ran (`times` times, if given)."""
        name = task_name(task)
        result = len(self.ran_of(name))
        wanted = "at least once" if times is None else f"{times} times"
        fits = result > 0 if times is None else result == times
        assert fits, f"{name} should have run {wanted}, and ran {result} times; ran: {self.ran}"

    def assert_enqueued(
        self,
        task: AnyTask | Callable[..., Any] | str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        times: int | None = None,
    ) -> None:
        """Raises AssertionError, listing what was sent, unless the program sent such a job.

        What is None matches all; with `args` and without `kwargs` there must be no keywords. A job
        counts whether it has run or not; those of schedules do not count.
        """
        self.backend.wait_for(
            self.aassert_enqueued(task, args=args, kwargs=kwargs, queue=queue, times=times)
        )

    async def aassert_enqueued(
        self,
        task: AnyTask | Callable[..., Any] | str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        times: int | None = None,
    ) -> None:
        """As `assert_enqueued`, from a coroutine."""
        await self.backend.open()
        sent = await sent_jobs(self.backend, task_name(task), self.begun)
        fitting = [job for job in sent if job.fits(args, kwargs, queue)]
        wanted = "at least once" if times is None else f"{times} times"
        fits = bool(fitting) if times is None else len(fitting) == times
        looked_for = SentJob(task_name(task), args, kwargs, queue)
        assert fits, f"{looked_for} should have been sent {wanted}; sent: {sent}"

    def crash_worker(
        self,
        after: str,
        task: AnyTask | Callable[..., Any] | str | None = None,
        *,
        times: int = 1,
    ) -> None:
        """Let the worker of the next attempt (of `task`) die, and that of the one after, `times`.

        `after="claim"`: before the handler begins. `"run"`: when it has returned, and its outcome
        is not stored. `"settle"`: when that is stored. Another worker then takes the job back; what
        the handler has done so far stays done. Raises `Invalid`.
        """
        if after not in CRASHES:
            raise Invalid(f"after is one of {', '.join(CRASHES)}", field="after")
        if times < 1:
            raise Invalid("times is at least 1", field="times")
        name = None if task is None else task_name(task)
        self.store.armed.append(ArmedCrash(Mishap(after), name, times))

    def faults(self, seed: int, **rates: Unpack[MishapRates]) -> None:
        """From now on let attempts meet with mishaps, by chances from 0 to 1 and a seed.

        `crashes` of workers at any of the three points; `store_errors` and `lost_answers` of the
        store when it is given an outcome; `target_timeouts`: the target has done its work, and its
        answer is lost. Chance leaves each job its last attempt. Without any the faults end. Raises
        `Invalid`.
        """
        self.store.generator = Random(seed)  # noqa: S311  repeatable on purpose
        self.store.rates = FaultRates(**rates) if rates else None

    def advance(self, by: Span) -> None:
        """Let `by` pass."""
        self.backend.wait_for(self.aadvance(by))

    async def aadvance(self, by: Span) -> None:
        wanted = span("by", by)
        assert wanted is not None
        await self.aadvance_to(self.clock.now() + wanted)

    def advance_to(self, at: datetime | str) -> None:
        """Let time pass until `at`, which may be given as in `testing`."""
        self.backend.wait_for(self.aadvance_to(at))

    async def aadvance_to(self, at: datetime | str) -> None:
        end = instant(at)
        for _ in range(ROUNDS_MAX):
            following = await self.adrain()
            if following is None or following > end:
                break
            self.clock.set(max(following, self.clock.now()))
        self.clock.set(max(end, self.clock.now()))
        await self.adrain()

    def drain(self) -> None:
        """Run all jobs that are due now, and jobs that become due through them."""
        self.backend.wait_for(self.adrain())

    async def adrain(self) -> datetime | None:
        """The same; returns when the next job is due."""
        was_draining, self.is_draining = self.is_draining, True
        try:
            return await self.run_rounds()
        finally:
            self.is_draining = was_draining

    async def run_due_jobs(self, id: JobId) -> None:
        """Before a caller waits for the end of a job, which nothing else would bring about.

        Raises TimeoutError where the clock must be moved first.
        """
        if self.is_draining:
            return  # by a handler, or beside one: the job goes on meanwhile
        await self.adrain()
        if await self.backend.finished_job(id) is None:
            raise TimeoutError(
                f"job {id} has not ended at {self.now}, and time stands still; use `advance`"
            )

    async def run_rounds(self) -> datetime | None:
        running = await self.ensure_open()
        runtime = running.runtime
        for _ in range(ROUNDS_MAX):
            await running.outages.step()
            planned = await runtime.planner.plan_due() + await runtime.planner.judge_overdue()
            planned += await runtime.planner.continue_cascades()
            planned += await runtime.router.route_next()
            count, due_at = await runtime.dispatcher.dispatch_due()
            if count or self.store.lost:
                await runtime.worker.idle.wait()
                await running.telemetry.finish()
                await runtime.job_log.flush()
                await self.store.rescue(self.clock.now())
            elif not planned and not await self.look_after(runtime):
                return await self.next_event(due_at)
        raise Invalid(f"there was always more to do in {ROUNDS_MAX} rounds at {self.now}")

    async def look_after(self, runtime: Runtime) -> bool:
        """What a running program looks after every few seconds; whether that made work."""
        await runtime.faults.flush()
        closed = await runtime.planner.close_flows()
        moved = await runtime.bulks.step() == 0.0
        await runtime.lateness.step()
        routed = await runtime.router.route_next()
        return bool(closed or moved or routed)

    async def next_event(self, due_at: datetime | None) -> datetime | None:
        store = self.backend.store
        bulk = await store.next_bulk()
        bulk_at = None if bulk is None else bulk.next_at
        times = [at for at in (due_at, await store.next_plan_at(), bulk_at) if at is not None]
        return min(times) if times else None

    async def ensure_open(self) -> RunningApp:
        """The loops' parts, ready to be stepped; no loop runs by itself.

        Raises RuntimeError in another event loop than the first time.
        """
        loop = asyncio.get_running_loop()
        if self.running is None:
            self.loop = loop
            await self.backend.open()
            await self.backend.put_declared()
            self.running = RunningApp(self.backend)
            await self.running.open()
            await self.running.runtime.heartbeat.renew_leases()
        elif loop is not self.loop:
            raise RuntimeError(STEPPED_ELSEWHERE)
        return self.running

    async def aclose(self) -> None:
        """Restore the store and clock of the `Onbeat`; a second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self.backend.run_due_jobs = self.waits_before
        if self.running is not None:
            await self.running.close()
        replacement = self.backend.store
        store, clock, telemetry, is_open = self.saved
        self.replace_parts(store, clock, telemetry, is_open=is_open)
        await replacement.close()


def instant(at: datetime | str) -> datetime:
    """An aware instant, from a datetime or RFC 3339 text. Raises `Invalid`."""
    try:
        result = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise Invalid(f"at: {error}", field="at") from error
    if result.tzinfo is None:
        raise Invalid("at needs an offset, such as 2026-03-28T23:00+01:00", field="at")
    return result.astimezone(UTC)


def task_name(task: AnyTask | Callable[..., Any] | str) -> str:
    """The name of a task; `@beat.schedule` returns a task too, though typed as a function."""
    if isinstance(task, Task):
        return cast("AnyTask", task).name
    if isinstance(task, str):
        return task
    raise TypeError(f"{task!r} is no task; give one, or its name")
