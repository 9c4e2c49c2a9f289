"""Enqueues and settles jobs on the caller's connection, in the caller's transaction.

The caller's session may read from an old snapshot (REPEATABLE READ is the servers' default), and
its driver may count rows that an INSERT left as they are. So what other transactions may have
changed is read with a lock, which sees the present, and no count of inserted rows is believed.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from onbeat.model.errors import Invalid, LeaseLost
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint, Settlement
from onbeat.stores.mysql import settle as ended_jobs
from onbeat.stores.mysql.connection import parse_dsn
from onbeat.stores.mysql.enqueue import enqueue as add
from onbeat.stores.mysql.enqueue import new_job
from onbeat.stores.mysql.transaction import Row, Transaction, Values
from onbeat.stores.sql.verbs import events as event_verbs
from onbeat.stores.sql.verbs.enqueue import until_stored

TRIES_MAX: Final = 10
TABLES: Final = (
    "jobs|finished|waits|cascades|attempts|transitions|schedules|dispositions|queues|meters|turns"
    "|dead_letters|secrets|api_keys|audit|idempotency_keys"
    "|events|event_jobs|event_keys|event_waits|own_event_types|held_keys|flow_waits"
    "|faults|bulks|pulses|gauges|alerts|silences|job_logs"
    "|stream_watchers|stream_batches"
)
TABLE: Final = re.compile(rf"\b(INTO|FROM|UPDATE|JOIN|DELETE) ({TABLES})\b")
ONE_ROW: Final = re.compile(r"VALUES\s*(\(\s*%s(?:\s*,\s*%s)*\s*\))")
CHANGING: Final = re.compile(
    r"SELECT [\w, ]+\s+FROM (waits|flow_waits|held_keys|events)\b|SELECT .* WHERE unique_hash IN",
    re.DOTALL,
)
"""Queries about rows that other transactions may have added since the caller's snapshot."""

UNKNOWN_COUNT: Final = -1
NO_SAVEPOINT: Final = 1305
SAVEPOINT: Final = "onbeat_probe"


class CallerConnection(Protocol):
    """Placeholders are those of the drivers: %s and %(name)s; a tuple is a list."""

    async def execute(self, sql: str, values: Any) -> int:
        """Returns the number of rows changed, or -1 if the driver does not know."""
        ...

    async def fetch(self, sql: str, values: Any) -> Sequence[Any]: ...


class CallerTransaction(Transaction):
    """The caller's transaction; table names are qualified with the database of the store."""

    def __init__(self, connection: CallerConnection, database: str) -> None:
        self.connection = connection
        self.database = database.replace("`", "``")
        self.hints: set[Hint] = set()

    async def run(self, sql: str, values: Values | None = None) -> int:
        return await self.connection.execute(self._at_home(sql), values or ())

    async def insert(self, sql: str, rows: Sequence[Row]) -> int:
        if rows:
            marks = ", ".join([row_of(sql)] * len(rows))
            many = ONE_ROW.sub(lambda _: f"VALUES {marks}", sql, count=1)
            await self.run(many, [value for row in rows for value in row])
        return UNKNOWN_COUNT if rows else 0

    async def run_each(self, sql: str, rows: Iterable[Values]) -> int:
        return sum([await self.run(sql, row) for row in rows])

    async def rows(self, sql: str, values: Values | None = None) -> Sequence[Row]:
        lock = " LOCK IN SHARE MODE" if CHANGING.match(sql.strip()) else ""
        found = await self.connection.fetch(self._at_home(sql) + lock, values or ())
        return [tuple(row) for row in found]

    async def tables(self, sqls: Sequence[str], values: Values) -> list[Sequence[Row]]:
        """One after the other: not every connection takes several statements at once."""
        return [await self.rows(sql, values if "%" in sql else None) for sql in sqls]

    def _at_home(self, sql: str) -> str:
        return TABLE.sub(rf"\1 `{self.database}`.\2", sql)


def row_of(sql: str) -> str:
    """The placeholders of one row."""
    found = ONE_ROW.search(sql)
    assert found is not None, "an INSERT of rows"
    return found[1]


def caller_transaction(connection: CallerConnection, url: str) -> CallerTransaction:
    return CallerTransaction(connection, parse_dsn(url).database)


async def enqueue(
    connection: CallerConnection, url: str, jobs: Sequence[Job]
) -> Sequence[Enqueued]:
    """Like the method of the store, but neither begins nor commits."""
    transaction = caller_transaction(connection, url)
    rows = list(map(new_job, jobs))
    return await until_stored(partial(add, transaction, rows), TRIES_MAX)


async def publish(
    connection: CallerConnection, url: str, events: Sequence[Event], now: datetime
) -> Sequence[bool]:
    """Like the method of the store, but neither begins nor commits."""
    rows = [event_verbs.new_row(event, now) for event in events]
    return await event_verbs.publish(caller_transaction(connection, url), rows) if rows else ()


async def settle(connection: CallerConnection, url: str, settlement: Settlement) -> None:
    """Like the method of the store, but neither begins nor commits.

    Raises `LeaseLost`, and `Invalid` without an open transaction.
    """
    transaction = caller_transaction(connection, url)
    await refuse_no_transaction(connection)
    (was_ours,) = await ended_jobs.settle(transaction, [ended_jobs.prepare_settlement(settlement)])
    if not was_ours:
        raise LeaseLost


async def refuse_no_transaction(connection: CallerConnection) -> None:
    """Without an open transaction, a savepoint is gone by the next statement."""
    await connection.execute(f"SAVEPOINT {SAVEPOINT}", ())
    try:
        await connection.execute(f"RELEASE SAVEPOINT {SAVEPOINT}", ())
    except Exception as error:
        if getattr(error, "orig", error).args[:1] == (NO_SAVEPOINT,):
            raise Invalid(
                "the connection has no open transaction; begin one", field="connection"
            ) from error
        raise
