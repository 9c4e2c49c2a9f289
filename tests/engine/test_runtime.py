import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from conditions import eventually
from engine.harness import FaultyStore, NullLiveness, RecordingTelemetry
from onbeat.app.system import SystemClock, SystemRandomness, identity
from onbeat.engine import dispatcher, router
from onbeat.engine import runtime as runtime_module
from onbeat.engine.dependencies import Dependencies
from onbeat.engine.options import RuntimeOptions
from onbeat.engine.runtime import Runtime
from onbeat.engine.worker import SHUT_DOWN
from onbeat.model.event import Event
from onbeat.model.job import Job, JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.model.page import JobFilter
from onbeat.model.role import Role
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import ClaimRequest
from onbeat.recurrence import compile_spec, every
from onbeat.stores.memory import MemoryStore
from onbeat.targets.handler import Handler, Registry
from onbeat.targets.runner import HandlerRunner
from onbeat.testing.build import a_job, a_plan, a_schedule
from rules.reactions import a_reaction

GRACE = timedelta(seconds=5)


def now() -> datetime:
    return datetime.now(UTC)


def due_now(task: str = "work", **fields: Any) -> Job:
    return a_job(task, **{"created_at": now(), "due_at": now()} | fields)


class Process:
    """One process's loops, on real time."""

    def __init__(self, store: FaultyStore, tasks: dict[str, Any], **options: Any) -> None:
        registry = Registry()
        for name, function in tasks.items():
            registry.add(Handler(name, function))
        self.store, self.told = store, RecordingTelemetry()
        self.handlers = HandlerRunner(registry)
        chance = SystemRandomness()
        world = Dependencies(
            store=store,
            clock=SystemClock(),
            randomness=chance,
            liveness=NullLiveness(),
            telemetry=self.told,
            runners={HandlerTarget: self.handlers},
            lanes=registry.tasks,
            identity=identity(chance.ids(1)[0], now()),
            compile=compile_spec,
        )
        self.runtime = Runtime(world, RuntimeOptions(**options))

    async def reach(self, job: Job, state: JobState) -> Job:
        async def reached() -> Job | None:
            stored = await self.store.job(job.id)
            return stored if stored.state is state else None

        return await eventually(reached, f"the job is {state}")


@contextlib.asynccontextmanager
async def process(
    store: FaultyStore | None = None, options: dict[str, Any] | None = None, **tasks: Any
) -> AsyncIterator[Any]:
    one = Process(store or FaultyStore(MemoryStore()), tasks, **(options or {}))
    await one.handlers.open()
    await one.runtime.start()
    try:
        yield one
    finally:
        await one.runtime.drain(timedelta())
        await one.runtime.stop()
        await one.handlers.close()


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop that has nothing to do looks again by itself while a test runs."""
    seldom = partial(dispatcher.seconds_until, most=3600.0)
    monkeypatch.setattr(dispatcher, "seconds_until", seldom)
    monkeypatch.setattr(router, "ROUTE_PERIOD", 3600.0)


@pytest.mark.usefixtures("only_hints")
async def test_an_idle_worker_begins_a_job_because_of_the_hint() -> None:
    async with process(work=lambda: None) as one:
        for _ in range(5):
            await eventually(
                lambda: ("dispatcher",) in one.told.of("loop_beat"), "the loop has looked"
            )
            await one.reach(await enqueued(one), JobState.SUCCEEDED)


async def enqueued(process: Process, **fields: Any) -> Job:
    job = due_now(**fields)
    await process.store.enqueue([job])
    return job


async def test_a_job_for_later_begins_then_and_never_before() -> None:
    async with process(work=lambda: None) as one:
        jobs = [
            await enqueued(one, due_at=now() + timedelta(milliseconds=40 * n)) for n in range(1, 6)
        ]
        for job in jobs:
            ended = await one.reach(job, JobState.SUCCEEDED)
            assert ended.started_at >= job.due_at


@pytest.mark.usefixtures("only_hints")
async def test_an_event_becomes_a_job_because_of_the_hint() -> None:
    async with process(work=lambda: None) as one:
        schedule = a_reaction()
        await one.store.add_schedule(schedule, a_plan(schedule))
        await eventually(
            lambda: ("router",) in one.told.of("loop_beat"), "the router looked for events"
        )
        event = Event(id="e", source="/shop", type="paid", time=now())
        await one.store.publish([event], now())

        async def made() -> Job | None:
            page = await one.store.jobs(JobFilter(limit=1, state=JobState.SUCCEEDED))
            return page.items[0] if page.items else None

        job: Job = await eventually(made, "its job succeeded")
        assert job.schedule_id == schedule.id


async def test_a_new_schedule_is_planned_and_fires() -> None:
    async with process(work=lambda: None) as one:
        begin = now()
        schedule = a_schedule(
            recurrence=every("0.05s", start=begin).spec(),
            planned_through=begin,
            plan_at=begin,
            created_at=begin,
        )
        await one.store.add_schedule(schedule, a_plan(schedule))

        async def three() -> bool:
            page = await one.store.jobs(
                JobFilter(schedule_id=schedule.id, state=JobState.SUCCEEDED, limit=100)
            )
            return len(page.items) >= 3

        await eventually(three, "three occurrences ran")


async def test_a_cancel_is_heard_of_long_before_the_next_beat() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async with process(options={"lease": timedelta(hours=1)}, work=work) as one:
        job = await enqueued(one)
        await started.wait()
        await one.store.cancel([job.id], "stop", now())
        await one.reach(job, JobState.CANCELLED)


async def test_work_of_any_length_passes_through_a_few_slots() -> None:
    async with process(options={"concurrency": 3, "prefetch": 4}, work=lambda: None) as one:
        jobs = [due_now() for _ in range(200)]
        await one.store.enqueue(jobs)
        for job in jobs:
            assert (await one.reach(job, JobState.SUCCEEDED)).attempt == 1


async def test_the_jobs_of_a_process_that_is_no_more_run_in_another() -> None:
    store = FaultyStore(MemoryStore())
    async with process(store, work=lambda: None) as one:
        job = replace(
            due_now(),
            state=JobState.RUNNING,
            attempt=1,
            token=1,
            worker="a worker without a row",
            started_at=now(),
        )
        await store.enqueue([job])
        ended = await one.reach(job, JobState.SUCCEEDED)
        assert (ended.lost, ended.attempt) == (1, 2)


async def test_two_processes_share_the_work_and_run_nothing_twice() -> None:
    store, ran = FaultyStore(MemoryStore()), []

    async def work(n: int) -> None:
        ran.append(n)

    async with process(store, work=work), process(store, work=work) as other:
        jobs = [due_now(target=HandlerTarget("work", msgspec.Raw(b"[%d]" % n))) for n in range(300)]
        await store.enqueue(jobs)
        for job in jobs:
            await other.reach(job, JobState.SUCCEEDED)
        assert sorted(ran) == list(range(300))


async def test_loops_outlive_a_store_that_is_away_for_a_while() -> None:
    async with process(work=lambda: None) as one:
        verbs = ("claim", "due_schedules", "overdue_jobs", "workers", "heartbeat", "prune")
        one.store.trouble.update(dict.fromkeys(verbs, 2))
        job = await enqueued(one)
        assert (await one.reach(job, JobState.SUCCEEDED)).attempt == 1


async def test_a_drained_process_claims_nothing_more_and_takes_its_row_away() -> None:
    async with process(work=lambda: None) as one:
        await one.runtime.drain(GRACE)
        job = await enqueued(one)
        await one.runtime.dispatcher.dispatch_due()
        assert (await one.store.job(job.id)).state is JobState.WAITING
        assert await one.store.workers() == ()


async def test_a_drain_waits_for_what_runs() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        await go.wait()

    async with process(work=work) as one:
        job = await enqueued(one)
        await started.wait()
        draining = asyncio.create_task(one.runtime.drain(GRACE))
        await eventually(lambda: one.runtime.worker.is_draining, "the drain begins")
        go.set()
        assert await draining == 0
        assert (await one.store.job(job.id)).state is JobState.SUCCEEDED


async def test_a_drain_does_not_wait_for_a_claim_that_gets_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime_module, "CLAIM_PATIENCE", 0.05)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def unanswered(_: Any) -> Any:
        asked.set()
        await answered.wait()

    async with process(work=lambda: None) as one:
        with monkeypatch.context() as patch:
            patch.setattr(one.store.inner, "claim", unanswered)
            await enqueued(one)
            await asked.wait()
            assert await one.runtime.drain(timedelta()) == 0
        assert not answered.is_set()
        assert await one.store.workers() == ()


async def test_jobs_of_a_claim_that_is_answered_during_a_drain_go_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    ran = []

    async with process(work=lambda: ran.append(1)) as one:
        claim = one.store.inner.claim

        async def answered_late(request: ClaimRequest) -> Any:
            answer = await claim(request)
            if answer.jobs:
                asked.set()
                await answered.wait()
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(one.store.inner, "claim", answered_late)
            job = await enqueued(one)
            await asked.wait()
            draining = asyncio.create_task(one.runtime.drain(GRACE))
            await eventually(lambda: one.runtime.worker.is_draining, "the drain begins")
            answered.set()
            assert await draining == 0
        stored = await one.store.job(job.id)
        assert (stored.state, stored.reason) == (JobState.WAITING, SHUT_DOWN)
        assert ran == []


async def test_beats_go_on_during_a_drain() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        await go.wait()

    async with process(options={"lease": timedelta(milliseconds=80)}, work=work) as one:
        await enqueued(one)
        await started.wait()
        draining = asyncio.create_task(one.runtime.drain(GRACE))
        await eventually(lambda: one.runtime.worker.is_draining, "the drain begins")
        before = one.runtime.heartbeat.beats
        await eventually(lambda: one.runtime.heartbeat.beats > before + 2, "beats go on")
        go.set()
        await draining


async def test_a_drain_ends_although_the_store_cannot_take_the_row_away() -> None:
    async with process(work=lambda: None) as one:
        one.store.trouble["forget_workers"] = 1
        assert await one.runtime.drain(GRACE) == 0


async def test_a_process_that_only_plans_runs_nothing() -> None:
    roles = frozenset({Role.PLANNER})
    async with process(options={"roles": roles}, work=lambda: None) as one:
        job = await enqueued(one)
        await eventually(lambda: one.told.of("loop_beat"), "the planner goes round")
        assert (await one.store.job(job.id)).state is JobState.WAITING
        assert await one.store.workers() == ()
        assert await one.runtime.drain(GRACE) == 0


async def test_a_stopped_process_hears_no_hints() -> None:
    async with process(work=lambda: None) as one:
        await one.runtime.drain(GRACE)
        await one.runtime.stop()
        assert not one.store.inner._listeners


async def test_dependents_that_one_transaction_left_over_are_cancelled_by_the_loop() -> None:
    async with process(work=lambda: None) as one:
        head = due_now(due_at=now() + timedelta(hours=1))
        dependents = [due_now(after=(head.id,)) for _ in range(DEPENDENTS_MAX + 1)]
        await one.store.enqueue([head, *dependents])
        await one.store.cancel([head.id], "by hand", now())
        assert (await one.store.stats(now())).jobs[JobState.WAITING] == 1

        async def none_waits() -> bool:
            return (await one.store.stats(now())).jobs[JobState.WAITING] == 0

        await eventually(none_waits, "the rest is cancelled")
