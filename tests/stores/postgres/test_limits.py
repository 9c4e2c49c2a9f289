"""What limits cost a claim, and that what runs is counted however it came to run."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.queue import NO_LIMITS, Limits, Rate
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Hint
from onbeat.rules.fairness import KEPT
from onbeat.stores.postgres import limited_claim
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.testing.build import DAY, HOUR, NOW, SECOND, a_job, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import (
    a_request,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    slow_jobs,
)
from stores.postgres.test_hints import subscribed

ENTRIES_READ = """
    SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid))::integer
    FROM pg_index WHERE indrelid = 'jobs'::regclass
      AND indexrelid IS DISTINCT FROM to_regclass($1)
"""


class Claimant:
    """Claims ten on one connection, which keeps the plans that it made while nothing was there.

    `aside`: an index at whose entries it looks without counting them.
    """

    def __init__(self, db: Any, aside: str) -> None:
        self.db = db
        self.aside = aside

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, database: str, aside: str = "none") -> AsyncGenerator["Claimant", None]:
        db = await connect(parse_dsn(database))
        claimant = cls(db, aside)
        try:
            await claimant.claim()
            yield claimant
        finally:
            await db.close()

    async def claim(self) -> tuple[list[str], int]:
        """What it starts, and at how many entries of indexes it looks; it takes that back."""
        before = await self.entries_read()
        await self.db.execute("BEGIN")
        bite = await limited_claim.take(Transaction(self.db), a_request(limit=10), 10, 60)
        after = await self.entries_read()
        await self.db.execute("ROLLBACK")
        return ids_of(bite.jobs), after - before

    async def entries_read(self) -> int:
        return int(await self.db.fetchval(ENTRIES_READ, self.aside))


async def execute(database: str, sql: str) -> None:
    db = await asyncpg.connect(database)
    try:
        await db.execute(sql)
    finally:
        await db.close()


async def value(database: str, sql: str) -> Any:
    db = await asyncpg.connect(database)
    try:
        return await db.fetchval(sql)
    finally:
        await db.close()


CROWD = """
    INSERT INTO onbeat.jobs (id, created_at, due_at, queue, priority, lane, spec, grp)
    SELECT gen_random_uuid(), 0, 0, queue, -(number % 2), lane, '{{"group":"a"}}', grp
    FROM generate_series(1, {count}) AS number,
         (VALUES ('slow', 'work', 'full'), ('slow', 'unknown', 'b'), ('slow', 'unknown', NULL),
                 ('shut', 'work', NULL), ('free', 'unknown', 'c')) AS made (queue, lane, grp)
"""


@pytest.mark.parametrize("analysed", ["empty", "waiting", "crowded"])
async def test_what_limits_hold_back_costs_a_claim_nothing(
    store: PostgresStore, database: str, analysed: str
) -> None:
    """Whenever the server took the statistics by which it chooses the indexes."""
    await execute(database, "VACUUM ANALYZE onbeat.jobs")
    async with Claimant.of(database) as claimant:
        await hold_back(store, database, claimant, analysed)


async def hold_back(store: PostgresStore, database: str, claimant: Claimant, analysed: str) -> None:
    await store.limit_queue("slow", Limits(group_concurrency=1))
    await store.limit_queue("shut", Limits(rate=Rate(1, DAY)))
    await store.enqueue([a_job(queue="shut"), a_job(queue="slow", group="full")])
    assert len(await claim_jobs(store)) == 2
    jobs = [*slow_jobs(6), *slow_jobs(1, group="b"), *slow_jobs(1, group="c")]
    free = [a_job(queue="free", group="c"), a_job(queue="free")]
    await store.enqueue([*jobs, *free])
    await execute(database, CROWD.format(count=1))
    if analysed == "waiting":
        await execute(database, "ANALYZE onbeat.jobs")
    few, before = await claimant.claim()
    await execute(database, CROWD.format(count=10_000))
    if analysed == "crowded":
        await execute(database, "ANALYZE onbeat.jobs")
    many, after = await claimant.claim()
    assert few == many == ids_of([*jobs, *free])
    assert after - before < 100, "cost grows with what a claim may not take"


async def test_what_runs_elsewhere_costs_a_claim_nothing_in_time(
    store: PostgresStore, database: str
) -> None:
    await store.enqueue([a_job(queue="elsewhere") for _ in range(2_000)])
    # Statistics of a moment when nothing ran.
    await execute(database, "VACUUM ANALYZE onbeat.jobs")
    # How long dead entries of what waited stay is up to whatever else runs on the server.
    async with Claimant.of(database, aside="jobs_due") as claimant:
        await run_elsewhere(store, database, claimant)


async def run_elsewhere(store: PostgresStore, database: str, claimant: Claimant) -> None:
    await store.enqueue(slow_jobs(2))
    await claim_jobs(store, limit=2_002)
    await store.limit_queue("slow", Limits(concurrency=4))
    await store.enqueue(slow_jobs(5))
    started, counted_by_looking = await claimant.claim()
    await execute(database, "UPDATE onbeat.queues SET limited_at = now() - interval '1 hour'")
    assert len(await claim_jobs(store, limit=1)) == 1
    started_later, counted_by_index = await claimant.claim()
    assert (len(started), len(started_later)) == (2, 1)
    assert counted_by_looking > 2_000
    assert counted_by_index < 200


async def grow_old(database: str) -> None:
    """Let the limits of all queues have been there for so long that what runs can be marked."""
    await execute(database, "UPDATE onbeat.queues SET limited_at = now() - interval '1 hour'")


async def test_every_way_to_start_is_counted(store: PostgresStore, database: str) -> None:
    schedule = a_schedule(queue="slow", overlap=Overlap.WAIT)
    await add_planned(store, schedule, an_occurrence(schedule, NOW - SECOND))
    await store.limit_queue("slow", Limits(concurrency=3))
    await store.enqueue([*slow_jobs(1), *slow_jobs(1, group="a")])
    await grow_old(database)
    assert len(await claim_jobs(store)) == 3
    assert await value(database, "SELECT count(*) FROM onbeat.jobs WHERE counted") == 3
    await store.enqueue(slow_jobs(3))
    assert await claim_jobs(store) == ()


async def test_limits_that_are_lifted_and_set_again_count_what_began_between(
    store: PostgresStore, database: str
) -> None:
    await store.limit_queue("slow", Limits(concurrency=1))
    await store.enqueue(slow_jobs(1))
    await grow_old(database)
    (first,) = await claim_jobs(store)
    await store.limit_queue("slow", NO_LIMITS)
    await store.enqueue(slow_jobs(2))
    assert len(await claim_jobs(store)) == 2
    await store.limit_queue("slow", Limits(concurrency=3))
    await store.enqueue(slow_jobs(3))
    assert await claim_jobs(store) == ()
    await grow_old(database)
    assert await claim_jobs(store) == ()
    await end(store, first)
    assert len(await claim_jobs(store)) == 1


async def test_a_queue_that_another_claimant_holds_is_left_out(
    store: PostgresStore, database: str
) -> None:
    await store.limit_queue("slow", Limits(concurrency=1))
    await store.enqueue([*slow_jobs(1, priority=-1), a_job()])
    db = await asyncpg.connect(database)
    await db.execute("BEGIN; SELECT 1 FROM onbeat.queues WHERE name = 'slow' FOR UPDATE")
    answer = await store.claim(a_request())
    await db.close()
    assert [job.queue for job in answer.jobs] == ["default"]
    assert answer.next_due_at == NOW + limited_claim.LOOK_AGAIN
    assert [job.queue for job in await claim_jobs(store)] == ["slow"]


async def test_an_end_in_a_limited_queue_is_told_to_other_processes(
    store: PostgresStore, other: PostgresStore, database: str
) -> None:
    await store.enqueue(slow_jobs(2))
    first, second = await claim_jobs(store)
    ear = await subscribed(other, database)
    await end(store, first)
    await store.limit_queue("slow", Limits(concurrency=1))
    await ear.hears(Hint.JOBS)
    ear.heard.clear()
    await end(store, second)
    await ear.hears(Hint.JOBS)
    ear.stop()


async def test_an_end_where_nothing_is_limited_tells_nobody_to_claim(
    store: PostgresStore, other: PostgresStore, database: str
) -> None:
    await store.enqueue(slow_jobs(1))
    (job,) = await claim_jobs(store)
    ear = await subscribed(other, database)
    await end(store, job)
    await store.cancel([(await running_in(store)).id], "by hand", NOW)
    await ear.hears(Hint.CANCELS)
    assert ear.heard.count(Hint.JOBS) == 1, "that of the second job, which was enqueued"
    ear.stop()


async def running_in(store: PostgresStore) -> Job:
    await store.enqueue(slow_jobs(1))
    (job,) = await claim_jobs(store)
    return job


async def test_two_stores_never_pass_a_limit(store: PostgresStore, other: PostgresStore) -> None:
    await store.limit_queue("slow", Limits(concurrency=4, group_concurrency=2))
    jobs = [job for name in "abc" for job in slow_jobs(20, group=name)] + slow_jobs(20)
    await store.enqueue(jobs)
    busy: Counter[str | None] = Counter()
    ended: list[str] = []

    async def work(number: int) -> None:
        one, worker = (store, other)[number % 2], WorkerId(f"worker-{number}")
        while len(ended) < len(jobs):
            taken = await claim_jobs(one, worker=worker, limit=3)
            busy.update(job.group for job in taken)
            assert busy.total() <= 4
            assert max((busy[name] for name in "abc"), default=0) <= 2
            await asyncio.sleep(0)
            busy.subtract(Counter(job.group for job in taken))
            assert all(await one.settle([a_settlement(job) for job in taken]))
            ended.extend(ids_of(taken))

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(number) for number in range(6)))
    assert sorted(ended) == sorted(ids_of(jobs))


async def test_a_flood_costs_a_claim_by_turns_nothing(store: PostgresStore, database: str) -> None:
    await store.limit_queue("slow", Limits(fair=True))
    await store.enqueue([job for name in "abcdefgh" for job in slow_jobs(3, group=name)])
    await execute(database, "VACUUM ANALYZE onbeat.jobs")
    async with Claimant.of(database) as claimant:
        few, before = await claimant.claim()
        await store.enqueue(slow_jobs(2_000, group="h"))
        many, after = await claimant.claim()
    assert few == many
    assert after - before < 100


async def test_turns_that_were_long_ago_are_forgotten(store: PostgresStore, database: str) -> None:
    await store.limit_queue("slow", Limits(fair=True))
    await store.enqueue([*slow_jobs(1, group="old"), *slow_jobs(3, group="new")])
    await claim_jobs(store, limit=2)
    kept = "SELECT array_agg(grp ORDER BY grp) FROM onbeat.turns"
    await execute(database, f"UPDATE onbeat.turns SET turn = turn + {KEPT} WHERE grp = 'new'")
    await claim_jobs(store, limit=1)
    assert await value(database, kept) == ["new", "old"]
    # The first of the next turns is a round number.
    await execute(database, f"UPDATE onbeat.turns SET turn = {2 * KEPT - 1} WHERE grp = 'new'")
    await store.enqueue(slow_jobs(2, group="next"))
    assert [job.group for job in await claim_jobs(store, limit=3)] == ["new", "next", "next"]
    assert await value(database, kept) == ["new", "next"]


async def test_two_stores_share_the_turns(store: PostgresStore, other: PostgresStore) -> None:
    await store.limit_queue("slow", Limits(fair=True))
    await store.enqueue([job for name in "abc" for job in slow_jobs(9, group=name)])
    given = [(await claim_jobs(one, limit=1))[0].group for one in (store, other) * 3]
    assert given == [*"abcabc"]


async def test_buckets_that_are_full_are_pruned(store: PostgresStore, database: str) -> None:
    await store.limit_queue("slow", Limits(rate=Rate(1, HOUR), group_rate=Rate(1, SECOND)))
    await store.enqueue(slow_jobs(1, group="a"))
    await claim_jobs(store)
    await store.prune(finished_before=NOW + 2 * SECOND, failed_before=NOW, limit=10)
    assert await value(database, "SELECT array_agg(grp) FROM onbeat.meters") == [""]
