"""What a claim reads and locks, told by the server's own counts rather than by time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from onbeat.model.ids import WorkerId
from onbeat.stores.mysql import claim, ready_lists, settle
from onbeat.stores.mysql.connection import connect, parse_dsn
from onbeat.stores.mysql.start import ClaimTarget
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.testing.build import HOUR, NOW, a_job
from onbeat.testing.store_contract.steps import a_request, claim_jobs, ids_of

JOBS = 2_000


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[Transaction]:
    """A transaction that stays open, of a process that is stopped in the middle of it."""
    db = await connect(parse_dsn(dsn))
    try:
        transaction = Transaction(db)
        await transaction.run("START TRANSACTION")
        yield transaction
        await transaction.run("ROLLBACK")
    finally:
        await db.ensure_closed()


async def reads(transaction: Transaction) -> int:
    """Rows and entries of indexes that the session has read so far."""
    rows = await transaction.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(count) for _, count in rows)


@pytest.mark.parametrize("tasks", [1, 4])
async def test_a_claim_locks_no_more_than_it_takes(store: MysqlStore, dsn: str, tasks: int) -> None:
    lanes = frozenset(f"task {number}" for number in range(tasks))
    jobs = [a_job(f"task {number % tasks}") for number in range(100)]
    await store.enqueue(jobs)
    async with session(dsn) as frozen:
        request = a_request(limit=10, lanes=lanes)
        result = await ready_lists.find_ready_lists(frozen, ())
        bite = await claim.take(frozen, ClaimTarget(request=request, ready_lists=result, limit=10))
        assert ids_of(bite.jobs) == ids_of(jobs[:10])
        others = await claim_jobs(store, lanes=lanes, worker=WorkerId("worker-2"))
        assert ids_of(others) == ids_of(jobs[10:])
    assert ids_of(await claim_jobs(store, lanes=lanes)) == ids_of(jobs[:10])


async def test_a_claim_reads_no_more_when_more_jobs_wait(store: MysqlStore, dsn: str) -> None:
    async def cost() -> int:
        async with session(dsn) as transaction:
            before = await reads(transaction)
            sight = await claim.survey(transaction, micros(NOW), frozenset())
            wanted = ClaimTarget(
                request=a_request(limit=10), ready_lists=sight.ready_lists[:1], limit=10
            )
            await claim.take(transaction, wanted)
            await claim.find_next_due(transaction, sight.ready_lists, micros(NOW))
            return await reads(transaction) - before

    await store.enqueue([a_job() for _ in range(20)])
    few = await cost()
    await store.enqueue([a_job() for _ in range(JOBS)])
    await store.enqueue([a_job("later", due_at=NOW + HOUR) for _ in range(JOBS)])
    await store.enqueue([a_job(start_by=NOW + HOUR, due_at=NOW + HOUR) for _ in range(JOBS)])
    assert await cost() < few + 50


async def test_a_settlement_locks_only_its_own_jobs(store: MysqlStore, dsn: str) -> None:
    await store.enqueue([a_job() for _ in range(20)])
    mine = await claim_jobs(store, limit=5)
    theirs = await claim_jobs(store, limit=5, worker=WorkerId("worker-2"))
    async with session(dsn) as frozen:
        await settle.lock_leases(frozen, [job.id for job in mine])
        assert len(await claim_jobs(store)) == 10
        assert len(await store.cancel([job.id for job in theirs], "by hand", NOW)) == 5
