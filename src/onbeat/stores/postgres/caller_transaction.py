"""Enqueues and settles jobs, and publishes events, in the transaction of the caller."""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, cast

from onbeat.model.errors import Invalid, LeaseLost
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Settlement
from onbeat.stores.postgres import settle as ended_jobs
from onbeat.stores.postgres.connection import Database, parse_dsn
from onbeat.stores.postgres.enqueue import enqueue as enqueue_linked
from onbeat.stores.postgres.enqueue import enqueue_plain, new_job
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.verbs import events as event_verbs
from onbeat.stores.sql.verbs.enqueue import until_stored
from onbeat.stores.sql.verbs.events import new_row

TRIES_MAX: Final = 6
TABLES: Final = (
    "jobs|finished|waits|flow_waits|cascades|attempts|transitions|schedules|dispositions|queues|meters|turns"
    "|dead_letters|secrets|api_keys|audit|idempotency_keys"
    "|events|event_jobs|event_keys|event_waits|own_event_types|held_keys"
    "|faults|bulks|pulses|gauges|alerts|silences|job_logs"
    "|stream_watchers|stream_batches"
)
TABLE: Final = re.compile(rf"\b(INTO|FROM|USING|UPDATE|JOIN) ({TABLES})\b")


class CallerConnection(Protocol):
    """Placeholders are $1, $2 and so on; a sequence is an array."""

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Returns the number of rows added, or -1 if the driver does not know."""
        ...

    async def fetch(self, sql: str, values: Sequence[Any]) -> Sequence[Any]: ...


class CallerTransaction:
    """The caller's connection, with the interface of the store's transactions.

    It has its own search path, so table names are qualified with the schema.
    """

    def __init__(self, connection: CallerConnection, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def execute(self, query: str, *values: Any) -> str:
        return f"INSERT 0 {await self._connection.execute(self._at_home(query), values)}"

    async def fetch(self, query: str, *values: Any) -> Sequence[Any]:
        return await self._connection.fetch(self._at_home(query), values)

    async def fetchval(self, query: str, *values: Any) -> Any:
        rows = await self.fetch(query, *values)
        return rows[0][0] if rows else None

    def _at_home(self, sql: str) -> str:
        return TABLE.sub(rf'\1 "{self._schema}".\2', sql)


def caller_transaction(connection: CallerConnection, url: str) -> Transaction:
    return Transaction(cast("Database", CallerTransaction(connection, parse_dsn(url).schema)))


async def enqueue(
    connection: CallerConnection, url: str, jobs: Sequence[Job]
) -> Sequence[Enqueued]:
    """Like the method of the store, but neither begins nor commits."""
    transaction = caller_transaction(connection, url)
    rows = list(map(new_job, jobs))
    add = enqueue_linked if any(job.needs_locks for job in rows) else enqueue_plain
    return await until_stored(partial(add, transaction, rows), TRIES_MAX)


async def publish(
    connection: CallerConnection, url: str, events: Sequence[Event], now: datetime
) -> Sequence[bool]:
    """Like the method of the store, but neither begins nor commits."""
    rows = [new_row(event, now) for event in events]
    return await event_verbs.publish(caller_transaction(connection, url), rows) if rows else ()


async def settle(connection: CallerConnection, url: str, settlement: Settlement) -> None:
    """Like the method of the store, but neither begins nor commits.

    Raises `LeaseLost`, and `Invalid` without an open transaction.
    """
    transaction = caller_transaction(connection, url)
    await refuse_no_transaction(transaction)
    (was_ours,) = await ended_jobs.settle(transaction, [ended_jobs.prepare_settlement(settlement)])
    if not was_ours:
        raise LeaseLost


async def refuse_no_transaction(transaction: Transaction) -> None:
    """Without an open transaction, a transaction's id is gone by the next statement."""
    await transaction.value("SELECT txid_current()")
    if await transaction.value("SELECT txid_current_if_assigned()") is None:
        raise Invalid("the connection has no open transaction; begin one", field="connection")
