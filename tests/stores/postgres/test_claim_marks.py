"""Claims behind marks: what an old snapshot keeps costs nothing, and what comes late is found."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from onbeat.model.ids import WorkerId
from onbeat.model.outcome import Released
from onbeat.rules import claim_marks
from onbeat.rules.claim_marks import ClaimMarks, ListKey
from onbeat.stores.postgres import claim
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job
from onbeat.testing.store_contract.steps import (
    WORKER,
    a_request,
    a_settlement,
    claim_jobs,
    end,
    ids_of,
)


def read_past(monkeypatch: pytest.MonkeyPatch, passed: int) -> None:
    """As if each read from the start went past so many more entries than it did."""
    note = ClaimMarks.note_read

    def note_more(
        marks: ClaimMarks, scope: object, lists: Sequence[ListKey], found: int, now: float
    ) -> None:
        note(marks, scope, lists, found + passed, now)

    monkeypatch.setattr(ClaimMarks, "note_read", note_more)


@pytest.fixture
def always_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims begin behind their marks, for as long as a test needs."""
    read_past(monkeypatch, 10**9)


def marks_of(store: PostgresStore) -> ClaimMarks:
    connections = store._home_connections
    assert connections is not None
    return connections.claimant(WORKER).marks


def index_scans(plan: Any) -> Iterator[tuple[str, int]]:
    """Each index that a plan has read, with the pages that it has touched for it."""
    if "Index Name" in plan:
        yield plan["Index Name"], plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    for child in plan.get("Plans", ()):
        yield from index_scans(child)


async def pages_of(url: str, *marks: object) -> dict[str, int]:
    """The pages that a claim of one reads through each index.

    Where it writes is left out: after other tests, a new row may have to look for a page with room.
    """
    db: Any = await connect(parse_dsn(url))
    try:
        await db.execute("BEGIN")
        plan = await db.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {claim.STATEMENTS[True, not marks]}",
            "worker", micros(NOW), None, ["work"], None, 60, 1, True, *marks,
        )  # fmt: skip
        await db.execute("ROLLBACK")
    finally:
        await db.close()
    pages: dict[str, int] = {}
    for index, count in index_scans(msgspec.json.decode(plan)[0]["Plan"]):
        pages[index] = pages.get(index, 0) + count
    return pages


@pytest.fixture
async def snapshot(store: PostgresStore, database: str) -> AsyncIterator[None]:
    """A session that keeps the server from removing anything.

    Nothing is analyzed meanwhile: with figures from the middle of a test a plan may be another.
    """
    db = await asyncpg.connect(database)
    await db.execute("ALTER TABLE onbeat.jobs SET (autovacuum_enabled = false)")
    await db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await db.fetchval("SELECT count(*) FROM onbeat.jobs")
    yield
    await db.execute("ROLLBACK")
    await db.execute("ALTER TABLE onbeat.jobs RESET (autovacuum_enabled)")
    await db.close()


@pytest.mark.usefixtures("snapshot")
async def test_jobs_that_an_old_snapshot_keeps_cost_a_claim_nothing(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_marks, "PASSED_MIN", 1_000)
    await store.enqueue([a_job() for _ in range(3_000)])
    for _ in range(29):
        jobs = await claim_jobs(store)
        assert all(await store.settle([a_settlement(job) for job in jobs]))
    # The claimant has noticed by itself what the snapshot keeps.
    ((key, mark),) = marks_of(store).marks.items()
    assert key == ("default", 0, "work")
    at = [[value] for value in (*key, *claim.place_of(mark))]
    behind, from_start = await pages_of(database, *at), await pages_of(database)
    assert sum(from_start.values()) > 200, ("the snapshot kept nothing", from_start)
    assert sum(behind.values()) < 100, behind


async def test_a_claim_counts_only_what_it_has_read_itself(
    store: PostgresStore, database: str
) -> None:
    """The server adds up what a session reads, at least until its transaction ends."""
    await store.enqueue([a_job() for _ in range(600)])
    db: Any = await connect(parse_dsn(database))
    try:
        await db.execute(
            "VACUUM jobs"
        )  # a claim reads past what tests before this one have deleted
        await db.execute("BEGIN")
        for claims_before in range(5):
            batch = await claim.take(
                Transaction(db), a_request(limit=100), 100, 150, may_be_alone=True
            )
            # What the transaction has claimed stays in the index, and is read past twice.
            assert len(batch.jobs) == 100
            assert 0 <= batch.passed - 200 * claims_before < 50
    finally:
        await db.close()


@pytest.mark.usefixtures("always_marked")
async def test_a_claim_behind_marks_answers_as_one_from_the_start(store: PostgresStore) -> None:
    jobs = [a_job(priority=number % 2, due_at=NOW - SECOND) for number in range(20)]
    later = a_job(due_at=NOW + MINUTE)
    await store.enqueue([*jobs, later])
    ordered = sorted(jobs, key=lambda job: (job.priority, job.id))
    for start in range(0, 20, 5):
        assert ids_of(await claim_jobs(store, limit=5)) == ids_of(ordered[start : start + 5])


@pytest.mark.usefixtures("always_marked")
async def test_a_job_that_commits_late_is_claimed_once_everything_is_read_again(
    store: PostgresStore,
) -> None:
    first, second, third = [a_job() for _ in range(3)]
    await store.enqueue([first, second, third])
    assert ids_of(await claim_jobs(store, limit=2)) == ids_of([first, second])
    late = a_job(due_at=NOW - MINUTE)
    await store.enqueue([late])
    answer = await store.claim(a_request(limit=2))
    assert ids_of(answer.jobs) == [third.id]
    # The claimant is told when to look again, and finds it then.
    assert answer.next_due_at is not None
    marks_of(store).read_at = -math.inf  # as if that were long ago
    assert ids_of(await claim_jobs(store, limit=2)) == [late.id]


@pytest.mark.usefixtures("always_marked")
async def test_a_claim_that_brings_less_reads_from_the_start_if_it_may(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_marks, "REST_SHORT", 0)
    jobs = [a_job() for _ in range(3)]
    await store.enqueue(jobs)
    assert ids_of(await claim_jobs(store, limit=2)) == ids_of(jobs[:2])
    late, elsewhere = a_job(due_at=NOW - MINUTE), a_job(queue="new")
    await store.enqueue([late, elsewhere])
    assert ids_of(await claim_jobs(store)) == [late.id, jobs[2].id, elsewhere.id]


@pytest.mark.usefixtures("always_marked")
async def test_a_paused_queue_gives_nothing_out_behind_a_mark(store: PostgresStore) -> None:
    await store.enqueue([a_job() for _ in range(3)])
    await claim_jobs(store, limit=1)
    assert marks_of(store).marks
    await store.pause_queue("default", paused=True)
    assert await claim_jobs(store) == ()
    await store.pause_queue("default", paused=False)
    assert len(await claim_jobs(store)) == 2


@pytest.mark.usefixtures("always_marked")
async def test_another_claimant_of_the_process_has_marks_of_its_own(store: PostgresStore) -> None:
    job, *rest = [a_job() for _ in range(3)]
    await store.enqueue([job, *rest])
    (first,) = await claim_jobs(store, limit=1)
    await end(store, first, Released())
    assert ids_of(await claim_jobs(store, worker=WorkerId("other"), limit=1)) == [job.id]


async def test_nothing_is_lost_and_nothing_doubled_behind_marks(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claimants beside senders whose jobs are due before what was claimed, and releases."""
    read_past(monkeypatch, claim_marks.PASSED_MIN)
    chance = random.Random(7)
    sent: list[str] = []
    ended: list[str] = []
    senders_left = 3

    async def send() -> None:
        nonlocal senders_left
        for _ in range(40):
            jobs = [
                a_job(
                    due_at=NOW - timedelta(seconds=chance.randrange(100)),
                    priority=chance.randrange(2),
                )
                for _ in range(5)
            ]
            await store.enqueue(jobs)
            sent.extend(ids_of(jobs))
        senders_left -= 1

    async def work(number: int) -> None:
        one, worker = (store, other)[number % 2], WorkerId(f"worker-{number}")
        while senders_left or len(ended) < len(sent):
            taken = await claim_jobs(one, worker=worker, limit=8)
            for job in taken:
                if chance.random() < 0.2:
                    await one.settle([a_settlement(job, Released())])
                else:
                    assert await one.settle([a_settlement(job)]) == [True]
                    ended.append(job.id)

    async with asyncio.timeout(60):
        await asyncio.gather(*(send() for _ in range(3)), *(work(number) for number in range(4)))
    assert sorted(ended) == sorted(sent)
