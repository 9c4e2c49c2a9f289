"""Connections, with the settings that durability and isolation depend on."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import asyncpg
import msgspec

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.postgres import errors
from onbeat.stores.sql.pool import CLOSE_SECONDS, without_password

SCHEMES = frozenset({"postgresql", "postgres"})
SCHEMA_DEFAULT = "onbeat"
SCHEMA_FORM = re.compile(r"[a-z_][a-z0-9_]{0,47}")  # unquoted, and leaves room for a suffix
SECRETS = frozenset({"password", "sslpassword", "passfile"})
CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 30
LOCK_SECONDS = 2  # callers get an error within 3 s if a lock is held; loops try again
IDLE_IN_TRANSACTION_SECONDS = 5  # after it, a suspended process loses its locks
ANSWER_SECONDS = 40.0  # longer than any statement may take; silence means a dead connection

APPLICATION = "onbeat"
SETTINGS = {
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "default_transaction_isolation": "read committed",
    # Every statement is written for one index. The tables of a queue are empty at one moment and
    # full at the next, so statistics mislead: a plan made for the empty table would scan the full
    # one.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_hashagg": "on",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}


class Dsn(msgspec.Struct, frozen=True, kw_only=True):
    """`dsn` is for the driver; `url` has no secrets; `session` is the name of its sessions."""

    dsn: str
    url: str
    schema: str
    session: str = ""

    @property
    def channel(self) -> str:
        return f"{self.schema}_hints"


def parse_dsn(url: str) -> Dsn:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.path.removeprefix("/"):
        raise Misconfigured("a PostgreSQL store is postgresql://USER@HOST/DATABASE", key="store")
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(query).get("schema", SCHEMA_DEFAULT)
    if not SCHEMA_FORM.fullmatch(schema):
        raise Misconfigured(
            f"schema {schema!r} in the store's URL: use small letters, digits and underscores",
            key="store",
        )
    options = [(name, value) for name, value in query if name != "schema"]
    shown = [(name, value) for name, value in query if name not in SECRETS]
    return Dsn(
        dsn=urlunsplit(parts._replace(scheme="postgresql", query=urlencode(options))),
        url=urlunsplit(
            parts._replace(
                netloc=without_password(parts.netloc), query=urlencode(shown, quote_via=quote)
            )
        ),
        schema=schema,
    )


class Database(Protocol):
    """The part of a driver's connection that the store uses."""

    async def fetch(self, query: str, *args: object) -> Sequence[Any]: ...

    async def fetchval(self, query: str, *args: object) -> Any: ...

    async def execute(self, query: str, *args: object) -> str: ...

    async def copy_to_table(
        self, table_name: str, *, source: AsyncIterator[bytes], columns: Sequence[str], format: str
    ) -> str: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...

    def get_server_pid(self) -> int: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...


async def connect(dsn: Dsn, role: str = "") -> Database:
    """Raises the driver's errors. The server's list of sessions shows `role`."""
    name = " ".join(filter(None, (APPLICATION, dsn.session, role)))
    connected: Any = await asyncpg.connect(
        dsn.dsn,
        timeout=CONNECT_SECONDS,
        command_timeout=ANSWER_SECONDS,
        server_settings={**SETTINGS, "application_name": name, "search_path": dsn.schema},
    )
    return cast("Database", connected)


class PostgresDriver:
    """For `sql.pool.Pool`, as the driver's own pool would double the round trips.

    That resets a connection on the server each time it is returned; this store leaves no state that
    needs a reset.
    """

    def __init__(self, dsn: Dsn) -> None:
        self._dsn = dsn

    async def connect(self) -> Database:
        try:
            return await connect(self._dsn)
        except Exception as error:
            raise self.unavailable(error) from error

    def is_open(self, connection: Database) -> bool:
        return not connection.is_closed()

    async def close(self, connection: Database) -> None:
        await connection.close(timeout=CLOSE_SECONDS)

    def discard(self, connection: Database) -> None:
        connection.terminate()

    async def execute(self, connection: Database, sql: str) -> None:
        await connection.execute(sql)

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, errors.BROKEN)

    def is_conflict(self, error: BaseException) -> bool:
        return isinstance(error, errors.REPEAT)

    def is_lock_wait(self, error: BaseException) -> bool:
        return isinstance(error, asyncpg.LockNotAvailableError)

    def refusal(self, error: Exception) -> Exception:
        return errors.refusal(error, self._dsn.url)

    def unavailable(self, error: BaseException) -> Unavailable:
        return errors.unavailable(error, self._dsn.url)
