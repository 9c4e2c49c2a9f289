"""Idempotency keys: requests that take effect once."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TypeVar

import asyncpg
import msgspec

from onbeat.model.errors import Conflict, RequestInFlight, Unavailable
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued
from onbeat.stores.postgres import bulk, enqueue
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros

HOLDERS_READ_MAX = 6

Answer = TypeVar("Answer")


class KeyedJobs(msgspec.Struct, frozen=True):
    """New jobs, and the request for them."""

    request: KeyedRequest
    jobs: Sequence[Job]


async def run_keyed(
    transaction: Transaction,
    request: KeyedRequest,
    work: Callable[[Transaction], Awaitable[Answer]],
) -> Answer:
    """Run the work; raises `RequestInFlight` if another request has the key."""
    if not all(await take(transaction, [request])):
        raise RequestInFlight
    answer = await work(transaction)
    await keep(transaction, [(request, request.answer(answer))])
    return answer


async def enqueue_keyed(
    transaction: Transaction, request: Sequence[KeyedJobs]
) -> list[Sequence[Enqueued] | None]:
    """Add the jobs of several requests; None for a request whose key another one has."""
    is_free = await take(transaction, [one.request for one in request])
    taken = [one for one, free in zip(request, is_free, strict=True) if free]
    stored = iter(await enqueue_in_one(transaction, [job for one in taken for job in one.jobs]))
    answers = [list(islice(stored, len(one.jobs))) for one in taken]
    await keep(
        transaction,
        [(one.request, one.request.answer(its)) for one, its in zip(taken, answers, strict=True)],
    )
    rest = iter(answers)
    return [next(rest) if free else None for free in is_free]


async def take(transaction: Transaction, requests: Sequence[KeyedRequest]) -> list[bool]:
    """Which of the keys are free; those are locked until the end of the transaction.

    With these locks other requests fail at once, without waiting. A transaction can take its own
    lock twice, so of two requests with one key only the first counts.
    """
    sql = """
        SELECT pg_try_advisory_xact_lock(lock)
           AND NOT EXISTS (SELECT 1 FROM idempotency_keys
                           WHERE idempotency_keys.digest = asked.digest)
        FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS asked (lock, digest, place)
        ORDER BY place
    """
    digests = [request.digest for request in requests]
    locks = [int.from_bytes(digest[:8], signed=True) for digest in digests]
    rows = await transaction.column(sql, locks, digests)
    first = {digest: dsn for dsn, digest in reversed(tuple(enumerate(digests)))}
    return [free and first[digests[dsn]] == dsn for dsn, free in enumerate(rows)]


async def keep(transaction: Transaction, answered: Sequence[tuple[KeyedRequest, bytes]]) -> None:
    """Raises `RequestInFlight` if a key was committed by another request since it was locked."""
    if not answered:
        return
    rows = [
        (
            request.digest,
            request.fingerprint,
            micros(request.made_at),
            request.first_job,
            request.last_job,
            answer,
        )
        for request, answer in answered
    ]
    added = await transaction.run(
        """
        INSERT INTO idempotency_keys
          (digest, fingerprint, made_at, kept_from, first_job, last_job, answer)
        SELECT digest, fingerprint, made_at, made_at, first_job, last_job, answer
        FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::uuid[], $5::uuid[], $6::bytea[])
             AS new (digest, fingerprint, made_at, first_job, last_job, answer)
        ORDER BY digest
        ON CONFLICT DO NOTHING
        """,
        *(list(column) for column in zip(*rows, strict=True)),
    )
    if added < len(rows):
        raise RequestInFlight


async def keyed_answers(
    transaction: Transaction, digests: Sequence[bytes]
) -> list[KeyedAnswer | None]:
    sql = """
        SELECT digest, fingerprint, made_at, answer
        FROM idempotency_keys
        WHERE digest = ANY($1::bytea[])
    """
    result = {
        digest: KeyedAnswer(fingerprint=fingerprint, made_at=instant(made_at), answer=answer)
        for digest, fingerprint, made_at, answer in await transaction.rows(sql, list(digests))
    }
    return [result.get(digest) for digest in digests]


async def forget_requests(transaction: Transaction, before: int, now: int, limit: int) -> int:
    """Keys of live jobs get a later `kept_from`, so that each is checked only now and then."""
    sql = """
        SELECT digest,
               EXISTS (SELECT 1 FROM jobs WHERE jobs.id BETWEEN first_job AND last_job)
        FROM idempotency_keys
        WHERE kept_from < $1
        ORDER BY kept_from
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    """
    past = await transaction.rows(sql, before, limit)
    await transaction.run(
        "UPDATE idempotency_keys SET kept_from = $2 WHERE digest = ANY($1::bytea[])",
        [digest for digest, is_live in past if is_live],
        now,
    )
    await transaction.run(
        "DELETE FROM idempotency_keys WHERE digest = ANY($1::bytea[])",
        [digest for digest, is_live in past if not is_live],
    )
    return len(past)


async def enqueue_in_one(transaction: Transaction, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """As `LoopConnections.enqueue`, within one transaction."""
    if not jobs:
        return []
    if bulk.may_be_copied(jobs) and await is_copied(transaction, jobs):
        return [Enqueued(job.id, created=True) for job in jobs]
    new = list(map(enqueue.new_job, jobs))
    if any(job.needs_locks for job in new):
        return await enqueue.enqueue(transaction, new)
    for _ in range(HOLDERS_READ_MAX):
        answers = await enqueue.enqueue_plain(transaction, new)
        stored = [answer for answer in answers if answer is not None]
        if len(stored) == len(new):
            return stored
    raise Unavailable("the unique key changes hands too often; try again")


async def is_copied(transaction: Transaction, jobs: Sequence[Job]) -> bool:
    """Add the jobs by COPY. False, with no job added, if some exist already."""
    await transaction.db.execute("SAVEPOINT copied")
    try:
        await bulk.copy_new(transaction, jobs)
    except (Conflict, asyncpg.UniqueViolationError):
        await transaction.db.execute("ROLLBACK TO copied")
        return False
    return True
