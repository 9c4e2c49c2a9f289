"""What the business asks of a database: statements, and transactions around them.

Statements are written once, for SQLite and PostgreSQL, with `?` for values, and `{lock}` after a
row that a transaction locks until its end.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

Row = tuple[Any, ...]
Connection = TypeVar("Connection")


class Session(Protocol):
    """One connection. Outside a transaction each statement commits by itself."""

    async def run(self, sql: str, *values: object) -> int:
        """How many rows the statement has changed."""
        ...

    async def rows(self, sql: str, *values: object) -> Sequence[Row]: ...

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        """Run the statement for each of `values`."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Commits at its end; an exception rolls back, and so does a killed process."""
        ...


class Database(Protocol):
    def session(self) -> AbstractAsyncContextManager[Session]: ...


def open_database(url: str) -> Database:
    """The drivers are imported here: each installation needs but one."""
    if url.startswith("sqlite:///"):
        from notifications.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqliteDatabase(url.removeprefix("sqlite:///"))
    from notifications.postgres import PostgresDatabase  # noqa: PLC0415

    return PostgresDatabase(url)


class Places(Generic[Connection]):
    """What the pool knows of one event loop."""

    def __init__(self, most: int) -> None:
        self.free = asyncio.Semaphore(most)
        self.waiting = 0
        self.handed: list[Connection] = []
        """By those who are done to those who wait."""


class Pool(Generic[Connection]):
    """At most so many connections in an event loop; who is done hands its own to who waits.

    Nothing is kept for later: a program without work has no connection, and a loop that ends
    leaves none behind.
    """

    def __init__(
        self,
        most: int,
        connect: Callable[[], Awaitable[Connection]],
        close: Callable[[Connection], Awaitable[object]],
    ) -> None:
        self.most = most
        self.connect = connect
        self.close = close
        self.loops = WeakKeyDictionary[asyncio.AbstractEventLoop, Places[Connection]]()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        places = self.loops.setdefault(asyncio.get_running_loop(), Places(self.most))
        await self.wait(places)
        try:
            connection = places.handed.pop() if places.handed else await self.connect()
            try:
                yield connection
            except BaseException:
                await self.close(connection)  # who knows what is still under way on it
                raise
            if places.waiting > len(places.handed):
                places.handed.append(connection)
            else:
                await self.close(connection)
        finally:
            places.free.release()

    async def wait(self, places: Places[Connection]) -> None:
        places.waiting += 1
        try:
            await places.free.acquire()
        except BaseException:
            if len(places.handed) >= places.waiting:
                await self.close(places.handed.pop())
            raise
        finally:
            places.waiting -= 1
