"""Locks on idempotency keys, and new jobs of a request that has one."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import asyncpg

from onbeat.model.errors import Conflict
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued
from onbeat.stores.postgres import bulk, enqueue
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.verbs.enqueue import until_stored
from onbeat.stores.sql.verbs.idempotency import KeyVerbs, insert_requests

HOLDERS_READ_MAX = 6


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
    first = {digest: place for place, digest in reversed(tuple(enumerate(digests)))}
    return [free and first[digests[place]] == place for place, free in enumerate(rows)]


async def enqueue_in_one(transaction: Transaction, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """As `LoopConnections.enqueue`, within one transaction."""
    if not jobs:
        return []
    if bulk.may_be_copied(jobs) and await is_copied(transaction, jobs):
        return [Enqueued(job.id, created=True) for job in jobs]
    new = list(map(enqueue.new_job, jobs))
    if any(job.needs_locks for job in new):
        return await enqueue.enqueue(transaction, new)
    return await until_stored(partial(enqueue.enqueue_plain, transaction, new), HOLDERS_READ_MAX)


async def is_copied(transaction: Transaction, jobs: Sequence[Job]) -> bool:
    """Add the jobs by COPY. False, with no job added, if some exist already."""
    await transaction.db.execute("SAVEPOINT copied")
    try:
        await bulk.copy_new(transaction, jobs)
    except (Conflict, asyncpg.UniqueViolationError):
        await transaction.db.execute("ROLLBACK TO copied")
        return False
    return True


KEYS: Final = KeyVerbs[Transaction, Job](take=take, keep=insert_requests, enqueue=enqueue_in_one)
