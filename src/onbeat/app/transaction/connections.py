"""Adapters from callers' connections to the interface of the stores."""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

Value = TypeVar("Value")
Rows = Sequence[Sequence[Any]]

ACCEPTED: Final = (
    "a connection of sqlite3, apsw, asyncpg, psycopg 3, asyncmy or PyMySQL, or a Session or "
    "Connection of SQLAlchemy, plain or asynchronous"
)
PLACEHOLDER: Final = re.compile(r"\$(\d+)")


def run_synchronously(work: Coroutine[Any, Any, Value]) -> Value:
    """The result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    work.close()
    raise AssertionError("it waited")


# Connections


class SyncConnection(ABC):
    """A synchronous connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @property
    def kind(self) -> str:
        """The kind of store that it connects to."""
        return "sqlite"

    @property
    def driver(self) -> object:
        return self.connection

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Returns the number of rows added, or -1 where the driver does not know."""

    @abstractmethod
    def fetch(self, sql: str, values: Sequence[Any]) -> Rows: ...


class AsyncConnection(Protocol):
    """An asynchronous connection."""

    @property
    def kind(self) -> str: ...

    async def execute(self, sql: str, values: Sequence[Any]) -> int: ...

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows: ...


class SyncAsAsync:
    """A synchronous connection behind the asynchronous interface."""

    def __init__(self, line: SyncConnection) -> None:
        self.connection = line
        self.kind = line.kind

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        return self.connection.execute(sql, values)

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        return self.connection.fetch(sql, values)


class Sqlite3Connection(SyncConnection):
    """Returns rows as tuples, regardless of the connection's row factory."""

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        return int(self.connection.cursor().execute(sql, values).rowcount)

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        rows: Rows = cursor.execute(sql, values).fetchall()
        return rows


class ApswConnection(SyncConnection):
    def execute(self, sql: str, values: Sequence[Any]) -> int:
        self.fetch(sql, values)
        return int(self.connection.changes())

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        cursor = self.connection.cursor()
        cursor.row_trace = None
        rows: Rows = cursor.execute(sql, values).fetchall()
        return rows


class PsycopgConnection(SyncConnection):
    """Uses the default cursor class, regardless of the connection's cursor factory."""

    @property
    def kind(self) -> str:
        return "postgresql"

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        with self.cursor() as cursor:
            return int(cursor.execute(*to_named_placeholders(sql, values)).rowcount)

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        with self.cursor() as cursor:
            rows: Rows = cursor.execute(*to_named_placeholders(sql, values)).fetchall()
            return rows

    def cursor(self) -> Any:
        return sys.modules["psycopg"].Cursor(self.connection, row_factory=tuple_rows)


class AsyncPsycopgConnection:
    kind = "postgresql"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        async with self.cursor() as cursor:
            return int((await cursor.execute(*to_named_placeholders(sql, values))).rowcount)

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        async with self.cursor() as cursor:
            await cursor.execute(*to_named_placeholders(sql, values))
            rows: Rows = await cursor.fetchall()
            return rows

    def cursor(self) -> Any:
        return sys.modules["psycopg"].AsyncCursor(self.connection, row_factory=tuple_rows)


class AsyncpgConnection:
    kind = "postgresql"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        status: str = await self.connection.execute(sql, *values)
        return int(status.rpartition(" ")[2])

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        rows: Rows = await self.connection.fetch(sql, *values)
        return rows


class PyMysqlConnection(SyncConnection):
    """Uses the plain cursor class, regardless of the connection's."""

    @property
    def kind(self) -> str:
        return "mysql"

    def execute(self, sql: str, values: Any) -> int:
        with self.cursor() as cursor:
            return int(cursor.execute(sql, values))

    def fetch(self, sql: str, values: Any) -> Rows:
        with self.cursor() as cursor:
            cursor.execute(sql, values)
            rows: Rows = cursor.fetchall()
            return rows

    def cursor(self) -> Any:
        return self.connection.cursor(sys.modules["pymysql.cursors"].Cursor)


class AsyncmyConnection:
    """Uses the plain cursor class, regardless of the connection's."""

    kind = "mysql"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, sql: str, values: Any) -> int:
        async with self.cursor() as cursor:
            await cursor.execute(sql, values)
            return int(cursor.rowcount)

    async def fetch(self, sql: str, values: Any) -> Rows:
        async with self.cursor() as cursor:
            await cursor.execute(sql, values)
            rows: Rows = await cursor.fetchall()
            return rows

    def cursor(self) -> Any:
        return self.connection.cursor(sys.modules["asyncmy.cursors"].Cursor)


class SqlAlchemyConnection(SyncConnection):
    """A SQLAlchemy Connection; its statements use the placeholders of the driver."""

    def current(self) -> Any:
        return self.connection

    @property
    def kind(self) -> str:
        name = str(self.current().dialect.name)
        return "mysql" if name == "mariadb" else name

    @property
    def driver(self) -> object:
        result: object = self.current().connection.driver_connection
        return result

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        return int(self.run(sql, values).rowcount)

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        rows: Rows = self.run(sql, values).fetchall()
        return rows

    def run(self, sql: str, values: Sequence[Any]) -> Any:
        connection = self.current()
        style = connection.dialect.paramstyle
        if self.kind == "mysql" and style in {"format", "pyformat"}:
            # In a tuple, so that a list of values is no list of executions.
            return connection.exec_driver_sql(
                sql, values if isinstance(values, dict) else tuple(values)
            )
        if style == "pyformat":
            return connection.exec_driver_sql(*to_named_placeholders(sql, values))
        if style in {"qmark", "numeric_dollar"}:
            return connection.exec_driver_sql(sql, tuple(values))
        raise TypeError(
            f"the driver {connection.dialect.driver} is not known here; give {ACCEPTED}"
        )


class SqlAlchemySession(SqlAlchemyConnection):
    """A SQLAlchemy Session, which may use another connection in each transaction."""

    def current(self) -> Any:
        return self.connection.connection()


class SqlAlchemyAsync:
    """An asynchronous SQLAlchemy connection or session, which runs synchronous code itself."""

    def __init__(self, connection: Any, plain: Callable[[Any], SyncConnection]) -> None:
        self.connection = connection
        self.sync = plain

    async def run_sync(self, work: Callable[[SyncConnection], Value]) -> Value:
        def run_on_connection(connection: Any) -> Value:
            return work(self.sync(connection))

        value: Value = await self.connection.run_sync(run_on_connection)
        return value


def to_named_placeholders(sql: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """The statement with its placeholders as %(p1)s."""
    given = {f"p{number}": as_array(value) for number, value in enumerate(values, 1)}
    return PLACEHOLDER.sub(r"%(p\1)s", sql.replace("%", "%%")), given


def as_array(value: Any) -> Any:
    """As a list, because a tuple would be sent as a record."""
    return [*value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


def tuple_rows(_cursor: object) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Rows of psycopg as plain tuples, regardless of the connection's row factory."""
    return tuple


ADAPTERS: Final[
    dict[tuple[str, str], Callable[[Any], "SyncConnection | AsyncConnection | SqlAlchemyAsync"]]
] = {
    ("sqlite3", "Connection"): Sqlite3Connection,
    ("apsw", "Connection"): ApswConnection,
    ("asyncpg", "Connection"): AsyncpgConnection,
    ("asyncpg", "PoolConnectionProxy"): AsyncpgConnection,
    ("asyncmy", "Connection"): AsyncmyConnection,
    ("pymysql", "Connection"): PyMysqlConnection,
    ("psycopg", "Connection"): PsycopgConnection,
    ("psycopg", "AsyncConnection"): AsyncPsycopgConnection,
    ("sqlalchemy", "Connection"): SqlAlchemyConnection,
    ("sqlalchemy", "Session"): SqlAlchemySession,
    ("sqlalchemy", "scoped_session"): SqlAlchemySession,
    ("sqlalchemy", "AsyncConnection"): lambda one: SqlAlchemyAsync(one, SqlAlchemyConnection),
    ("sqlalchemy", "AsyncSession"): lambda one: SqlAlchemyAsync(one, SqlAlchemySession),
}


def adapt(connection: object) -> "SyncConnection | AsyncConnection | SqlAlchemyAsync":
    """Raises TypeError, naming the supported connections."""
    for kind in type(connection).__mro__:
        make = ADAPTERS.get((kind.__module__.partition(".")[0], kind.__qualname__))
        if make is not None:
            return make(connection)
    raise TypeError(f"{type(connection).__qualname__} is no connection known here; give {ACCEPTED}")
