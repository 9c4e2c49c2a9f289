"""Sessions on PostgreSQL."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from itertools import count
from typing import Any, Final, cast

import asyncpg

from notifications.database import Pool, Row, Session

SESSIONS_MAX: Final = 8
SETTINGS: Final = {"lock_timeout": "10s", "client_min_messages": "warning"}
CONNECT_SECONDS: Final = 10


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        self.url = url
        self.pool = Pool(SESSIONS_MAX, self.connect, PostgresSession.close)

    def session(self) -> AbstractAsyncContextManager[Session]:
        return self.pool.connection()

    async def connect(self) -> "PostgresSession":
        return PostgresSession(
            await asyncpg.connect(self.url, timeout=CONNECT_SECONDS, server_settings=SETTINGS)
        )


class PostgresSession:
    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection

    async def close(self) -> None:
        await self.connection.close()

    async def run(self, sql: str, *values: object) -> int:
        status = await self.connection.execute(native(sql), *values)
        number = status.rpartition(" ")[2]  # such as `INSERT 0 1`
        return int(number) if number.isdigit() else 0

    async def rows(self, sql: str, *values: object) -> Sequence[Row]:
        found = await self.connection.fetch(native(sql), *values)
        return [tuple(cast("Any", row)) for row in found]

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        await self.connection.executemany(native(sql), values)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        async with self.connection.transaction():
            yield


@cache
def native(sql: str) -> str:
    """With a number for each value. No statement has a `?` elsewhere."""
    numbers = count(1)
    parts = sql.replace("{lock}", "FOR UPDATE").split("?")
    return "".join(part + f"${next(numbers)}" for part in parts[:-1]) + parts[-1]
