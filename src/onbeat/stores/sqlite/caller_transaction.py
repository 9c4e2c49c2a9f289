"""Enqueues and settles jobs, and publishes events, in the transaction of the caller."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import apsw

from onbeat.model.errors import Invalid, LeaseLost, Misconfigured
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Settlement
from onbeat.stores.sql.dialect import Value
from onbeat.stores.sql.verbs import events as event_verbs
from onbeat.stores.sql.verbs.events import new_row
from onbeat.stores.sqlite import enqueue as new_jobs
from onbeat.stores.sqlite import settle as ended_jobs
from onbeat.stores.sqlite.migrate import migrations, recognise
from onbeat.stores.sqlite.transaction import Bindings, Transaction, finish

SCHEME: Final = "sqlite:///"
OPEN: Final[dict[object, str]] = {}
"""The database files that stores of this process have open."""


class CallerConnection(Protocol):
    """`driver` is the driver's own connection; placeholders are question marks."""

    @property
    def driver(self) -> object: ...

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Returns the number of rows added, or -1 if the driver does not know."""
        ...

    def fetch(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]: ...


class CallerTransaction(Transaction):
    """The caller's transaction; the store neither begins nor ends it."""

    def __init__(self, connection: CallerConnection) -> None:
        self.connection = connection
        self.hints = set()

    def run(self, sql: str, bindings: Bindings = ()) -> int:
        return self.connection.execute(sql.strip(), positional_values(bindings))

    def value(self, sql: str, bindings: Bindings = ()) -> Any:
        rows = self.connection.fetch(sql.strip(), positional_values(bindings))
        return rows[0][0] if rows else None


def positional_values(bindings: Bindings) -> tuple[Value, ...]:
    assert isinstance(bindings, Sequence), "drivers agree on question marks only"
    return tuple(bindings)


@contextmanager
def caller_transaction(
    connection: CallerConnection, url: str
) -> Generator[CallerTransaction, None, None]:
    """Raises `Invalid` for another file, `Misconfigured` for other tables.

    The first statement writes: after a read, SQLite does not let a transaction wait for the lock.
    """
    path = url.removeprefix(SCHEME)
    refuse_other_file(connection, path)
    refuse_second_library(connection, path)
    transaction = CallerTransaction(connection)
    try:
        yield transaction
    finally:
        refuse_other_schema(transaction, path)


def enqueue(connection: CallerConnection, url: str, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """Like the method of the store, but neither begins nor commits.

    Raises `Invalid` for another file.
    """
    with caller_transaction(connection, url) as transaction:
        return new_jobs.enqueue(transaction, list(map(new_jobs.new_job, jobs)))


def publish(
    connection: CallerConnection, url: str, events: Sequence[Event], now: datetime
) -> Sequence[bool]:
    """Like the method of the store, but neither begins nor commits.

    Raises `Invalid` for another file.
    """
    rows = [new_row(event, now) for event in events]
    with caller_transaction(connection, url) as transaction:
        return finish(event_verbs.publish(transaction, rows))


def settle(connection: CallerConnection, url: str, settlement: Settlement) -> None:
    """Like the method of the store, but neither begins nor commits.

    Raises `LeaseLost`, and `Invalid` for another file or without an open transaction.
    """
    with caller_transaction(connection, url) as transaction:
        refuse_no_transaction(transaction)
        (was_ours,) = ended_jobs.settle(transaction, [ended_jobs.prepare_settlement(settlement)])
    if not was_ours:
        raise LeaseLost


def refuse_no_transaction(transaction: CallerTransaction) -> None:
    """Some drivers begin a transaction implicitly with the first statement that may write."""
    transaction.run("DELETE FROM onbeat_waits WHERE FALSE")
    if not getattr(transaction.connection.driver, "in_transaction", False):
        raise Invalid("the connection has no open transaction; begin one", field="connection")


def refuse_other_schema(transaction: Transaction, path: str) -> None:
    if recognise(transaction, path) != len(migrations()):
        raise Misconfigured(
            f"SQLite database {path} does not have this version's tables; run `onbeat migrate`",
            key="store",
        )


def refuse_other_file(connection: CallerConnection, path: str) -> None:
    rows = connection.fetch("PRAGMA database_list", ())
    file = next((row[2] for row in rows if row[1] == "main"), None)
    if not is_same(file, path):
        raise Invalid(
            f"the connection is to {file or 'a database in memory'}, and the store is {path}; "
            "one transaction needs one file",
            field="connection",
        )


def refuse_second_library(connection: CallerConnection, path: str) -> None:
    """Two copies of SQLite in one process do not see each other's locks on a file.

    The operating system keeps those locks per process. Both copies would write to the WAL at once,
    and the commits of one of them would be lost.
    """
    if isinstance(connection.driver, apsw.Connection):
        return
    if not apsw.using_amalgamation and is_one_library(connection):
        return
    if any(is_same(file, path) for file in list(OPEN.values())):
        raise Invalid(
            f"this process has {path} open as its store, through a copy of SQLite other than that "
            "of this connection, and the two would overwrite each other; use an apsw.Connection, "
            "or send from a process that does not open the store",
            field="connection",
        )


def is_one_library(connection: CallerConnection) -> bool:
    ((source,),) = connection.fetch("SELECT sqlite_source_id()", ())
    return bool(source == apsw.sqlite3_sourceid())


def is_same(file: str | None, path: str) -> bool:
    try:
        return bool(file) and Path(str(file)).samefile(path)
    except OSError:
        return False
