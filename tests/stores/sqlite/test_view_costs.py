"""That what the dashboard reads does not grow with what is stored, in steps of SQLite's machine."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import LANE_DISPOSITIONS_MAX
from onbeat.model.page import JobFilter
from onbeat.model.pulse import Depth, Gauges
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import HOUR, NOW, a_job, an_id
from stores.sqlite.test_costs import FEW, MANY, MARGIN, steps_of

SCHEDULE = ScheduleId(an_id())
FLOW = JobId(an_id())
DEEP = Depth(waiting=20_000)


def of_schedule() -> Job:
    return a_job(schedule_id=SCHEDULE)


def of_flow() -> Job:
    return a_job(flow=FLOW)


async def end_many(store: SqliteStore, make: Callable[[], Job], count: int) -> None:
    jobs = [make() for _ in range(count)]
    await store.enqueue(jobs)
    await store.cancel([job.id for job in jobs], "by hand", NOW)


async def reading(store: SqliteStore, read: Callable[[], Awaitable[object]]) -> int:
    await read()  # starts the reader
    return await steps_of(store._reader._db, read)


async def test_queues_of_a_sample_do_not_grow_with_waiting_jobs(store: SqliteStore) -> None:
    sampled = Gauges(at=NOW, total=DEEP, queues={"default": DEEP})

    async def read() -> None:
        (queue,) = await store.queues(NOW, sampled)
        assert queue.waiting == DEEP.waiting
        await store.stats(NOW, {"succeeded": 0}, sampled)

    await store.enqueue([a_job() for _ in range(FEW)])
    before = await reading(store, read)
    await store.enqueue([a_job() for _ in range(MANY)])
    assert await reading(store, read) <= before * MARGIN


@pytest.mark.parametrize(
    ("make", "filter"),
    [
        (of_schedule, {"schedule_id": SCHEDULE}),
        (of_flow, {"flow": FLOW}),
        (of_schedule, {"schedule_id": SCHEDULE, "task": "none", "look": 20}),
        (of_flow, {"flow": FLOW, "task": "none", "look": 20}),
    ],
    ids=["schedule", "flow", "search in a schedule", "search in a flow"],
)
async def test_a_page_does_not_grow_with_the_ended_jobs_that_it_is_a_part_of(
    store: SqliteStore, make: Callable[[], Job], filter: dict[str, Any]
) -> None:
    async def read() -> None:
        page = await store.jobs(JobFilter(limit=5, **filter))
        assert page.cursor is not None

    await end_many(store, make, 3 * FEW)
    before = await reading(store, read)
    await end_many(store, make, MANY)
    assert await reading(store, read) <= before * MARGIN


async def test_what_covers_an_instant_is_looked_for_in_a_bounded_number_of_dispositions(
    store: SqliteStore,
) -> None:
    async def add(first: int, last: int) -> None:
        rows = [(SCHEDULE, micros(NOW) + n, micros(NOW) + n, an_id()) for n in range(first, last)]
        sql = "INSERT INTO onbeat_dispositions (schedule_id, first, last, job_id) VALUES (?,?,?,?)"
        assert store._writer._db is not None
        store._writer._db.executemany(sql, rows)

    async def read() -> None:
        assert list(await store.dispositions(SCHEDULE, NOW + HOUR, NOW + 2 * HOUR)) == []

    await add(0, LANE_DISPOSITIONS_MAX)
    before = await reading(store, read)
    await add(LANE_DISPOSITIONS_MAX, 2 * LANE_DISPOSITIONS_MAX)
    assert await reading(store, read) <= before * MARGIN


async def test_samples_without_queues_are_cut_in_the_store(store: SqliteStore) -> None:
    queues = {f"q{number:03}": DEEP for number in range(500)}
    await store.put_sample(10, Gauges(at=NOW, total=DEEP, queues=queues))
    (found,) = await store.samples(10, NOW, NOW + timedelta(seconds=10), 1, queues=False)
    assert found == Gauges(at=NOW, total=DEEP)
