"""Connections, with the settings that durability and isolation depend on."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import asyncmy
import msgspec

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.mysql import errors
from onbeat.stores.sql.pool import without_password

SCHEMES = frozenset({"mysql", "mariadb"})
PORT = 3306
OPTIONS = frozenset({"unix_socket", "ssl"})
FORM = "mysql://USER@HOST/DATABASE"
CONNECT_SECONDS = 10
STATEMENT_SECONDS = 30
LOCK_SECONDS = 2  # callers get an error within 3 s if a lock is held; loops try again
ANSWER_SECONDS = 40.0  # longer than any statement may take; silence means a dead connection
IDLE_IN_TRANSACTION_SECONDS = 5  # after it, a suspended process loses its locks

# READ COMMITTED: the default also locks the gaps between rows, and still loses updates.
SETTINGS = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}",
    # Locks on tables and on the whole server, as backups take them.
    f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}",
)
MARIADB_SETTINGS = (
    f"SET SESSION max_statement_time = {STATEMENT_SECONDS}",
    # MySQL has no such timeout: a process that is cut off holds its locks until TCP times out.
    f"SET SESSION idle_transaction_timeout = {IDLE_IN_TRANSACTION_SECONDS}",
    # A long list of ids would become a join, which scans and locks the other table.
    "SET SESSION in_predicate_conversion_threshold = 0",
)
MYSQL_SETTINGS = (
    f"SET SESSION max_execution_time = {STATEMENT_SECONDS * 1_000}",
    # With many ranges in one statement the optimizer would not use the index.
    "SET SESSION range_optimizer_max_mem_size = 0",
)


class Dsn(msgspec.Struct, frozen=True, kw_only=True):
    """`url` has no secrets. `socket`, the path of a Unix socket, overrides host and port."""

    url: str
    user: str
    password: str
    host: str
    port: int
    socket: str | None
    database: str
    ssl: bool


def parse_dsn(url: str) -> Dsn:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    database = unquote(parts.path.removeprefix("/"))
    if parts.scheme not in SCHEMES or not database or "/" in database:
        raise Misconfigured(f"a MySQL or MariaDB store is {FORM}", key="store")
    if unknown := sorted(options.keys() - OPTIONS):
        raise Misconfigured(
            f"unknown option {unknown[0]!r} in the store's URL; allowed are "
            f"{' and '.join(sorted(OPTIONS))}",
            key="store",
        )
    return Dsn(
        url=urlunsplit(
            parts._replace(
                netloc=without_password(parts.netloc), query=urlencode(options, quote_via=quote)
            )
        ),
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        host=parts.hostname or "localhost",
        port=port_of(url) or PORT,
        socket=options.get("unix_socket") or None,
        database=database,
        ssl=options.get("ssl", "") not in ("", "0", "false"),
    )


def port_of(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError as error:
        raise Misconfigured(f"the port in the store's URL: {error}", key="store") from error


class Cursor(Protocol):
    """The part of a driver's cursor that the store uses."""

    rowcount: int

    async def execute(self, query: str, args: object = None) -> int: ...

    async def executemany(self, query: str, args: Sequence[object]) -> int | None: ...

    async def fetchall(self) -> Sequence[Any]: ...

    async def nextset(self) -> bool | None: ...

    def mogrify(self, query: str, args: object = None) -> str: ...


class Database(Protocol):
    """The part of a driver's connection that the store uses."""

    @property
    def connected(self) -> bool: ...

    def cursor(self) -> Cursor: ...

    def close(self) -> None: ...

    def thread_id(self) -> int: ...

    def get_server_info(self) -> str: ...

    async def ensure_closed(self) -> None: ...


def is_mariadb(db: Database) -> bool:
    return "mariadb" in db.get_server_info().lower()


async def connect(dsn: Dsn) -> Database:
    """Raises the driver's errors, or `TimeoutError`.

    Runs in its own task: the driver uses `asyncio.wait_for`, which before Python 3.12 loses a
    cancellation that arrives together with the result.
    """
    connecting = asyncio.get_running_loop().create_task(make_connection(dsn))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.wait([connecting])
    except BaseException:
        connecting.add_done_callback(discard)
        connecting.cancel()
        raise
    return connecting.result()


def discard(connected: "asyncio.Task[Database]") -> None:
    """Retrieve the result, as no caller waits for it any more."""
    if not connected.cancelled() and connected.exception() is None:
        connected.result().close()


async def make_connection(dsn: Dsn) -> Database:
    # Most parameters are untyped in the driver's stubs.
    db: Database = await cast("Any", asyncmy).connect(
        user=dsn.user,
        password=dsn.password,
        host=None if dsn.socket else dsn.host,
        port=dsn.port,
        unix_socket=dsn.socket,
        database=dsn.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        ssl=ssl.create_default_context() if dsn.ssl else None,
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


def in_time() -> asyncio.Timeout:
    """A timeout; the driver's own uses `asyncio.wait_for`, see `connect`."""
    return asyncio.timeout(ANSWER_SECONDS)


class MysqlDriver:
    """For `sql.pool.Pool`."""

    def __init__(self, dsn: Dsn) -> None:
        self._dsn = dsn

    async def connect(self) -> Database:
        return await connect(self._dsn)

    def is_open(self, connection: Database) -> bool:
        return connection.connected

    async def close(self, connection: Database) -> None:
        await connection.ensure_closed()

    def discard(self, connection: Database) -> None:
        connection.close()

    async def execute(self, connection: Database, sql: str) -> None:
        async with in_time():
            await connection.cursor().execute(sql)

    def is_lost(self, error: BaseException) -> bool:
        return errors.is_lost(error)

    def is_conflict(self, error: BaseException) -> bool:
        return errors.is_retryable(error)

    def is_lock_wait(self, error: BaseException) -> bool:
        return errors.code_of(error) == errors.LOCK_WAIT

    def refusal(self, error: Exception) -> Exception:
        return errors.refusal(error, self._dsn.url)

    def unavailable(self, error: BaseException) -> Unavailable:
        return errors.unavailable(error, self._dsn.url)
