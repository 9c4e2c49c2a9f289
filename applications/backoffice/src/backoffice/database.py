"""Sessions on MariaDB or MySQL, from a pool of bounded size.

Times are kept in UTC, and given and answered with their zone.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncmy

Row = tuple[Any, ...]

POOL_MAX: Final = 10
CONNECT_SECONDS: Final = 10
SETTINGS: Final = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    # Each statement sees what is committed, and locks no gaps between rows.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 10",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_notes = 0",  # `CREATE TABLE IF NOT EXISTS` is meant
)


class Session:
    """One connection. Outside a transaction each statement commits by itself."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        """For `context.finish_in_transaction`."""

    async def run(self, sql: str, *values: object) -> int:
        """How many rows the statement has changed."""
        return int((await self.execute(sql, values)).rowcount)

    async def insert(self, sql: str, *values: object) -> int:
        """The id of the row that the statement has made."""
        return int((await self.execute(sql, values)).lastrowid)

    async def rows(self, sql: str, *values: object) -> Sequence[Row]:
        found = await (await self.execute(sql, values)).fetchall()
        return [tuple(map(with_zone, row)) for row in found]

    async def row(self, sql: str, *values: object) -> Row | None:
        """The first row."""
        return next(iter(await self.rows(sql, *values)), None)

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        """Run the statement for each of `values`."""
        if values:
            plain = [tuple(map(without_zone, row)) for row in values]
            await self.unbroken(self.connection.cursor().executemany(marked(sql), plain))

    async def execute(self, sql: str, values: Sequence[object]) -> Any:
        cursor = self.connection.cursor()
        plain = tuple(map(without_zone, values))
        await self.unbroken(cursor.execute(marked(sql), plain or None))
        return cursor

    async def unbroken(self, work: Any) -> None:
        """A connection whose statement was interrupted is closed: its answer is on the way."""
        try:
            await work
        except asyncio.CancelledError:
            self.connection.close()
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Commits at its end; an exception rolls back, and so does a killed process."""
        await self.run("START TRANSACTION")
        try:
            yield
            await self.run("COMMIT")
        except BaseException:
            if self.connection.connected:
                await self.run("ROLLBACK")
            raise


class Database:
    """At most `pool_max` sessions at a time; a further one waits. Of one event loop."""

    def __init__(self, url: str, pool_max: int = POOL_MAX) -> None:
        """`url` is mysql://USER:PASSWORD@HOST:PORT/DATABASE."""
        self.url = url
        self.free = asyncio.Semaphore(pool_max)
        self.idle: list[Session] = []

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session]:
        async with self.free:
            session = self.idle.pop() if self.idle else await connected(self.url)
            try:
                yield session
            except BaseException:
                session.connection.close()
                raise
            if session.connection.connected:
                self.idle.append(session)

    async def close(self) -> None:
        while self.idle:
            await self.idle.pop().connection.ensure_closed()


async def connected(url: str) -> Session:
    parts = urlsplit(url)
    # The stubs of the driver know few of its parameters.
    connection = await cast("Any", asyncmy).connect(
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        unix_socket=dict(parse_qsl(parts.query)).get("unix_socket"),
        database=unquote(parts.path.removeprefix("/")) or None,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
    )
    session = Session(connection)
    for setting in SETTINGS:
        await session.run(setting)
    return session


def marked(sql: str) -> str:
    """With the driver's sign for a value. No statement has a `%` outside of its values."""
    return sql.replace("?", "%s")


def without_zone(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def with_zone(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
