"""Vacuums of the table of live jobs, more often than the server looks at it by itself."""

from typing import Any

from msgspec.structs import replace

from onbeat.rules.dead_rows import RowCounts
from onbeat.stores.postgres.connection import Dsn, connect
from onbeat.stores.postgres.errors import refusal
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.pool import CLOSE_SECONDS

VACUUM_SECONDS_MAX = 6 * 3600.0


async def row_counts(transaction: Transaction) -> RowCounts:
    (row,) = await transaction.rows(
        """
        SELECT pg_stat_get_dead_tuples(oid), pg_stat_get_live_tuples(oid),
               pg_has_role(relowner, 'USAGE')
        FROM pg_class
        WHERE oid = 'jobs'::regclass
        """
    )
    return RowCounts(*row)


async def vacuum_jobs(dsn: Dsn) -> None:
    """Runs on a connection of its own, since it may take longer than a statement may.

    That has no name of a process: the server goes on for a while after its process was killed,
    which must not look alive by that. It waits for no lock: neither for the table's, since another
    vacuum that runs does the work, nor for the one that truncates the table.
    """
    try:
        db: Any = await connect(replace(dsn, session=""), "vacuum")
        try:
            await db.execute("SET statement_timeout = 0")
            await db.execute(
                "VACUUM (SKIP_LOCKED, TRUNCATE FALSE, PARALLEL 0) jobs", timeout=VACUUM_SECONDS_MAX
            )
        finally:
            await db.close(timeout=CLOSE_SECONDS)
    except Exception as error:  # noqa: BLE001  raised again as an error of the store
        refused = refusal(error, dsn.url)
        raise refused from refused.__cause__
