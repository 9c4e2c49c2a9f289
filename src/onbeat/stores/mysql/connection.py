"""A connection with the settings that the promises rest on."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Protocol, cast

import asyncmy

from onbeat.stores.mysql.place import Place

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 30
LOCK_SECONDS = 10

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
    """Raises what the driver raises, or `TimeoutError`.

    In a task of its own: the driver waits by `asyncio.wait_for`, which before Python 3.12 forgets
    that it was cancelled where that happens just as it is answered.
    """
    connecting = asyncio.get_running_loop().create_task(make_connection(place))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.wait([connecting])
    except BaseException:
        connecting.add_done_callback(throw_away)
        connecting.cancel()
        raise
    return connecting.result()


def throw_away(connected: "asyncio.Task[Database]") -> None:
    """Nobody waits for it any more."""
    if not connected.cancelled() and connected.exception() is None:
        connected.result().close()


async def make_connection(place: Place) -> Database:
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
