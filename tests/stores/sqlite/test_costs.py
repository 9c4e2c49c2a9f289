"""That work does not grow with what is in nobody's way, counted in steps of SQLite's machine."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import apsw
import pytest

from onbeat.model.ids import WorkerId
from onbeat.model.outcome import Released
from onbeat.model.page import OccurrenceFilter
from onbeat.model.queue import Limits, Rate
from onbeat.model.worker import remote_id
from onbeat.rules.fairness import KEPT
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs import lateness
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import HOUR, MINUTE, NOW, a_job, a_plan, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import a_request, a_settlement

FEW = 10
MANY = 2_000
TICK = 10  # steps
MARGIN = 1.2  # the rows of an index lie on more pages when there are more of them


async def steps_of(db: apsw.Connection | None, work: Callable[[], Awaitable[object]]) -> int:
    """What the work costs on this connection, once its statements are prepared."""
    assert db is not None
    await work()
    ticks = 0

    def tick() -> bool:
        nonlocal ticks
        ticks += 1
        return False

    db.set_progress_handler(tick, TICK)
    await work()
    db.set_progress_handler(None)
    return ticks


async def steps_of_claim(store: SqliteStore) -> int:
    """Of a claim that finds nothing to give out."""

    async def claim() -> None:
        assert (await store.claim(a_request())).jobs == ()

    return await steps_of(store._writer._db, claim)


async def test_a_claim_does_not_grow_with_jobs_due_later(store: SqliteStore) -> None:
    await store.enqueue([a_job(due_at=NOW + HOUR) for _ in range(FEW)])
    before = await steps_of_claim(store)
    await store.enqueue([a_job(due_at=NOW + HOUR) for _ in range(MANY)])
    assert await steps_of_claim(store) <= before * MARGIN


async def test_a_claim_does_not_grow_with_a_line_that_it_may_not_take(store: SqliteStore) -> None:
    await store.enqueue([a_job("unknown") for _ in range(FEW)])
    before = await steps_of_claim(store)
    await store.enqueue([a_job("unknown") for _ in range(MANY)])
    assert await steps_of_claim(store) <= before * MARGIN


async def test_a_claim_does_not_grow_with_the_jobs_of_a_full_queue(store: SqliteStore) -> None:
    await store.limit_queue("default", Limits(concurrency=1))
    await store.enqueue([a_job() for _ in range(FEW)])
    assert len((await store.claim(a_request())).jobs) == 1
    before = await steps_of_claim(store)
    await store.enqueue([a_job() for _ in range(MANY)])
    assert await steps_of_claim(store) <= before * MARGIN


async def test_a_look_for_late_queues_does_not_grow_with_their_jobs(store: SqliteStore) -> None:
    await store.limit_queue("default", Limits(late_after=MINUTE))

    async def look() -> None:
        (watched,) = await store._transact(lateness.watched_queues, micros(NOW + HOUR))
        assert watched.oldest_due_at == NOW

    await store.enqueue([a_job(priority=number % 3) for number in range(FEW)])
    before = await steps_of(store._writer._db, look)
    await store.enqueue([a_job(priority=number % 3) for number in range(MANY)])
    assert await steps_of(store._writer._db, look) <= before * MARGIN


async def test_a_claim_does_not_grow_with_the_jobs_of_full_groups(store: SqliteStore) -> None:
    await store.limit_queue("default", Limits(group_concurrency=1))
    await store.enqueue([a_job(group=f"{number % 5}") for number in range(FEW)])
    assert len((await store.claim(a_request())).jobs) == 5
    before = await steps_of_claim(store)
    await store.enqueue([a_job(group=f"{number % 5}") for number in range(MANY)])
    assert await steps_of_claim(store) <= before * MARGIN


async def steps_of_taking(store: SqliteStore, limit: int) -> int:
    """Of a claim that takes so many jobs, before each of which what it took is waiting again."""

    async def claim() -> None:
        jobs = (await store.claim(a_request(limit=limit))).jobs
        assert len(jobs) == limit
        await store.settle([a_settlement(job, Released()) for job in jobs])

    return await steps_of(store._writer._db, claim)


@pytest.mark.parametrize("limit", [1, 10])
async def test_a_claim_by_turns_does_not_grow_with_the_jobs_of_a_group(
    store: SqliteStore, limit: int
) -> None:
    await store.limit_queue("default", Limits(fair=True))
    await store.enqueue([a_job(group=f"{number % 5}") for number in range(10 * FEW)])
    before = await steps_of_taking(store, limit)
    await store.enqueue([a_job(group="0") for _ in range(MANY)])
    assert await steps_of_taking(store, limit) <= before * MARGIN


async def test_a_claim_by_turns_costs_about_what_one_with_limits_of_groups_does(
    store: SqliteStore,
) -> None:
    await store.enqueue([a_job(group=f"{number % 50}") for number in range(MANY)])
    await store.limit_queue("default", Limits(group_concurrency=50, group_rate=Rate(50, HOUR)))
    before = await steps_of_taking(store, 10)
    await store.limit_queue("default", Limits(fair=True))
    assert await steps_of_taking(store, 10) <= before * MARGIN


async def test_turns_that_were_long_ago_are_forgotten(store: SqliteStore) -> None:
    await store.limit_queue("default", Limits(fair=True))
    await store.enqueue([a_job(group="old"), *(a_job(group="new") for _ in range(3))])
    await store.claim(a_request(limit=2))
    db = store._writer._db
    assert db is not None
    db.execute("UPDATE onbeat_turns SET turn = turn + ? WHERE grp = 'new'", (KEPT,))
    await store.claim(a_request(limit=1))
    assert db.execute("SELECT grp FROM onbeat_turns").fetchall() == [("new",)]


async def test_looking_for_lost_jobs_does_not_grow_with_timed_leases(store: SqliteStore) -> None:
    async def look() -> None:
        assert list(await store.abandoned_jobs([], NOW, 10)) == []

    async def lease(count: int) -> None:
        await store.enqueue([a_job() for _ in range(count)])
        request = a_request(worker=remote_id("far"), limit=count, lease=MINUTE)
        assert len((await store.claim(request)).jobs) == count

    await lease(FEW)
    await look()
    before = await steps_of(store._reader._db, look)
    await lease(MANY)
    assert await steps_of(store._reader._db, look) <= before * MARGIN


async def test_a_page_of_occurrences_does_not_grow_with_those_of_its_schedule(
    store: SqliteStore,
) -> None:
    schedule = a_schedule()
    await store.add_schedule(schedule, a_plan(schedule))

    async def listed() -> int:
        filter = OccurrenceFilter(schedule_id=schedule.id, ended=False)

        async def look() -> None:
            assert len((await store.occurrence_jobs(filter)).items) == filter.limit

        await look()  # which opens the reader
        return await steps_of(store._reader._db, look)

    async def backfill(first: int, count: int) -> None:
        instants = (NOW + number * MINUTE for number in range(first, first + count))
        jobs = [an_occurrence(schedule, at, due_at=NOW) for at in instants]
        assert await store.backfill(schedule.id, jobs, ()) == count

    await backfill(0, 4 * FEW)
    few = await listed()
    await backfill(4 * FEW, MANY)
    assert await listed() <= few * MARGIN


async def test_naming_queues_again_writes_nothing(store: SqliteStore) -> None:
    writer = store._writer._db
    assert writer is not None
    await store.name_queues(["a", "b"])
    before = writer.total_changes()
    await store.name_queues(["b", "a"])
    assert writer.total_changes() == before
    await store.name_queues(["a", "c"])
    assert list(await store.queue_names()) == ["a", "b", "c"]


async def test_statements_are_not_planned_anew_for_new_values(store: SqliteStore) -> None:
    await store.enqueue([a_job() for _ in range(FEW)])
    writer = store._writer._db
    assert writer is not None
    plans = 0

    def see(*_: object) -> int:
        """SQLite asks about each column while it plans a statement, and at no other time."""
        nonlocal plans
        plans += 1
        return apsw.SQLITE_OK

    writer.authorizer = see
    seen: list[int] = []
    for number in range(FEW):
        now = NOW + timedelta(seconds=number)
        request = a_request(worker=WorkerId(f"{number}"), limit=1, now=now)
        assert len((await store.claim(request)).jobs) == 1
        seen.append(plans)
    assert 0 < seen[0] == seen[-1]


@pytest.mark.parametrize("shape", ["chain", "star"])
async def test_the_cancel_of_dependents_costs_the_same_for_each(
    store: SqliteStore, shape: str
) -> None:
    async def steps_of_cancel(count: int) -> int:
        async def cancel() -> None:
            jobs = [a_job()]
            for _ in range(count):
                jobs.append(a_job(after=(jobs[-1 if shape == "chain" else 0].id,)))
            await store.enqueue(jobs)
            (cancelled,) = await store.cancel([jobs[0].id], "by hand", NOW)
            assert cancelled is not None

        return await steps_of(store._writer._db, cancel)

    assert await steps_of_cancel(1_000) <= 2 * MARGIN * await steps_of_cancel(500)
