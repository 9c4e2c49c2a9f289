"""Locks on idempotency keys, and new jobs of a request that has one."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from asyncmy import errors

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedRequest
from onbeat.ports.store import Enqueued
from onbeat.stores.mysql.connection import LOCK_SECONDS
from onbeat.stores.mysql.enqueue import NewJob, enqueue
from onbeat.stores.mysql.errors import LOCK_WAIT, code_of
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.verbs.enqueue import until_stored
from onbeat.stores.sql.verbs.idempotency import DIGEST, KeyVerbs, insert_requests

TAKE_SECONDS = 1  # the server's minimum for a lock timeout
HOLDERS_READ_MAX = 10


async def take(transaction: Transaction, requests: Sequence[KeyedRequest]) -> list[bool]:
    """Insert the keys without answers: other requests with one of them wait for its row.

    Raises `RequestInFlight` if one is taken.
    """
    await wait_for_locks(transaction, TAKE_SECONDS)
    try:
        await insert_requests(transaction, [(request, b"") for request in requests])
    except errors.MySQLError as error:
        if code_of(error) == LOCK_WAIT:
            raise RequestInFlight from error
        raise
    finally:
        if transaction.db.connected:
            await wait_for_locks(transaction, LOCK_SECONDS)
    return [True] * len(requests)


async def keep(transaction: Transaction, answered: Sequence[tuple[KeyedRequest, bytes]]) -> None:
    rows = [(request.digest, answer) for request, answer in answered]
    await transaction.update_rows("idempotency_keys", DIGEST, {"answer": "bytea"}, rows)


async def wait_for_locks(transaction: Transaction, seconds: int) -> None:
    await transaction.run(f"SET SESSION innodb_lock_wait_timeout = {seconds}")


async def enqueue_in_one(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """As `LoopConnections.enqueue`, within one transaction."""
    return await until_stored(partial(enqueue, transaction, jobs), HOLDERS_READ_MAX)


KEYS: Final = KeyVerbs[Transaction, NewJob](take=take, keep=keep, enqueue=enqueue_in_one)
