"""A connection with the settings that the promises rest on."""

import ssl
from collections.abc import Sequence
from typing import Any, Protocol, cast

import asyncmy

from onbeat.stores.mysql.place import Place

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 30
LOCK_SECONDS = 10
ANSWER_SECONDS = 40.0  # longer than any statement may take: only a dead connection is so silent

# READ COMMITTED: the default locks the gaps between rows as well, and still loses updates.
SETTINGS = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}",
)
MARIADB_SETTINGS = (
    f"SET SESSION max_statement_time = {STATEMENT_SECONDS}",
    # A long list of ids would become a join, which reads the other table whole and locks it.
    "SET SESSION in_predicate_conversion_threshold = 0",
)
MYSQL_SETTINGS = (
    f"SET SESSION max_execution_time = {STATEMENT_SECONDS * 1_000}",
    # With many ranges in one statement the optimizer would give up on the index.
    "SET SESSION range_optimizer_max_mem_size = 0",
)


class Cursor(Protocol):
    """What the store uses of a driver's cursor."""

    rowcount: int

    async def execute(self, query: str, args: object = None) -> int: ...

    async def executemany(self, query: str, args: Sequence[object]) -> int | None: ...

    async def fetchall(self) -> Sequence[Any]: ...

    async def nextset(self) -> bool | None: ...

    def mogrify(self, query: str, args: object = None) -> str: ...


class Database(Protocol):
    """What the store uses of a driver's connection."""

    @property
    def connected(self) -> bool: ...

    def cursor(self) -> Cursor: ...

    def close(self) -> None: ...

    def thread_id(self) -> int: ...

    def get_server_info(self) -> str: ...

    async def ensure_closed(self) -> None: ...


def is_mariadb(db: Database) -> bool:
    return "mariadb" in db.get_server_info().lower()


async def connect(place: Place) -> Database:
    """Raises what the driver raises."""
    # The driver's stubs leave most parameters untyped.
    db: Database = await cast("Any", asyncmy).connect(
        user=place.user,
        password=place.password,
        host=None if place.socket else place.host,
        port=place.port,
        unix_socket=place.socket,
        database=place.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        ssl=ssl.create_default_context() if place.ssl else None,
        program_name="onbeat",
    )
    try:
        own = MARIADB_SETTINGS if is_mariadb(db) else MYSQL_SETTINGS
        for setting in SETTINGS + own:
            await db.cursor().execute(setting)
    except BaseException:
        db.close()
        raise
    return db
