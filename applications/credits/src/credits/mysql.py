"""Sessions on MariaDB or MySQL."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncmy

from credits.database import Row, Session

WORDS: Final = {
    "lock": "FOR UPDATE",
    "widen": (
        "ON DUPLICATE KEY UPDATE users = users + VALUES(users),"
        " credits = credits + VALUES(credits), last_id = greatest(last_id, VALUES(last_id)),"
        " final = greatest(final, VALUES(final))"
    ),
    # `INSERT IGNORE` would also swallow values that do not fit.
    "keep_path": "ON DUPLICATE KEY UPDATE path = path",
    "path": "VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "new_id": "uuid()",
}
SETTINGS: Final = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    # Each statement sees what is committed, and locks no gaps between rows.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 10",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_notes = 0",  # `IF NOT EXISTS` is meant
)
CONNECT_SECONDS: Final = 10


class MysqlDatabase:
    kind = "mysql"

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session]:
        session = MysqlSession(await connected(self.url))
        try:
            for setting in SETTINGS:
                await session.run(setting)
            yield session
        finally:
            await session.close()


async def connected(url: str) -> Any:
    parts = urlsplit(url)
    # The stubs of the driver know few of its parameters.
    return await cast("Any", asyncmy).connect(
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        unix_socket=dict(parse_qsl(parts.query)).get("unix_socket"),
        database=unquote(parts.path.removeprefix("/")),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
    )


class MysqlSession:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def close(self) -> None:
        if self.connection.connected:
            await self.connection.ensure_closed()

    async def execute(self, sql: str, values: Sequence[object]) -> Any:
        cursor = self.connection.cursor()
        try:
            # No statement has a `%` outside of its values.
            await cursor.execute(sql.format_map(WORDS).replace("?", "%s"), tuple(values) or None)
        except asyncio.CancelledError:
            self.connection.close()  # its answer is still on the way
            raise
        return cursor

    async def run(self, sql: str, *values: object) -> int:
        return int((await self.execute(sql, values)).rowcount)

    async def rows(self, sql: str, *values: object) -> Sequence[Row]:
        return list(await (await self.execute(sql, values)).fetchall())

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        if not values:
            return
        try:
            await self.connection.cursor().executemany(
                sql.format_map(WORDS).replace("?", "%s"), values
            )
        except asyncio.CancelledError:
            self.connection.close()
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        await self.run("START TRANSACTION")
        try:
            yield
            await self.run("COMMIT")
        except BaseException:
            if self.connection.connected:
                await self.run("ROLLBACK")
            raise
