"""A database to work on, SQLite in a file or PostgreSQL with a schema of its own; and its rows."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

import asyncpg

from notifications import notices, people, topics
from notifications.app import Program, build
from notifications.config import Config
from notifications.database import Row, open_database
from notifications.links import Wish
from notifications.people import Address, Recipient
from notifications.schema import migrate
from notifications.topics import Text, Topic
from onbeat import Options

SERVER: Final = os.environ.get("ONBEAT_TEST_POSTGRES", "postgresql://root@127.0.0.1:5432")
KEY: Final = b"a-key-of-at-least-32-bytes-for-tests"
PAID: Final = "shop.paid"


class World:
    """The rows of one database. Its methods block, so that a test reads like a table."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.database = open_database(config.database)
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

    def many(self, sql: str, values: Sequence[Row]) -> None:
        async def write() -> None:
            async with self.database.session() as session, session.transaction():
                await session.many(sql, values)

        self.finish(write())

    def put(self, write: Any, *values: Any) -> Any:
        """One of the functions that write, with a session of its own."""

        async def done() -> Any:
            async with self.database.session() as session:
                return await write(session, *values)

        return self.finish(done())

    def recipient(self, id: str, *ways: str, verified: bool = True, **more: Any) -> str:
        """With an address at each of these channels."""
        self.put(people.put_recipient, Recipient(id=id, name=id.title(), **more))
        for way in ways:
            self.address(id, way, verified=verified)
        return id

    def address(self, id: str, way: str, address: str | None = None, **more: Any) -> None:
        given = f"{id}@example.com" if address is None else address
        more = {"verified": True, **more}
        self.put(people.put_address, Address(recipient=id, channel=way, address=given, **more))

    def recipients(self, number: int) -> list[str]:
        """With a mail address each, named r0000, r0001 and so on."""
        ids = [f"r{n:04}" for n in range(number)]
        self.many(
            "INSERT INTO recipients (id, name, language, zone, hours) VALUES (?, ?, ?, ?, ?)",
            [(id, id.title(), "en", "UTC", "") for id in ids],
        )
        self.many(
            "INSERT INTO addresses (recipient, channel, address, verified) VALUES (?, ?, ?, ?)",
            [(id, "mail", f"{id}@example.com", 1) for id in ids],
        )
        return ids

    def topic(self, name: str = PAID, **more: Any) -> str:
        texts = {
            "en": Text("Paid", "Dear {{ data.name }}, thanks. {{ data.unsubscribe }}"),
            "de": Text("Bezahlt", "Danke, {{ data.name }}. {{ data.unsubscribe }}"),
        }
        given = {"texts": texts, **more}
        self.put(topics.put_topic, Topic(name=name, **given), self.config.events)
        return name

    def outcomes(self, *columns: str) -> list[Row]:
        names = ", ".join(columns or ("recipient", "channel", "outcome", "why"))
        return self.rows(f"SELECT {names} FROM notices ORDER BY {names}")

    def program(self, mail_port: int = 1, **more: Any) -> Program:
        """One that may send mail, on the store of its database."""
        mail = f"smtp://127.0.0.1:{mail_port}?from=shop@example.com&starttls=false"
        config = replace(self.config, **more)
        return build(config, Options(channels={"mail": mail}))

    def unsubscribe(self, program: Program, id: str, topic: str = PAID, way: str = "mail") -> None:
        self.finish(program.prefer(Wish(id, topic, way), allowed=False))


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a database that is dropped at the end."""
    name = f"notifications_test_{os.getpid()}_{uuid4().hex[:8]}"
    execute(f"CREATE DATABASE {name}")
    try:
        yield f"{SERVER}/{name}"
    finally:
        execute(f"DROP DATABASE {name} WITH (FORCE)")


def execute(statement: str, url: str = f"{SERVER}/postgres") -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, run()).result()


TABLES: Final = ("recipients", "addresses", "topics", "texts", "preferences", "notices")

__all__ = ["KEY", "PAID", "TABLES", "World", "execute", "notices", "postgres"]
