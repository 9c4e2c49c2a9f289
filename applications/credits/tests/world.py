"""A game's database to work on: SQLite in a file, or MariaDB with a schema of its own."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from credits.config import Config
from credits.database import Row, open_database, stamp
from credits.mysql import connected
from credits.schema import migrate

SERVER: Final = os.environ.get("ONBEAT_TEST_MYSQL", "mysql://root@127.0.0.1:3306")


class World:
    """The rows of one database. Its methods block, so that a test reads like a table."""

    def __init__(self, config: Config, *, is_new: bool = True) -> None:
        self.config = config
        self.database = open_database(config.database)
        if not is_new:
            return
        if self.database.kind == "sqlite":
            self.rows("PRAGMA journal_mode = WAL")  # as the game opens it
        self.finish(migrate(self.database))

    def finish(self, work: Any) -> Any:
        """In a thread, as the caller may have a loop that runs."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, work).result()

    def rows(self, sql: str, *values: object) -> list[Row]:
        async def read() -> list[Row]:
            async with self.database.session() as session:
                return list(await session.rows(sql, *values))

        result: list[Row] = self.finish(read())
        return result

    def run(self, sql: str, *values: object) -> None:
        async def write() -> None:
            async with self.database.session() as session:
                await session.run(sql, *values)

        self.finish(write())

    def many(self, sql: str, values: Sequence[Row]) -> None:
        async def write() -> None:
            async with self.database.session() as session, session.transaction():
                await session.many(sql, values)

        self.finish(write())

    def empty(self) -> None:
        """Take all rows out, as other tests have put some in."""
        for (table,) in self.rows("SHOW TABLES"):
            self.run(f"DELETE FROM {table}")

    def user(self, id: str, free: int, limit: int = 10, paid: int = 0) -> str:
        self.run(
            "INSERT INTO users (id, email, free_credits, paid_credits, monthly_credit_limit)"
            " VALUES (?, ?, ?, ?, ?)",
            id,
            f"{id}@example.com",
            free,
            paid,
            limit,
        )
        return id

    def users(self, free: Sequence[int], limit: int = 10) -> None:
        """Named u000, u001 and so on."""
        self.many(
            "INSERT INTO users (id, email, free_credits, monthly_credit_limit) VALUES (?, ?, ?, ?)",
            [(f"u{n:03}", f"u{n}@example.com", has, limit) for n, has in enumerate(free)],
        )

    def spend(self, user: str, credits: int) -> None:
        self.run("UPDATE users SET free_credits = free_credits - ? WHERE id = ?", credits, user)

    def free(self) -> dict[str, int]:
        return dict(self.rows("SELECT id, free_credits FROM users ORDER BY id"))

    def audits(self) -> list[Row]:
        return self.rows(
            "SELECT user_id, credits, reason FROM credit_adjustments ORDER BY user_id, created_at"
        )


@contextmanager
def mariadb() -> Iterator[str]:
    """The URL of a schema that is dropped at the end."""
    name = f"credits_test_{os.getpid()}_{uuid4().hex[:8]}"
    execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    try:
        yield urlunsplit(urlsplit(SERVER)._replace(path=f"/{name}"))
    finally:
        execute(f"DROP DATABASE {name}")


def execute(statement: str) -> None:
    async def run() -> None:
        connection = await connected(SERVER)
        await connection.cursor().execute(statement)
        await connection.ensure_closed()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, run()).result()


__all__ = ["World", "mariadb", "stamp"]
