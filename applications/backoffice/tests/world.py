"""A provider's database to work on: a schema of its own on MariaDB."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from backoffice.database import Row, Session, connected
from backoffice.schema import migrate

Value = TypeVar("Value")

SERVER: Final = os.environ.get("ONBEAT_TEST_MYSQL", "mysql://root@127.0.0.1:3306")
NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)
SINCE: Final = datetime(2001, 1, 1, tzinfo=UTC)
"""When subscriptions began, unless a test says otherwise."""


PROVIDERS_OWN: Final = (
    "ALTER TABLE debugger_logs ADD COLUMN id BIGINT AUTO_INCREMENT PRIMARY KEY FIRST",
    "ALTER TABLE debugger_logs ADD COLUMN message TEXT",
    "ALTER TABLE usage_triggers_results ADD COLUMN id BIGINT AUTO_INCREMENT PRIMARY KEY FIRST",
)
"""Columns that no program of the back office needs."""


class World:
    """The rows of one database. Its methods block, so that a test reads like a table."""

    def __init__(self, url: str) -> None:
        self.url = url

    def do(self, work: Callable[[Session], Coroutine[Any, Any, Value]]) -> Value:
        """In a thread, as the caller may have a loop that runs."""

        async def done() -> Value:
            session = await connected(self.url)
            try:
                return await work(session)
            finally:
                await session.connection.ensure_closed()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, done()).result()

    def rows(self, sql: str, *values: object) -> list[Row]:
        async def read(session: Session) -> list[Row]:
            return list(await session.rows(sql, *values))

        return self.do(read)

    def run(self, sql: str, *values: object) -> int:
        return self.do(lambda session: session.run(sql, *values))

    def many(self, sql: str, values: Sequence[Row]) -> None:
        async def write(session: Session) -> None:
            async with session.transaction():
                await session.many(sql, values)

        self.do(write)

    def add(self, table: str, **columns: object) -> int:
        """The id of a new row."""
        names = ", ".join(f"`{name}`" for name in columns)
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        return self.do(lambda session: session.insert(sql, *columns.values()))

    def empty(self) -> None:
        """Take all rows out, as other tests have put some in."""
        for (table,) in self.rows("SHOW TABLES"):
            self.run(f"DELETE FROM {table}")

    def user(self, email: str = "ada@example.com", **columns: object) -> int:
        return self.add("users", email=email, **columns)

    def plan(self, key_name: str = "starter", **columns: object) -> int:
        """24.99 a month, 200 minutes, 1,024 bytes of recordings, no faxes."""
        given: dict[str, object] = {"monthly_cost_cents": 2_499, "annual_cost_cents": 24_990}
        given |= {"minutes_per_month": 200, "recording_space": 1_024, **columns}
        return self.add("service_plans", key_name=key_name, **given)

    def workspace(self, creator: int, users: int = 1, **columns: object) -> int:
        """With so many users; the creator is the first."""
        given: dict[str, object] = {"name": "Ada's", "created_at": NOW, **columns}
        id = self.add("workspaces", creator_id=creator, **given)
        rows = [(id, creator + number) for number in range(users)]
        self.many("INSERT INTO workspaces_users (workspace_id, user_id) VALUES (?, ?)", rows)
        return id

    def subscription(self, workspace: int, plan: int, **columns: object) -> int:
        given: dict[str, object] = {"billing_cycle": "MONTHLY", "status": "ACTIVE"}
        given |= {"created_at": SINCE, "updated_at": NOW, **columns}
        return self.add("subscriptions", workspace_id=workspace, current_plan_id=plan, **given)

    def card(self, workspace: int, user: int, **columns: object) -> int:
        given: dict[str, object] = {
            "primary": 1,
            "stripe_payment_method_id": "pm_card_visa",
            "last_4": "4242",
        }
        given |= {"exp_month": 12, "exp_year": 2030, **columns}
        return self.add("users_cards", workspace_id=workspace, user_id=user, **given)


@contextmanager
def mariadb() -> Iterator[str]:
    """The URL of a schema with the tables, which is dropped at the end."""
    with empty_mariadb() as url:
        World(url).do(migrate)
        for statement in PROVIDERS_OWN:
            World(url).run(statement)
        yield url


@contextmanager
def empty_mariadb() -> Iterator[str]:
    """The URL of a schema that is dropped at the end."""
    name = f"backoffice_test_{os.getpid()}_{uuid4().hex[:8]}"
    server = World(SERVER)
    server.run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    try:
        yield urlunsplit(urlsplit(SERVER)._replace(path=f"/{name}"))
    finally:
        server.run(f"DROP DATABASE {name}")
