"""What a claim reads and locks, told by the server's own counts rather than by time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from onbeat.model.ids import WorkerId
from onbeat.stores.mysql import claim, lines, settle
from onbeat.stores.mysql.connection import connect
from onbeat.stores.mysql.place import read_place
from onbeat.stores.mysql.starting import Wanted
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.testing.build import HOUR, NOW, a_job
from onbeat.testing.store_contract.acts import a_request, claimed, ids_of

JOBS = 2_000


@asynccontextmanager
async def session(place: str) -> AsyncIterator[Transaction]:
    """A transaction that stays open, of a process that is stopped in the middle of it."""
    db = await connect(read_place(place))
    try:
        transaction = Transaction(db)
        await transaction.run("START TRANSACTION")
        yield transaction
        await transaction.run("ROLLBACK")
    finally:
        await db.ensure_closed()


async def reads(transaction: Transaction) -> int:
    """Rows and entries of indexes that the session has read so far."""
    found = await transaction.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(count) for _, count in found)


@pytest.mark.parametrize("tasks", [1, 4])
async def test_a_claim_locks_no_more_than_it_takes(
    store: MysqlStore, place: str, tasks: int
) -> None:
    lanes = frozenset(f"task {number}" for number in range(tasks))
    jobs = [a_job(f"task {number % tasks}") for number in range(100)]
    await store.enqueue(jobs)
    async with session(place) as frozen:
        request = a_request(limit=10, lanes=lanes)
        found = await lines.find_lines(frozen, ())
        bite = await claim.take(frozen, Wanted(request=request, lines=found, limit=10))
        assert ids_of(bite.jobs) == ids_of(jobs[:10])
        others = await claimed(store, lanes=lanes, worker=WorkerId("worker-2"))
        assert ids_of(others) == ids_of(jobs[10:])
    assert ids_of(await claimed(store, lanes=lanes)) == ids_of(jobs[:10])


async def test_a_claim_reads_no_more_when_more_jobs_wait(store: MysqlStore, place: str) -> None:
    async def cost() -> int:
        async with session(place) as transaction:
            before = await reads(transaction)
            sight = await claim.look(transaction, (micros(NOW), frozenset()))
            wanted = Wanted(request=a_request(limit=10), lines=sight.lines[:1], limit=10)
            await claim.take(transaction, wanted)
            await claim.find_next_due(transaction, (sight.lines, micros(NOW)))
            return await reads(transaction) - before

    await store.enqueue([a_job() for _ in range(20)])
    few = await cost()
    await store.enqueue([a_job() for _ in range(JOBS)])
    await store.enqueue([a_job("later", due_at=NOW + HOUR) for _ in range(JOBS)])
    await store.enqueue([a_job(start_by=NOW + HOUR, due_at=NOW + HOUR) for _ in range(JOBS)])
    assert await cost() < few + 50


async def test_a_settlement_locks_only_its_own_jobs(store: MysqlStore, place: str) -> None:
    await store.enqueue([a_job() for _ in range(20)])
    mine = await claimed(store, limit=5)
    theirs = await claimed(store, limit=5, worker=WorkerId("worker-2"))
    async with session(place) as frozen:
        await settle.lock_leases(frozen, [job.id for job in mine])
        assert len(await claimed(store)) == 10
        assert len(await store.cancel(ids_of(theirs), "by hand", NOW)) == 5
