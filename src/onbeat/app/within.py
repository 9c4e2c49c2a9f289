"""Sending through a connection of the caller's: the jobs come to be with its transaction.

A connection is known by its class and the package that has it, so that no driver is imported here.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Final, Protocol, TypeVar, overload

from onbeat.app.calls import Call
from onbeat.app.composition import Options
from onbeat.app.handle import Job, Reader
from onbeat.model import job as model
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Enqueued, Settlement, Store

Result = TypeVar("Result")
Value = TypeVar("Value")
Rows = Sequence[Sequence[Any]]

ACCEPTED: Final = (
    "a connection of sqlite3, apsw, asyncpg or psycopg 3, or a Session or Connection of "
    "SQLAlchemy, plain or asynchronous"
)
MARK: Final = re.compile(r"\$(\d+)")
NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class Host(Reader, Protocol):
    """The `Onbeat` that the jobs belong to."""

    clock: Clock
    chance: Chance
    options: Options

    @property
    def store(self) -> Store: ...

    async def open(self) -> None: ...


class Within:
    """Sends as `Onbeat` does, in the transaction that `connection` is in, and never commits it.

    The jobs exist if and only if that transaction commits. On a connection that commits every
    statement by itself they exist at once. What the driver raises comes through as it is.
    """

    def __init__(self, host: Host, connection: object) -> None:
        self.host = host
        self.line = line_of(connection)

    @overload
    def send(self, calls: Call[Result]) -> Job[Result]: ...

    @overload
    def send(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]: ...

    def send(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one statement. TypeError on an asynchronous connection."""
        return self.send_call(calls) if isinstance(calls, Call) else self.send_all(calls)

    @overload
    async def asend(self, calls: Call[Result]) -> Job[Result]: ...

    @overload
    async def asend(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]: ...

    async def asend(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one statement; a plain connection blocks the loop meanwhile."""
        if isinstance(calls, Call):
            return await self.asend_call(calls)
        return await self.asend_all(calls)

    def send_call(self, call: Call[Result]) -> Job[Result]:
        (job,) = self.send_all([call])
        return job

    async def asend_call(self, call: Call[Result]) -> Job[Result]:
        (job,) = await self.asend_all([call])
        return job

    def send_all(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        line = self.line
        if not isinstance(line, Line):
            raise TypeError("the connection is asynchronous; use asend")
        # Opening keeps the clock with the store's, by which the jobs are then stamped.
        if calls and kind_of(self.host.store) == "postgresql":
            self.host.wait_for(self.host.open())
        jobs = self.jobs(calls)
        return self.handles(calls, store_plain(self.host.store, line, jobs))

    async def asend_all(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        store, line = self.host.store, self.line
        if calls and kind_of(store) == "postgresql":
            await self.host.open()
        jobs = self.jobs(calls)
        if isinstance(line, Line):
            enqueued = store_plain(store, line, jobs)
        elif isinstance(line, Bridge):
            enqueued = await line.cross(lambda plain: store_plain(store, plain, jobs))
        else:
            enqueued = await store_waiting(store, line, jobs)
        return self.handles(calls, enqueued)

    def jobs(self, calls: Sequence[Call[Any]]) -> list[model.Job]:
        if any(call.options.after for call in calls):
            raise Invalid(
                "a job sent within a transaction cannot wait for others; send it after the commit",
                field="after",
            )
        now, retry = self.host.clock.now(), self.host.options.retry
        ids = self.host.chance.ids(len(calls))
        return [call.job(id, now, retry) for call, id in zip(calls, ids, strict=True)]

    def handles(self, calls: Sequence[Call[Any]], enqueued: Sequence[Enqueued]) -> list[Job[Any]]:
        return [
            Job(self.host, answer.id, call, created=answer.created)
            for call, answer in zip(calls, enqueued, strict=True)
        ]

    def within(self, connection: object) -> "Within":
        return Within(self.host, connection)


# The store's part


def kind_of(store: Store) -> str:
    return store.url.partition(":")[0]


def refuse_other(store: Store, line: "Line | Waiting") -> None:
    kind = kind_of(store)
    if kind not in NAMES:
        raise Misconfigured(
            f"a transaction can be shared on SQLite and PostgreSQL, not on {store.url}",
            key="store",
        )
    if kind != line.kind:
        raise Invalid(
            f"the connection is to {NAMES.get(line.kind, line.kind)}, and the store is "
            f"{NAMES[kind]}; one transaction needs one database",
            field="connection",
        )


def store_plain(store: Store, line: "Line", jobs: Sequence[model.Job]) -> Sequence[Enqueued]:
    refuse_other(store, line)
    if not jobs:
        return []
    if line.kind == "sqlite":
        from onbeat.stores.sqlite.outside import enqueue  # noqa: PLC0415  only where it is used

        return enqueue(line, store.url, jobs)
    return at_once(store_waiting(store, AtOnce(line), jobs))


async def store_waiting(
    store: Store, line: "Waiting", jobs: Sequence[model.Job]
) -> Sequence[Enqueued]:
    refuse_other(store, line)
    if not jobs:
        return []
    from onbeat.stores.postgres.outside import enqueue  # noqa: PLC0415  only where it is used

    return await enqueue(line, store.url, jobs)


def finish_within(store: Store, connection: object, settlement: Settlement) -> Awaitable[None]:
    """Settle in the transaction that `connection` is in; on a plain one, before it returns.

    Raises `LeaseLost` when the lease is not valid any more, `Invalid` where no transaction is open.
    """
    line = line_of(connection)
    if isinstance(line, Line):
        settle_plain(store, line, settlement)
        return Done()
    if isinstance(line, Bridge):
        return line.cross(lambda plain: settle_plain(store, plain, settlement))
    return settle_waiting(store, line, settlement)


def settle_plain(store: Store, line: "Line", settlement: Settlement) -> None:
    refuse_other(store, line)
    if line.kind == "sqlite":
        from onbeat.stores.sqlite.outside import settle  # noqa: PLC0415  only where it is used

        settle(line, store.url, settlement)
    else:
        at_once(settle_waiting(store, AtOnce(line), settlement))


async def settle_waiting(store: Store, line: "Waiting", settlement: Settlement) -> None:
    refuse_other(store, line)
    from onbeat.stores.postgres.outside import settle  # noqa: PLC0415  only where it is used

    await settle(line, store.url, settlement)


class Done:
    """For who awaits what is done already."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def at_once(work: Coroutine[Any, Any, Value]) -> Value:
    """What `work` comes to, where nothing in it ever waits."""
    try:
        work.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    work.close()
    raise AssertionError("it waited")


# Connections


class Line:
    """A connection that answers at once."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @property
    def kind(self) -> str:
        """That of the store to which it may lead."""
        return "sqlite"

    @property
    def driver(self) -> object:
        return self.connection

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Answers with the number of rows added, or -1 where the driver does not know."""
        raise NotImplementedError

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        raise NotImplementedError


class Waiting(Protocol):
    """A connection whose answers are awaited."""

    @property
    def kind(self) -> str: ...

    async def execute(self, sql: str, values: Sequence[Any]) -> int: ...

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows: ...


class AtOnce:
    """A plain connection where an asynchronous one is expected."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.kind = line.kind

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        return self.line.execute(sql, values)

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        return self.line.fetch(sql, values)


class Sqlite(Line):
    """Rows come as tuples, whatever the connection makes of its own."""

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        return int(self.connection.cursor().execute(sql, values).rowcount)

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        rows: Rows = cursor.execute(sql, values).fetchall()
        return rows


class Apsw(Line):
    def execute(self, sql: str, values: Sequence[Any]) -> int:
        self.fetch(sql, values)
        return int(self.connection.changes())

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        cursor = self.connection.cursor()
        cursor.row_trace = None
        rows: Rows = cursor.execute(sql, values).fetchall()
        return rows


class Psycopg(Line):
    """Cursors are of the usual class, whatever the connection makes of its own."""

    @property
    def kind(self) -> str:
        return "postgresql"

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        with self.cursor() as cursor:
            return int(cursor.execute(*named(sql, values)).rowcount)

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        with self.cursor() as cursor:
            rows: Rows = cursor.execute(*named(sql, values)).fetchall()
            return rows

    def cursor(self) -> Any:
        return sys.modules["psycopg"].Cursor(self.connection, row_factory=tuples)


class AsyncPsycopg:
    kind = "postgresql"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        async with self.cursor() as cursor:
            return int((await cursor.execute(*named(sql, values))).rowcount)

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        async with self.cursor() as cursor:
            await cursor.execute(*named(sql, values))
            rows: Rows = await cursor.fetchall()
            return rows

    def cursor(self) -> Any:
        return sys.modules["psycopg"].AsyncCursor(self.connection, row_factory=tuples)


class Asyncpg:
    kind = "postgresql"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        status: str = await self.connection.execute(sql, *values)
        return int(status.rpartition(" ")[2])

    async def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        rows: Rows = await self.connection.fetch(sql, *values)
        return rows


class Alchemy(Line):
    """A Connection of SQLAlchemy, whose statements go to the driver as the driver wants them."""

    def at(self) -> Any:
        return self.connection

    @property
    def kind(self) -> str:
        return str(self.at().dialect.name)

    @property
    def driver(self) -> object:
        found: object = self.at().connection.driver_connection
        return found

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        return int(self.ask(sql, values).rowcount)

    def fetch(self, sql: str, values: Sequence[Any]) -> Rows:
        rows: Rows = self.ask(sql, values).fetchall()
        return rows

    def ask(self, sql: str, values: Sequence[Any]) -> Any:
        connection = self.at()
        style = connection.dialect.paramstyle
        if style == "pyformat":
            return connection.exec_driver_sql(*named(sql, values))
        if style in {"qmark", "numeric_dollar"}:
            return connection.exec_driver_sql(sql, tuple(values))
        raise TypeError(
            f"the driver {connection.dialect.driver} is not known here; give {ACCEPTED}"
        )


class AlchemySession(Alchemy):
    """A Session, which has another connection in each of its transactions."""

    def at(self) -> Any:
        return self.connection.connection()


class Bridge:
    """An asynchronous one of SQLAlchemy, which runs plain code on its own."""

    def __init__(self, connection: Any, plain: Callable[[Any], Line]) -> None:
        self.connection = connection
        self.plain = plain

    async def cross(self, work: Callable[[Line], Value]) -> Value:
        def on_this_side(connection: Any) -> Value:
            return work(self.plain(connection))

        value: Value = await self.connection.run_sync(on_this_side)
        return value


def named(sql: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """The statement with its marks as %(p1)s."""
    given = {f"p{number}": as_array(value) for number, value in enumerate(values, 1)}
    return MARK.sub(r"%(p\1)s", sql.replace("%", "%%")), given


def as_array(value: Any) -> Any:
    """A tuple would be taken for a record."""
    return [*value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


def tuples(_cursor: object) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Rows of psycopg as they come, whatever the connection makes of its own."""
    return tuple


LINES: Final[dict[tuple[str, str], Callable[[Any], "Line | Waiting | Bridge"]]] = {
    ("sqlite3", "Connection"): Sqlite,
    ("apsw", "Connection"): Apsw,
    ("asyncpg", "Connection"): Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): Asyncpg,
    ("psycopg", "Connection"): Psycopg,
    ("psycopg", "AsyncConnection"): AsyncPsycopg,
    ("sqlalchemy", "Connection"): Alchemy,
    ("sqlalchemy", "Session"): AlchemySession,
    ("sqlalchemy", "scoped_session"): AlchemySession,
    ("sqlalchemy", "AsyncConnection"): lambda one: Bridge(one, Alchemy),
    ("sqlalchemy", "AsyncSession"): lambda one: Bridge(one, AlchemySession),
}


def line_of(connection: object) -> "Line | Waiting | Bridge":
    """Raises TypeError, naming what is accepted."""
    for kind in type(connection).__mro__:
        make = LINES.get((kind.__module__.partition(".")[0], kind.__qualname__))
        if make is not None:
            return make(connection)
    raise TypeError(f"{type(connection).__qualname__} is no connection known here; give {ACCEPTED}")
