"""Sessions on an SQLite file, by the same copy of the library that Onbeat uses in this process."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import apsw

from credits.database import Row, Session

Result = TypeVar("Result")

WORDS: Final = {
    "lock": "",  # a transaction locks the file from its begin
    "widen": (
        "ON CONFLICT (period, after_id) DO UPDATE SET users = users + excluded.users,"
        " credits = credits + excluded.credits, last_id = max(last_id, excluded.last_id),"
        " final = max(final, excluded.final)"
    ),
    "keep_path": "ON CONFLICT DO NOTHING",
    "path": "TEXT",
    "new_id": (
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2))"
        " || '-4' || substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2)"
        " || '-' || hex(randomblob(6)))"
    ),
}
BUSY_MILLISECONDS: Final = 10_000


class SqliteDatabase:
    kind = "sqlite"

    def __init__(self, path: str) -> None:
        self.path = path

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session]:
        # One thread: a rollback waits for a statement whose caller has been cancelled.
        with ThreadPoolExecutor(1, "credits-sqlite") as thread:
            session = SqliteSession(thread)
            await session.open(self.path)
            try:
                yield session
            finally:
                await session.close()


class SqliteSession:
    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self.thread = thread
        self.connection: Any = None  # the stubs of the driver know its values only in part

    async def do(self, work: Callable[[Any], Result]) -> Result:
        connection = self.connection
        assert connection is not None, "the session is closed"
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, work, connection)

    async def open(self, path: str) -> None:
        def connect() -> Any:
            connection: Any = apsw.Connection(path)
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            return connection

        self.connection = await asyncio.get_running_loop().run_in_executor(self.thread, connect)

    async def close(self) -> None:
        await self.do(lambda connection: connection.close())
        self.connection = None

    async def run(self, sql: str, *values: Any) -> int:
        def work(connection: Any) -> int:
            connection.execute(sql.format_map(WORDS), values)
            return int(connection.changes())

        return await self.do(work)

    async def rows(self, sql: str, *values: Any) -> Sequence[Row]:
        return await self.do(
            lambda connection: list(connection.execute(sql.format_map(WORDS), values))
        )

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        def work(connection: Any) -> None:
            with connection:  # one transaction, or a part of the one that is open
                connection.executemany(sql.format_map(WORDS), values)

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


def roll_back(connection: Any) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
