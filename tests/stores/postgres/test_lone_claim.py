"""A single new job is taken by its id, wherever nothing else has a say in that."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from conditions import eventually
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.queue import Limits
from onbeat.ports.store import ClaimRequest
from onbeat.rules import lone_jobs
from onbeat.stores.postgres import claim
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.store import PostgresStore
from onbeat.testing.build import MINUTE, NOW, SECOND, TICK, a_job, an_id
from onbeat.testing.store_contract.steps import a_request, claim_jobs, ids_of, stored_job


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[ClaimRequest]:
    """The claims that looked through the ready lists. A look is good for an hour."""
    monkeypatch.setattr(lone_jobs, "LOOK_SECONDS", 3_600.0)
    found: list[ClaimRequest] = []
    look = claim.look_and_claim

    async def note(connections: Any, request: ClaimRequest, *rest: Any) -> Any:
        found.append(request)
        return await look(connections, request, *rest)

    monkeypatch.setattr(claim, "look_and_claim", note)
    return found


@pytest.fixture
async def idle(store: PostgresStore, looks: list[ClaimRequest]) -> PostgresStore:
    """A store whose claimant has just found nothing."""
    assert await claim_jobs(store) == ()
    looks.clear()
    return store


async def test_a_new_job_is_taken_without_a_look(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    for _ in range(3):
        job = a_job()
        await idle.enqueue([job])
        (taken,) = await claim_jobs(idle)
        assert (taken.id, taken.attempt, taken.token) == (job.id, 1, 1)
        assert taken == await stored_job(idle, job)
    assert looks == []


async def test_a_claim_without_an_announcement_looks(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    job = a_job()
    await idle.enqueue([job])
    assert ids_of(await claim_jobs(idle)) == [job.id]
    assert await claim_jobs(idle) == ()
    assert len(looks) == 1


async def test_the_next_due_time_is_that_of_the_last_look(store: PostgresStore) -> None:
    later = a_job(due_at=NOW + MINUTE)
    await store.enqueue([later])
    assert (await store.claim(a_request())).next_due_at == NOW + MINUTE
    await store.enqueue([a_job()])
    claimed = await store.claim(a_request())
    assert (len(claimed.jobs), claimed.next_due_at) == (1, NOW + MINUTE)
    await store.enqueue([a_job()])
    assert len((await store.claim(a_request(now=NOW + MINUTE))).jobs) == 2, "both are due"


@pytest.mark.parametrize(
    "jobs",
    [
        [a_job(), a_job()],
        [a_job(group="a")],
        [a_job(unique="once")],
    ],
    ids=["two", "group", "unique"],
)
async def test_jobs_that_are_not_plain_and_alone_are_looked_for(
    idle: PostgresStore, looks: list[ClaimRequest], jobs: Sequence[Job]
) -> None:
    await idle.enqueue(jobs)
    assert sorted(ids_of(await claim_jobs(idle))) == sorted(ids_of(jobs))
    assert len(looks) == 1


@pytest.mark.parametrize(("start_by", "taken"), [(NOW, 1), (NOW - TICK, 0)])
async def test_a_job_is_taken_only_while_it_may_start(
    idle: PostgresStore, looks: list[ClaimRequest], start_by: datetime, taken: int
) -> None:
    await idle.enqueue([a_job(due_at=NOW - SECOND, start_by=start_by)])
    assert len(await claim_jobs(idle)) == taken
    assert len(looks) == 1 - taken, "a look flags what has lapsed"


async def test_a_job_of_a_limited_queue_waits_for_its_turn(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    await idle.limit_queue("default", Limits(concurrency=1))
    await claim_jobs(idle)
    looks.clear()
    jobs = [a_job(), a_job()]
    for job in jobs:
        await idle.enqueue([job])
        await claim_jobs(idle)
    assert len(looks) == 2
    assert [(await stored_job(idle, job)).attempt for job in jobs] == [1, 0]


async def test_a_job_of_a_paused_queue_is_not_taken(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    await idle.pause_queue("default", paused=True)
    await claim_jobs(idle)
    looks.clear()
    await idle.enqueue([a_job()])
    assert await claim_jobs(idle) == ()
    assert len(looks) == 1


async def test_a_job_for_others_is_not_taken(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    await idle.enqueue([a_job("elsewhere")])
    assert await claim_jobs(idle) == ()
    request = a_request(queues=("mail",))
    await idle.claim(request)
    looks.clear()
    await idle.enqueue([a_job(queue="slow")])
    assert len((await idle.claim(request)).jobs) == 0
    assert looks == []


async def test_a_job_that_is_due_later_is_looked_for_to_learn_when(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    await idle.enqueue([a_job(due_at=NOW + SECOND)])
    claimed = await idle.claim(a_request())
    assert (len(claimed.jobs), claimed.next_due_at) == (0, NOW + SECOND)
    assert len(looks) == 1


async def test_a_job_that_somebody_holds_is_left_to_a_later_look(
    idle: PostgresStore, looks: list[ClaimRequest], database: str
) -> None:
    job = a_job()
    await idle.enqueue([job])
    other: Any = await connect(parse_dsn(database))
    try:
        await other.execute("BEGIN")
        await other.fetch("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", job.id)
        assert await claim_jobs(idle) == ()
        assert looks == []
    finally:
        await other.close()
    assert ids_of(await claim_jobs(idle)) == [job.id]


async def test_after_a_claim_that_was_filled_the_next_one_looks(
    idle: PostgresStore, looks: list[ClaimRequest]
) -> None:
    await idle.enqueue([a_job(), a_job()])
    assert len(await claim_jobs(idle, limit=1)) == 1
    await idle.enqueue([a_job(priority=-1)])
    assert len(await claim_jobs(idle, limit=CLAIM_MAX)) == 2
    assert len(looks) == 2


async def test_without_room_nothing_is_taken(idle: PostgresStore) -> None:
    await idle.enqueue([a_job()])
    assert await claim_jobs(idle, limit=0) == ()


async def test_a_job_of_another_process_is_taken_without_a_look(
    idle: PostgresStore, looks: list[ClaimRequest], other: PostgresStore
) -> None:
    stop = idle.listen(lambda _hint: None)
    announced = idle._hints.announced
    await eventually(lambda: announced.is_more, "it listens, and may have missed some")
    await claim_jobs(idle)
    looks.clear()
    job = a_job()
    await other.enqueue([job])
    await eventually(lambda: announced.job == job.id, "the notice has come")
    assert ids_of(await claim_jobs(idle)) == [job.id]
    assert looks == []
    stop()


async def test_two_claimants_of_one_job_take_it_once(
    idle: PostgresStore, other: PostgresStore
) -> None:
    await claim_jobs(other)
    for _ in range(20):
        job = a_job()
        await idle.enqueue([job])
        other._hints.announced.note(job.id)
        taken = [*await claim_jobs(idle), *await claim_jobs(other)]
        assert ids_of(taken) == [job.id]


@pytest.mark.parametrize(
    "payload", ["J:other:no-id", "J:other:" + "0" * 5_000, "J", "", "::", "J:x:"]
)
async def test_a_forged_announcement_costs_a_look(
    idle: PostgresStore, looks: list[ClaimRequest], payload: str
) -> None:
    job = a_job()
    await idle.enqueue([job])
    idle._hints._on_notification(None, 0, "", payload)
    assert ids_of(await claim_jobs(idle)) == [job.id]
    assert await claim_jobs(idle) == ()


async def test_an_announcement_of_a_job_that_is_none_takes_nothing(idle: PostgresStore) -> None:
    ended = a_job()
    await idle.enqueue([ended])
    await idle.cancel([ended.id], "by hand", NOW)
    await claim_jobs(idle)
    for id in (ended.id, JobId(an_id())):
        idle._hints._on_notification(None, 0, "", f"J:other:{id}")
        assert await claim_jobs(idle) == ()
