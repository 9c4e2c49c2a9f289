"""New jobs and ended ones on a connection of the caller's, in the caller's transaction."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import apsw

from onbeat.model.errors import Invalid, LeaseLost, Misconfigured
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Settlement
from onbeat.stores.sqlite import enqueue as new_jobs
from onbeat.stores.sqlite import settle as ended_jobs
from onbeat.stores.sqlite.migrate import migrations, recognise
from onbeat.stores.sqlite.transaction import Bindings, Transaction, Value

SCHEME: Final = "sqlite:///"
OPEN: Final[dict[object, str]] = {}
"""The files that stores of this process have open."""


class Connection(Protocol):
    """`driver` is the driver's own connection; marks are question marks."""

    @property
    def driver(self) -> object: ...

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Answers with the number of rows added, or -1 where the driver does not know."""
        ...

    def fetch(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]: ...


class Borrowed(Transaction):
    """The caller's transaction, which is not ours to begin or to end."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.hints = set()

    def run(self, sql: str, bindings: Bindings = ()) -> int:
        return self.connection.execute(sql.strip(), in_order(bindings))

    def value(self, sql: str, bindings: Bindings = ()) -> Any:
        rows = self.connection.fetch(sql.strip(), in_order(bindings))
        return rows[0][0] if rows else None


def in_order(bindings: Bindings) -> tuple[Value, ...]:
    assert isinstance(bindings, Sequence), "drivers agree on question marks only"
    return tuple(bindings)


@contextmanager
def borrowed(connection: Connection, url: str) -> Generator[Borrowed, None, None]:
    """Raises `Invalid` for another file, `Misconfigured` for other tables.

    The write comes first: once a transaction has read, SQLite does not let it wait for its turn.
    """
    path = url.removeprefix(SCHEME)
    refuse_other_file(connection, path)
    refuse_second_library(connection, path)
    transaction = Borrowed(connection)
    try:
        yield transaction
    finally:
        refuse_other_schema(transaction, path)


def enqueue(connection: Connection, url: str, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """As the store's own, which neither begins nor commits. Raises `Invalid` for another file."""
    with borrowed(connection, url) as transaction:
        return new_jobs.enqueue(transaction, list(map(new_jobs.new_job, jobs)))


def settle(connection: Connection, url: str, settlement: Settlement) -> None:
    """As the store's own, which neither begins nor commits.

    Raises `LeaseLost`, and `Invalid` for another file or where no transaction is open.
    """
    with borrowed(connection, url) as transaction:
        refuse_no_transaction(transaction)
        (was_ours,) = ended_jobs.settle(transaction, [ended_jobs.settled(settlement)])
    if not was_ours:
        raise LeaseLost


def refuse_no_transaction(transaction: Borrowed) -> None:
    """Some connections begin one by themselves with the first statement that may write."""
    transaction.run("DELETE FROM waits WHERE FALSE")
    if not getattr(transaction.connection.driver, "in_transaction", False):
        raise Invalid("the connection is in no transaction; begin one", field="connection")


def refuse_other_schema(transaction: Transaction, path: str) -> None:
    if recognise(transaction, path) != len(migrations()):
        raise Misconfigured(
            f"SQLite database {path} has not this program's tables; `onbeat migrate` makes them",
            key="store",
        )


def refuse_other_file(connection: Connection, path: str) -> None:
    found = connection.fetch("PRAGMA database_list", ())
    file = next((row[2] for row in found if row[1] == "main"), None)
    if not is_same(file, path):
        raise Invalid(
            f"the connection is to {file or 'a database in memory'}, and the store is {path}; "
            "one transaction needs one file",
            field="connection",
        )


def refuse_second_library(connection: Connection, path: str) -> None:
    """Two copies of SQLite in one process do not see each other's locks on a file.

    The system keeps those locks for the process as a whole. Both copies would write to the log at
    once, and what one of them had committed would be gone.
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


def is_one_library(connection: Connection) -> bool:
    ((source,),) = connection.fetch("SELECT sqlite_source_id()", ())
    return bool(source == apsw.sqlite3_sourceid())


def is_same(file: str | None, path: str) -> bool:
    try:
        return bool(file) and Path(str(file)).samefile(path)
    except OSError:
        return False
