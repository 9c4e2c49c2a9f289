"""Measure the PostgreSQL store alone, with the server's synchronous_commit.

    python benchmarks/store_postgres.py [--url URL] [--rounds N] [--large] [--only WORDS]

Each measure has a schema of its own, which is dropped. `--large` adds a claim beside a million
waiting jobs. WAL is the server's total in that time, without the full-page images after a
checkpoint if the server reports them.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg
import uvloop
from msgspec.structs import replace

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.ids import JobId, ScheduleId, WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.plan import Plan
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import ClaimRequest, Settlement
from onbeat.stores.postgres.store import PostgresStore

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
WORKER = WorkerId("worker")
CALLERS = 64
SCHEMA = "onbeat_bench"
# Ids of today, like real ones, so that ended jobs go to their real partition.
TODAY = int(time.time() * 1_000)

numbers = iter(range(10**9))


class Found(NamedTuple):
    value: float
    wal: float | None = None
    p99: float | None = None


Measure = Callable[[PostgresStore, str], Awaitable[Found]]


def an_id() -> str:
    number = next(numbers)
    digits = f"{TODAY + number // 100:012x}"
    return f"{digits[:8]}-{digits[8:]}-7{number % 100:03d}-8000-{number:012x}"


def some_jobs(count: int, due_at: datetime = NOW) -> list[Job]:
    target = HandlerTarget("work")
    return [
        Job(id=JobId(an_id()), target=target, created_at=NOW, due_at=due_at) for _ in range(count)
    ]


async def enqueue_by_callers(store: PostgresStore, callers: int, count: int) -> Found:
    """Each caller waits for its answer before it goes on."""
    times: list[float] = []

    async def call() -> None:
        for _ in range(count // callers):
            jobs = some_jobs(1)
            started = time.perf_counter()
            await store.enqueue(jobs)
            times.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    seconds = time.perf_counter() - started
    return Found(count / seconds, p99=statistics.quantiles(times, n=100)[98] * 1_000)


async def enqueue_in_bulk(store: PostgresStore, count: int) -> Found:
    share = [some_jobs(10_000) for _ in range(count // 10_000)]
    started = time.perf_counter()
    for jobs in share:
        await store.enqueue(jobs)
    return Found(count / (time.perf_counter() - started))


async def drain(store: PostgresStore, url: str, count: int, batch: int, lines: int = 1) -> Found:
    """Claim and settle in batches of this size, in parallel loops; WAL of a job's whole life."""
    async with wal_of(url) as wal:
        for _ in range(count // 10_000):
            await store.enqueue(some_jobs(10_000))
        started = time.perf_counter()
        done = sum(await asyncio.gather(*(line(store, batch) for _ in range(lines))))
        seconds = time.perf_counter() - started
    assert done == count
    return Found(count / seconds, wal=wal[0] / count)


async def line(store: PostgresStore, batch: int) -> int:
    request = ClaimRequest(worker=WORKER, now=NOW, limit=batch, lanes=frozenset({"work"}))
    done = 0
    while jobs := (await store.claim(request)).jobs:
        answers = await store.settle([settlement(job) for job in jobs])
        assert all(answers)
        done += len(jobs)
    return done


def settlement(job: Job) -> Settlement:
    assert job.started_at is not None
    attempt = Attempt(
        job_id=job.id,
        token=job.token,
        number=job.attempt,
        worker=job.worker,
        started_at=job.started_at,
        finished_at=NOW,
        outcome=OutcomeName.SUCCEEDED,
    )
    ended = replace(job, state=JobState.SUCCEEDED, worker=None, finished_at=NOW)
    return Settlement(job=ended, attempt=attempt)


async def claim_milliseconds(store: PostgresStore, waiting: int) -> Found:
    """A claim of 100 with this number of jobs waiting in one lane, half of them due."""
    for due_at in (NOW, NOW + timedelta(days=1)):
        for _ in range(waiting // 20_000):
            await store.enqueue(some_jobs(10_000, due_at))
    request = ClaimRequest(worker=WORKER, now=NOW, limit=100, lanes=frozenset({"work"}))
    times = []
    for _ in range(50):
        started = time.perf_counter()
        assert len((await store.claim(request)).jobs) == 100
        times.append((time.perf_counter() - started) * 1_000)
    return Found(statistics.median(times), p99=max(times))


async def fire(store: PostgresStore, count: int, batch: int = 500) -> Found:
    """Plans of one occurrence each, as the planner stores them when schedules are due."""
    every = [a_schedule() for _ in range(batch)]
    for schedule in every:
        await store.add_schedule(schedule, a_plan(schedule, NOW))
    started = time.perf_counter()
    for number in range(count // batch):
        at = NOW + timedelta(seconds=number + 1)
        plans = [a_plan(schedule, at, an_occurrence(schedule, at)) for schedule in every]
        assert all(await store.apply_plans(plans))
    return Found(count / (time.perf_counter() - started))


def a_schedule() -> Schedule:
    return Schedule(
        id=ScheduleId(an_id()),
        name="every second",
        recurrence=RecurrenceSpec(kind="every", text="1s"),
        target=HandlerTarget("work"),
        created_at=NOW,
        updated_at=NOW,
        planned_through=NOW,
        plan_at=NOW,
    )


def a_plan(schedule: Schedule, through: datetime, *jobs: Job) -> Plan:
    return Plan(
        schedule_id=schedule.id,
        version=1,
        planned_through=through,
        plan_at=through + timedelta(seconds=1),
        jobs=jobs,
    )


def an_occurrence(schedule: Schedule, at: datetime) -> Job:
    (job,) = some_jobs(1, at)
    return replace(job, schedule_id=schedule.id, occurrence=at)


@contextlib.asynccontextmanager
async def wal_of(url: str) -> AsyncGenerator[list[float], None]:
    """Bytes of WAL of the whole server during the block."""
    db = await asyncpg.connect(url)
    result: list[float] = []
    try:
        await db.execute("CHECKPOINT")
        before = await db.fetchval("SELECT pg_current_wal_insert_lsn()::text")
        yield result
        bytes_ = await db.fetchval(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8", before
        )
        result.append(bytes_)
    finally:
        await db.close()


async def alone(url: str, measure: Measure) -> Found:
    db = await asyncpg.connect(url)
    try:
        await db.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        store = PostgresStore(f"{url}{'&' if '?' in url else '?'}schema={SCHEMA}")
        await store.open()
        try:
            return await measure(store, url)
        finally:
            await store.close()
            await db.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    finally:
        await db.close()


MEASURES: tuple[tuple[str, str, Measure], ...] = (
    ("enqueue, 1 caller", "jobs/s", lambda store, _: enqueue_by_callers(store, 1, 4_000)),
    ("enqueue, 64 callers", "jobs/s", lambda store, _: enqueue_by_callers(store, CALLERS, 64_000)),
    ("enqueue, bulk of 10,000", "jobs/s", lambda store, _: enqueue_in_bulk(store, 200_000)),
    ("claim 100 + settle 100", "jobs/s", lambda store, url: drain(store, url, 50_000, 100)),
    ("claim 500 + settle 500", "jobs/s", lambda store, url: drain(store, url, 100_000, 500)),
    ("the same, 2 lines", "jobs/s", lambda store, url: drain(store, url, 100_000, 500, 2)),
    ("plans of 500 schedules", "fires/s", lambda store, _: fire(store, 20_000)),
    ("claim 100 of 10,000 jobs", "ms", lambda store, _: claim_milliseconds(store, 20_000)),
)
LARGE = ("claim 100 of 1,000,000 jobs", "ms", lambda store, _: claim_milliseconds(store, 1_000_000))


def report(url: str, rounds: int, measures: tuple[tuple[str, str, Measure], ...]) -> None:
    for name, unit, measure in measures:
        times = 1 if name == LARGE[0] else rounds
        result = [uvloop.run(alone(url, measure)) for _ in range(times)]
        values = [one.value for one in result]
        line = f"{name:30} {statistics.median(values):12,.2f} {unit:8}"
        line += f"({min(values):,.2f} to {max(values):,.2f})"
        if result[0].p99 is not None:
            line += f", p99 {statistics.median(one.p99 or 0 for one in result):.2f} ms"
        if result[0].wal is not None:
            line += f", {statistics.median(one.wal or 0 for one in result):,.0f} B of WAL a job"
        print(line, flush=True)


async def server(url: str) -> str:
    db = await asyncpg.connect(url)
    try:
        names = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "autovacuum")
        return ", ".join([f"{name} {await db.fetchval(f'SHOW {name}')}" for name in names])
    finally:
        await db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default=os.environ.get("ONBEAT_BENCH_POSTGRES", DEFAULT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {asyncio.run(server(options.url))}")
    print(f"median of {options.rounds} (least to most)")
    measures = (*MEASURES, LARGE) if options.large else MEASURES
    wanted = tuple(measure for measure in measures if options.only in measure[0])
    report(options.url, options.rounds, wanted)


DEFAULT = "postgresql://postgres@127.0.0.1:5432/postgres"

if __name__ == "__main__":
    main()
