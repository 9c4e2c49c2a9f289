"""Connections, with the settings that durability and isolation depend on."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, cast

import asyncpg

from onbeat.stores.postgres.dsn import Dsn

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 30
LOCK_SECONDS = 2  # callers get an error within 3 s if a lock is held; loops try again
IDLE_IN_TRANSACTION_SECONDS = 5  # after it, a suspended process loses its locks
ANSWER_SECONDS = 40.0  # longer than any statement may take; silence means a dead connection

SETTINGS = {
    "application_name": "onbeat",
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


async def connect(dsn: Dsn) -> Database:
    """Raises the driver's errors."""
    connected: Any = await asyncpg.connect(
        dsn.dsn,
        timeout=CONNECT_SECONDS,
        command_timeout=ANSWER_SECONDS,
        server_settings={**SETTINGS, "search_path": dsn.schema},
    )
    return cast("Database", connected)
