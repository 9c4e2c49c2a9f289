"""Sessions on an SQLite file, by the same copy of the library that Onbeat uses in this process."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import apsw

from notifications.database import Pool, Row, Session

Result = TypeVar("Result")

BUSY_MILLISECONDS: Final = 10_000
SESSIONS_MAX: Final = 2  # only one writes at a time


class SqliteDatabase:
    def __init__(self, path: str) -> None:
        self.path = path
        self.pool = Pool(SESSIONS_MAX, self.connect, SqliteSession.close)

    def session(self) -> AbstractAsyncContextManager[Session]:
        return self.pool.connection()

    async def connect(self) -> "SqliteSession":
        session = SqliteSession(self.path)
        await session.open()
        return session


class SqliteSession:
    def __init__(self, path: str) -> None:
        self.path = path
        # One thread: a rollback waits for a statement whose caller has been cancelled.
        self.thread = ThreadPoolExecutor(1, "notifications-sqlite")
        self.connection: Any = None  # the stubs of the driver know its values only in part

    async def open(self) -> None:
        def connect(_: Any) -> Any:
            connection: Any = apsw.Connection(self.path)
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            connection.execute("PRAGMA journal_mode = WAL")
            return connection

        self.connection = await self.do(connect)

    async def close(self) -> None:
        await self.do(lambda connection: connection.close())
        self.thread.shutdown()

    async def do(self, work: Callable[[Any], Result]) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, work, self.connection)

    async def run(self, sql: str, *values: Any) -> int:
        def work(connection: Any) -> int:
            connection.execute(native(sql), values)
            return int(connection.changes())

        return await self.do(work)

    async def rows(self, sql: str, *values: Any) -> Sequence[Row]:
        return await self.do(lambda connection: list(connection.execute(native(sql), values)))

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        def work(connection: Any) -> None:
            with connection:  # one transaction, or a part of the one that is open
                connection.executemany(native(sql), values)

        await self.do(work)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        await self.run("BEGIN IMMEDIATE")
        try:
            yield
            await self.run("COMMIT")
        except BaseException:
            await self.do(roll_back)
            raise


def native(sql: str) -> str:
    """A transaction locks the file from its begin, so no row needs a lock."""
    return sql.replace("{lock}", "")


def roll_back(connection: Any) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
