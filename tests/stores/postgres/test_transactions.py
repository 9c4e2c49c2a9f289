"""No snapshot of ours may be old: one is enough to keep vacuum from its work."""

import asyncio
from datetime import timedelta

import asyncpg

from conditions import eventually
from onbeat import Onbeat
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.store import PostgresStore

OPEN_SINCE = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < $1
"""


async def test_no_transaction_of_ours_is_open_while_a_handler_runs(
    store: PostgresStore, database: str
) -> None:
    beat = Onbeat(database)
    began: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()
    other = await asyncpg.connect(database.partition("?")[0])

    @beat.task("long")
    async def long() -> None:
        began.set_result(await other.fetchval("SELECT clock_timestamp()"))
        await leave.wait()

    await beat.start()
    try:
        await beat.asend(long.call())
        since = await began

        async def nothing_is_open_since() -> bool:
            return await other.fetchval(OPEN_SINCE, since) == 0

        await eventually(nothing_is_open_since, "what was open when the handler began has ended")
    finally:
        leave.set()
        await beat.aclose()
        await other.close()


async def test_sessions_have_bounds_for_statements_locks_and_idle_transactions(
    store: PostgresStore, database: str
) -> None:
    db = await connect(parse_dsn(database))
    try:
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            milliseconds = await db.fetchval(
                "SELECT setting::int FROM pg_settings WHERE name = $1", name
            )
            assert timedelta() < timedelta(milliseconds=milliseconds) <= timedelta(minutes=5), name
    finally:
        await db.close()
