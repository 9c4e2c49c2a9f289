"""Idempotency keys: requests that take effect once."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeVar

import msgspec
from asyncmy import errors

from onbeat.model.errors import RequestInFlight, Unavailable
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.ports.store import Enqueued
from onbeat.stores.mysql import connection, enqueue
from onbeat.stores.mysql.errors import LOCK_WAIT, code_of
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import instant, micros

TAKE_SECONDS = 1  # the server's minimum for a lock timeout
HOLDERS_READ_MAX = 10

Answer = TypeVar("Answer")


class KeyedJobs(msgspec.Struct, frozen=True):
    """New jobs, and the request for them."""

    request: KeyedRequest
    jobs: Sequence[enqueue.NewJob]


async def run_keyed(
    transaction: Transaction,
    request: KeyedRequest,
    work: Callable[[Transaction], Awaitable[Answer]],
) -> Answer:
    """The key is inserted first: other requests with it wait for this row, for a short time."""
    await take(transaction, [request])
    answer = await work(transaction)
    await keep(transaction, [(request, request.answer(answer))])
    return answer


async def enqueue_keyed(
    transaction: Transaction, request: Sequence[KeyedJobs]
) -> Sequence[Sequence[Enqueued]]:
    """Add the jobs of several requests; refuses all if another request has one of their keys."""
    await take(transaction, [one.request for one in request])
    stored = iter(await enqueue_in_one(transaction, [job for one in request for job in one.jobs]))
    answers = [list(islice(stored, len(one.jobs))) for one in request]
    await keep(
        transaction,
        [(one.request, one.request.answer(its)) for one, its in zip(request, answers, strict=True)],
    )
    return answers


async def take(transaction: Transaction, requests: Sequence[KeyedRequest]) -> None:
    """Lock the keys until the end of the transaction. Raises `RequestInFlight` if one is taken."""
    rows = [
        (
            request.digest,
            request.fingerprint,
            micros(request.made_at),
            micros(request.made_at),
            request.first_job,
            request.last_job,
        )
        for request in sorted(requests, key=attrgetter("digest"))
    ]
    await wait_for_locks(transaction, TAKE_SECONDS)
    try:
        added = await transaction.insert(
            """
            INSERT INTO idempotency_keys
              (digest, fingerprint, made_at, kept_from, first_job, last_job, answer)
            VALUES (%s, %s, %s, %s, %s, %s, '')
            ON DUPLICATE KEY UPDATE digest = digest
            """,
            rows,
        )
    except errors.MySQLError as error:
        if code_of(error) == LOCK_WAIT:
            raise RequestInFlight from error
        raise
    finally:
        if transaction.db.connected:
            await wait_for_locks(transaction, connection.LOCK_SECONDS)
    if added < len(rows):
        raise RequestInFlight


async def keep(transaction: Transaction, answered: Sequence[tuple[KeyedRequest, bytes]]) -> None:
    await transaction.run_each(
        "UPDATE idempotency_keys SET answer = %s WHERE digest = %s",
        [(answer, request.digest) for request, answer in answered],
    )


async def wait_for_locks(transaction: Transaction, seconds: int) -> None:
    await transaction.run(f"SET SESSION innodb_lock_wait_timeout = {seconds}")


async def keyed_answers(
    transaction: Transaction, digests: Sequence[bytes]
) -> list[KeyedAnswer | None]:
    sql = """
        SELECT digest, fingerprint, made_at, answer
        FROM idempotency_keys FORCE INDEX (PRIMARY)
        WHERE digest IN %s
    """
    result = {
        digest: KeyedAnswer(fingerprint=fingerprint, made_at=instant(made_at), answer=answer)
        for digest, fingerprint, made_at, answer in await transaction.rows(sql, (tuple(digests),))
    }
    return [result.get(digest) for digest in digests]


async def forget_requests(transaction: Transaction, before: int, now: int, limit: int) -> int:
    """Keys of live jobs get a later `kept_from`, so that each is checked only now and then."""
    sql = """
        SELECT digest,
               EXISTS (SELECT 1 FROM jobs FORCE INDEX (PRIMARY)
                       WHERE jobs.id BETWEEN first_job AND last_job)
        FROM idempotency_keys FORCE INDEX (idempotency_keys_by_age)
        WHERE kept_from < %s
        ORDER BY kept_from, digest
        LIMIT %s
    """
    past = await transaction.rows(sql, (before, limit))
    await transaction.run_each(
        "UPDATE idempotency_keys SET kept_from = %s WHERE digest = %s",
        [(now, digest) for digest, is_live in past if is_live],
    )
    await transaction.run_each(
        "DELETE FROM idempotency_keys WHERE digest = %s",
        [(digest,) for digest, is_live in past if not is_live],
    )
    return len(past)


async def enqueue_in_one(
    transaction: Transaction, jobs: Sequence[enqueue.NewJob]
) -> Sequence[Enqueued]:
    """As `LoopConnections.enqueue`, within one transaction."""
    for _ in range(HOLDERS_READ_MAX):
        answers = await enqueue.enqueue(transaction, jobs)
        stored = [answer for answer in answers if answer is not None]
        if len(stored) == len(jobs):
            return stored
    raise Unavailable("the unique key changes hands too often; try again")
