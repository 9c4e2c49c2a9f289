"""Databases of each kind, and how they explain a statement with placeholders."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import apsw
import asyncpg
import msgspec

from onbeat.ports.store import Store
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.mysql.transaction import Transaction as MysqlTransaction
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction as PostgresTransaction
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.stores.sqlite.transaction import Transaction as SqliteTransaction
from stores.mysql import server as mysql_server
from stores.postgres import server as postgres_server

MYSQL_PLACE: Final = re.compile(r"(\w+ )?%s")
MYSQL_VALUES: Final[dict[str | None, object]] = {"IN ": ("1",), "LIMIT ": 1, "OFFSET ": 1}
POSTGRES_VALUES: Final = {
    "bool": True,
    "bytea": b"",
    "int2": 1,
    "int4": 1,
    "int8": 1,
    "text": "a",
    "uuid": UUID(int=1),
}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """`database` gives the URL or path of an empty one; `explain` plans all the statements.

    `how` tells a reader how to do the same.
    """

    name: str
    mark: str
    how: str
    transaction: type[Any]
    database: Callable[[Path], AbstractContextManager[str]]
    store: Callable[[str], Store]
    explain: Callable[[str, Sequence[str]], None]


@contextmanager
def sqlite_file(folder: Path) -> Iterator[str]:
    yield str(folder / "onbeat.db")


def postgres_database(_folder: Path) -> AbstractContextManager[str]:
    return postgres_server.database(f"onbeat_statements_{os.getpid()}")


def mysql_database(_folder: Path) -> AbstractContextManager[str]:
    return mysql_server.database()


def explain_on_sqlite(path: str, statements: Sequence[str]) -> None:
    with closing(apsw.Connection(path)) as db:
        for sql in statements:
            with named(sql):
                db.execute(f"EXPLAIN QUERY PLAN {sql}", [1] * sql.count("?")).fetchall()


def explain_on_postgres(url: str, statements: Sequence[str]) -> None:
    asyncio.run(explain_on_postgres_with(url, statements))


async def explain_on_postgres_with(url: str, statements: Sequence[str]) -> None:
    db = await asyncpg.connect(url)
    try:
        await db.execute("SET search_path = onbeat")
        for sql in statements:
            with named(sql):
                prepared = await db.prepare(f"EXPLAIN {sql}")
                values = map(postgres_value, prepared.get_parameters())
                await prepared.fetch(*values)
    finally:
        await db.close()


def postgres_value(kind: asyncpg.Type) -> object:
    return [] if kind.kind == "array" else POSTGRES_VALUES[kind.name]


def explain_on_mysql(url: str, statements: Sequence[str]) -> None:
    asyncio.run(explain_on_mysql_with(url, statements))


async def explain_on_mysql_with(url: str, statements: Sequence[str]) -> None:
    db = await mysql_server.connected(url)
    try:
        for sql in statements:
            with named(sql):
                values = [MYSQL_VALUES.get(one[1], "1") for one in MYSQL_PLACE.finditer(sql)]
                cursor = db.cursor()
                await cursor.execute(f"EXPLAIN {sql}", values)
                await cursor.fetchall()
    finally:
        await db.ensure_closed()


@contextmanager
def named(sql: str) -> Iterator[None]:
    """Names the statement in an error."""
    try:
        yield
    except Exception as error:
        error.add_note(sql)
        raise


KINDS: Final = (
    Kind(
        name="sqlite",
        mark="`?`",
        how="EXPLAIN QUERY PLAN, in the command line of SQLite; `?` is then NULL",
        transaction=SqliteTransaction,
        database=sqlite_file,
        store=SqliteStore,
        explain=explain_on_sqlite,
    ),
    Kind(
        name="postgres",
        mark="`$1`, `$2`",
        how="EXPLAIN (GENERIC_PLAN), with SETTINGS of `postgres/connection.py` and the search_path",
        transaction=PostgresTransaction,
        database=postgres_database,
        store=PostgresStore,
        explain=explain_on_postgres,
    ),
    Kind(
        name="mysql",
        mark="`%s`, lists of values `IN %s`",
        how="EXPLAIN, with '1' for `%s`, ('1') for a list, and 1 after LIMIT and OFFSET",
        transaction=MysqlTransaction,
        database=mysql_database,
        store=MysqlStore,
        explain=explain_on_mysql,
    ),
)
