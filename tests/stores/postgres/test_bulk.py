"""Jobs that are added many at a time, by COPY: as complete as one by one, and as safe to repeat."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from conditions import eventually
from onbeat.model.errors import Invalid
from onbeat.model.job import Job, JobState
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget
from onbeat.stores.postgres import settle
from onbeat.stores.postgres.bulk import COPIED_MIN, ENDED_MAX, PIECE, copy_new, may_be_copied
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.testing.build import HOUR, NOW, TICK, a_job
from onbeat.testing.store_contract.steps import (
    a_settlement,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)

MANY = 2 * PIECE + COPIED_MIN

FIELDS: list[dict[str, Any]] = [
    {},
    {"target": HandlerTarget("task", msgspec.Raw(b'[1,"\xc3\xa9"]'), msgspec.Raw(b'{"a":null}'))},
    {"target": HttpTarget("https://example.com/", body="{}", headers={"a": "b"})},
    {"target": MessageTarget("bus", "there", msgspec.Raw(b"[7]"))},
    {"due_at": NOW + HOUR, "created_at": NOW - TICK, "start_by": NOW + 2 * HOUR},
    {"queue": "größer", "priority": -7, "group": "über"},
    {"expires_at": NOW + HOUR, "start_by": NOW + HOUR, "labels": {"of": "it"}},
    {"retry": RetryPolicy(attempts_max=1), "timeout": timedelta(seconds=7)},
    {"priority": 32_767},
]


def many_jobs(count: int = MANY) -> list[Job]:
    return [a_job(**FIELDS[number % len(FIELDS)]) for number in range(count)]


async def live(store: PostgresStore) -> int:
    counts = (await store.stats(NOW)).jobs
    return counts.get("waiting", 0) + counts.get("running", 0)


async def test_a_job_of_many_is_stored_as_it_is(store: PostgresStore) -> None:
    jobs = many_jobs()
    assert may_be_copied(jobs)
    answers = await store.enqueue(jobs)
    assert [(answer.id, answer.created) for answer in answers] == [(job.id, True) for job in jobs]
    assert await live(store) == len(jobs)
    assert [await stored_job(store, job) for job in jobs[: len(FIELDS)]] == jobs[: len(FIELDS)]


async def test_many_that_were_stored_may_be_added_again(store: PostgresStore) -> None:
    jobs = many_jobs()
    # The one that is in the way stands last, when most has been sent.
    last = await run_job(store, msgspec.structs.replace(jobs[-1], queue="default"))
    for _ in range(2):
        answers = await store.enqueue(jobs)
        assert [answer.id for answer in answers if answer.created] == ids_of(jobs)
        assert await live(store) == len(jobs)
        assert await stored_job(store, last) == last


@pytest.mark.parametrize("ended_count", [1, ENDED_MAX + 1])
async def test_many_of_which_some_have_ended_may_be_added_again(
    store: PostgresStore, ended_count: int
) -> None:
    jobs = [a_job() for _ in range(COPIED_MIN + ENDED_MAX)]
    await store.enqueue(jobs)
    first = await claim_jobs(store, limit=ended_count)
    assert all(await store.settle([a_settlement(job) for job in first]))
    answers = await store.enqueue(jobs)
    assert [answer.id for answer in answers if answer.created] == ids_of(jobs)
    assert await live(store) == len(jobs) - ended_count
    assert {(await stored_job(store, job)).state for job in first} == {JobState.SUCCEEDED}


async def test_what_has_ended_between_new_ids_is_not_in_their_way(store: PostgresStore) -> None:
    jobs = [a_job() for _ in range(COPIED_MIN + 2 * ENDED_MAX)]
    half = COPIED_MIN // 2
    old = jobs[half:-half]
    await store.enqueue(old)
    claim = await claim_jobs(store, limit=len(old))
    assert all(await store.settle([a_settlement(job) for job in claim]))
    await added_by_copy(store, [*jobs[:half], *jobs[-half:]])


async def added_by_copy(store: PostgresStore, jobs: list[Job]) -> None:
    """Straight by that way: nothing in its answers tells by which way jobs were added."""
    db: Any = await connect(parse_dsn(store.url))
    try:
        await db.execute("BEGIN")
        assert await copy_new(Transaction(db), jobs) == len(jobs)
        await db.execute("COMMIT")
    finally:
        await db.close()
    assert await live(store) == len(jobs)


WAITS_FOR_A_LOCK = """
    SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'
                     AND query LIKE '%jobs%')
"""


async def test_a_job_that_ends_while_it_is_added_again_is_not_added(
    store: PostgresStore, database: str
) -> None:
    job = await run_job(store, a_job())
    jobs = [*many_jobs(COPIED_MIN), job]
    ender: Any = await connect(parse_dsn(database))
    watcher = await asyncpg.connect(database)
    try:
        await ender.execute("BEGIN")
        moved = await settle.end_plain(
            Transaction(ender), [settle.prepare_settlement(a_settlement(job))]
        )
        assert moved == [True]
        again = asyncio.create_task(store.enqueue(jobs))

        async def is_waiting() -> bool:
            return bool(await watcher.fetchval(WAITS_FOR_A_LOCK))

        await eventually(is_waiting, "the job is locked by whoever ends it")
        await ender.execute("COMMIT")
        answers = await again
    finally:
        await ender.close()
        await watcher.close()
    assert all(answer.created for answer in answers)
    assert await live(store) == COPIED_MIN
    assert (await stored_job(store, job)).state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    "fields",
    [{"queue": "a\0b"}, {"priority": 40_000}, {"id": "no uuid"}, {"labels": {"a": "\ud800"}}],
)
async def test_many_of_which_one_cannot_be_stored_are_refused_together(
    store: PostgresStore, fields: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        await store.enqueue([*many_jobs(), a_job(**fields), *many_jobs()])
    assert await live(store) == 0
    # The connection on which they were refused goes on.
    await store.enqueue(many_jobs())
    assert await live(store) == MANY


async def test_jobs_that_look_around_are_not_copied(store: PostgresStore) -> None:
    job = await run_and_end(store, a_job())
    plain = many_jobs(COPIED_MIN)
    for other in (a_job(unique="key"), a_job(after=(job.id,))):
        assert not may_be_copied([*plain, other])
    assert not may_be_copied(plain[1:])
    first = await run_job(store, a_job(unique="key"))
    answers = await store.enqueue([*plain, a_job(unique="key")])
    assert (answers[-1].id, answers[-1].created) == (first.id, False)
    await end(store, first)
    assert await live(store) == COPIED_MIN
