import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from engine.bench import Nobody, Told, Troubled
from onbeat.app.system import SystemChance, SystemClock, identity
from onbeat.engine.runtime import Runtime, RuntimeOptions, World
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter
from onbeat.model.role import Role
from onbeat.model.target import HandlerTarget
from onbeat.recurrence import compile_spec, every
from onbeat.stores.memory import MemoryStore
from onbeat.targets.handler import Handler, Registry
from onbeat.targets.runner import HandlerRunner
from onbeat.testing.build import a_job, a_plan, a_schedule
from onbeat.transports.direct import DirectTransport
from waiting import eventually

GRACE = timedelta(seconds=5)


def now():
    return datetime.now(UTC)


def due_now(task="work", **fields):
    return a_job(task, **{"created_at": now(), "due_at": now()} | fields)


class Process:
    """One process's loops, on real time."""

    def __init__(self, store, tasks, **options) -> None:
        registry = Registry()
        for name, function in tasks.items():
            registry.add(Handler(name, function))
        self.store, self.told = store, Told()
        self.handlers = HandlerRunner(registry)
        chance = SystemChance()
        world = World(
            store=store,
            clock=SystemClock(),
            chance=chance,
            liveness=Nobody(),
            telemetry=self.told,
            runners={HandlerTarget: self.handlers},
            lanes=registry.tasks,
            identity=identity(chance.ids(1)[0], now()),
            read=compile_spec,
            transport=DirectTransport,
        )
        self.runtime = Runtime(world, RuntimeOptions(**options))

    async def reach(self, job, state):
        async def reached():
            found = await self.store.job(job.id)
            return found if found.state is state else None

        return await eventually(reached, f"the job is {state}")


@contextlib.asynccontextmanager
async def process(store=None, options=None, **tasks):
    one = Process(store or Troubled(MemoryStore()), tasks, **(options or {}))
    await one.handlers.open()
    await one.runtime.start()
    try:
        yield one
    finally:
        await one.runtime.drain(timedelta())
        await one.runtime.stop()
        await one.handlers.close()


async def test_an_idle_worker_begins_a_job_because_of_the_hint():
    began = []

    async def work():
        began.append(time.monotonic())

    async with process(work=work) as one:
        for _ in range(5):
            await eventually(lambda: one.told.of("loop_beat"), "the loops go round")
            sent = time.monotonic()
            await one.reach(await enqueued(one), JobState.SUCCEEDED)
            assert began.pop() - sent < 0.5, "sooner than the loop would have looked by itself"


async def enqueued(one, **fields):
    job = due_now(**fields)
    await one.store.enqueue([job])
    return job


async def test_a_job_for_later_begins_then_and_never_before():
    async with process(work=lambda: None) as one:
        jobs = [
            await enqueued(one, due_at=now() + timedelta(milliseconds=40 * n)) for n in range(1, 6)
        ]
        for job in jobs:
            ended = await one.reach(job, JobState.SUCCEEDED)
            assert ended.started_at >= job.due_at


async def test_a_new_schedule_is_planned_and_fires():
    async with process(work=lambda: None) as one:
        begin = now()
        schedule = a_schedule(
            recurrence=every("0.05s", start=begin).spec(),
            planned_through=begin,
            plan_at=begin,
            created_at=begin,
        )
        await one.store.add_schedule(schedule, a_plan(schedule))

        async def three():
            page = await one.store.jobs(
                JobFilter(schedule_id=schedule.id, state=JobState.SUCCEEDED, limit=100)
            )
            return len(page.items) >= 3

        await eventually(three, "three occurrences ran")


async def test_a_cancel_is_heard_of_long_before_the_next_beat():
    started = asyncio.Event()

    async def work():
        started.set()
        await asyncio.Event().wait()

    async with process(options={"lease": timedelta(hours=1)}, work=work) as one:
        job = await enqueued(one)
        await started.wait()
        await one.store.cancel([job.id], "stop", now())
        await one.reach(job, JobState.CANCELLED)


async def test_work_of_any_length_passes_through_a_few_slots():
    async with process(options={"concurrency": 3, "prefetch": 4}, work=lambda: None) as one:
        jobs = [due_now() for _ in range(200)]
        await one.store.enqueue(jobs)
        for job in jobs:
            assert (await one.reach(job, JobState.SUCCEEDED)).attempt == 1


async def test_the_jobs_of_a_process_that_is_no_more_run_in_another():
    store = Troubled(MemoryStore())
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


async def test_two_processes_share_the_work_and_run_nothing_twice():
    store, ran = Troubled(MemoryStore()), []

    async def work(n: int):
        ran.append(n)

    async with process(store, work=work), process(store, work=work) as other:
        jobs = [due_now(target=HandlerTarget("work", b"[%d]" % n)) for n in range(300)]
        await store.enqueue(jobs)
        for job in jobs:
            await other.reach(job, JobState.SUCCEEDED)
        assert sorted(ran) == list(range(300))


async def test_loops_outlive_a_store_that_is_away_for_a_while():
    async with process(work=lambda: None) as one:
        verbs = ("claim", "due_schedules", "lapsed", "workers", "beat", "prune")
        one.store.trouble.update(dict.fromkeys(verbs, 2))
        job = await enqueued(one)
        assert (await one.reach(job, JobState.SUCCEEDED)).attempt == 1


async def test_a_drained_process_claims_nothing_more_and_takes_its_row_away():
    async with process(work=lambda: None) as one:
        await one.runtime.drain(GRACE)
        job = await enqueued(one)
        await one.runtime.dispatcher.dispatch_due()
        assert (await one.store.job(job.id)).state is JobState.WAITING
        assert await one.store.workers() == ()


async def test_a_drain_waits_for_what_runs():
    started, go = asyncio.Event(), asyncio.Event()

    async def work():
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


async def test_beats_go_on_during_a_drain():
    started, go = asyncio.Event(), asyncio.Event()

    async def work():
        started.set()
        await go.wait()

    async with process(options={"lease": timedelta(milliseconds=80)}, work=work) as one:
        await enqueued(one)
        await started.wait()
        draining = asyncio.create_task(one.runtime.drain(GRACE))
        await eventually(lambda: one.runtime.worker.is_draining, "the drain begins")
        before = one.runtime.renewer.beats
        await eventually(lambda: one.runtime.renewer.beats > before + 2, "beats go on")
        go.set()
        await draining


async def test_a_drain_ends_although_the_store_cannot_take_the_row_away():
    async with process(work=lambda: None) as one:
        one.store.trouble["forget_workers"] = 1
        assert await one.runtime.drain(GRACE) == 0


async def test_a_process_that_only_plans_runs_nothing():
    roles = frozenset({Role.PLANNER})
    async with process(options={"roles": roles}, work=lambda: None) as one:
        job = await enqueued(one)
        await eventually(lambda: one.told.of("loop_beat"), "the planner goes round")
        assert (await one.store.job(job.id)).state is JobState.WAITING
        assert await one.store.workers() == ()
        assert await one.runtime.drain(GRACE) == 0


async def test_a_stopped_process_hears_no_hints():
    async with process(work=lambda: None) as one:
        await one.runtime.drain(GRACE)
        await one.runtime.stop()
        assert not one.store.inner._listeners
