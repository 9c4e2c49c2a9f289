"""A claimant that is alone takes no locks on jobs: others must not suffer for it, nor stop it."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from operator import attrgetter
from typing import Any

import asyncpg
import pytest

from conditions import eventually
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.stores.postgres import claim, start
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.rows import read_claimed
from onbeat.stores.postgres.start import ClaimBatch
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import (
    a_request,
    a_settlement,
    claim_jobs,
    ids_of,
    stored_job,
)
from stores.postgres.test_bulk import WAITS_FOR_A_LOCK


@pytest.fixture
async def stranger(database: str) -> AsyncIterator[Any]:
    """A connection with the store's settings, in a transaction that is taken back at the end."""
    db: Any = await connect(parse_dsn(database))
    await db.execute("BEGIN")
    yield db
    await db.close()


LOCKS = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'"


async def alone_or_not(db: Any, limit: int, *, may_be_alone: bool) -> ClaimBatch:
    return await claim.take(
        Transaction(db), a_request(limit=limit), limit, 60, may_be_alone=may_be_alone
    )


async def test_one_claimant_at_a_time_is_alone(
    store: PostgresStore, stranger: Any, database: str
) -> None:
    jobs = [a_job() for _ in range(6)]
    await store.enqueue(jobs)
    first = await alone_or_not(stranger, 2, may_be_alone=True)
    assert not first.contended
    other: Any = await connect(parse_dsn(database))
    try:
        # It does not wait for the first, nor for what that has taken.
        second = await alone_or_not(other, 2, may_be_alone=True)
    finally:
        await other.close()
    assert second.contended
    assert [*ids_of(first.jobs), *ids_of(second.jobs)] == ids_of(jobs[:4])


async def test_one_that_reckons_with_others_does_not_keep_them_from_being_alone(
    store: PostgresStore, stranger: Any
) -> None:
    await store.enqueue([a_job()])
    bite = await alone_or_not(stranger, 1, may_be_alone=False)
    assert len(bite.jobs) == 1
    assert not bite.contended
    assert await stranger.fetchval(LOCKS, stranger.get_server_pid()) == 0


async def test_claimed_jobs_are_counted_before_they_are_read(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [a_job(priority=number % 3) for number in range(9)]
    await store.enqueue(jobs)
    read: list[str] = []

    def note(row: Sequence[Any], *of_claim: Any) -> Job:
        read.append(row[0])
        return read_claimed(row, *of_claim)

    monkeypatch.setattr(start, "read_claimed", note)
    claimed = (await store.claim(a_request(limit=7))).jobs
    assert (len(claimed), read) == (7, [])
    assert ids_of(claimed) == ids_of(sorted(jobs, key=attrgetter("priority"))[:7])
    assert [claimed[0], *claimed[1:]] == list(claimed)
    assert len(read) == 7


async def test_a_job_that_somebody_holds_is_left_out(store: PostgresStore, stranger: Any) -> None:
    jobs = [a_job() for _ in range(5)]
    await store.enqueue(jobs)
    await stranger.fetch("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", jobs[2].id)
    assert ids_of(await claim_jobs(store, limit=3)) == ids_of([jobs[0], jobs[1], jobs[3]])
    await stranger.execute("COMMIT")
    assert ids_of(await claim_jobs(store)) == ids_of([jobs[2], jobs[4]])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claimants that are alone wait for others as long as this test needs."""
    patience = f"{claim.PATIENCE_MILLISECONDS}ms"
    kinds = {kind: sql.replace(patience, "9s") for kind, sql in claim.STATEMENTS.items()}
    assert kinds != claim.STATEMENTS
    monkeypatch.setattr(claim, "STATEMENTS", kinds)


async def claimed_after(stranger: Any, store: PostgresStore, database: str) -> Sequence[Job]:
    """Three jobs for a claimant that first waits for what the stranger then commits."""
    watcher = await asyncpg.connect(database)
    try:
        work = asyncio.create_task(claim_jobs(store, limit=3))

        async def is_waiting() -> bool:
            return bool(await watcher.fetchval(WAITS_FOR_A_LOCK))

        await eventually(is_waiting, "the claimant waits for a job that another has changed")
        await stranger.execute("COMMIT")
        return await work
    finally:
        await watcher.close()


@pytest.mark.usefixtures("patient")
async def test_a_job_that_goes_to_another_lane_meanwhile_is_left_there(
    store: PostgresStore, stranger: Any, database: str
) -> None:
    jobs = [a_job() for _ in range(6)]
    await store.enqueue(jobs)
    await stranger.execute("UPDATE jobs SET lane = 'other' WHERE id = $1", jobs[1].id)
    taken = await claimed_after(stranger, store, database)
    assert ids_of(taken) == ids_of([jobs[0], *jobs[2:4]])


@pytest.mark.usefixtures("patient")
async def test_one_whose_jobs_were_taken_meanwhile_looks_again(
    store: PostgresStore, stranger: Any, database: str
) -> None:
    jobs = [a_job() for _ in range(6)]
    await store.enqueue(jobs)
    taken = await alone_or_not(stranger, 3, may_be_alone=False)
    left = await claimed_after(stranger, store, database)
    assert ids_of(taken.jobs) == ids_of(jobs[:3])
    assert ids_of(left) == ids_of(jobs[3:])
    assert {job.token for job in left} == {1}


async def test_claimants_that_all_take_themselves_to_be_alone_beside_cancels(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "CROWDED_CLAIMS", 0)
    jobs = [a_job(priority=number % 3) for number in range(600)]
    await store.enqueue(jobs)
    given: list[str] = []

    async def take(number: int) -> None:
        one, worker = (store, other)[number % 2], WorkerId(f"worker-{number}")
        while taken := await claim_jobs(one, worker=worker, limit=20):
            given.extend(ids_of(taken))
            assert all(await one.settle([a_settlement(job) for job in taken]))

    async def cancel(number: int) -> None:
        one = (store, other)[number % 2]
        for _ in range(15):
            await one.cancel([job.id for job in random.sample(jobs, 20)], "by hand", NOW)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(number) for work in (take, cancel) for number in range(4)))
    assert len(set(given)) == len(given), "a job was given out twice"
    after = [await stored_job(store, job) for job in jobs]
    ended = {job.id for job in after if job.state is JobState.SUCCEEDED}
    assert ended <= set(given)
    assert {job.state for job in after} == {JobState.SUCCEEDED, JobState.CANCELLED}
