"""Migrates the schema, and refuses a newer one."""

from onbeat.stores.postgres.connection import Database, Dsn
from onbeat.stores.postgres.errors import REPEAT
from onbeat.stores.sql.migrate import (
    needs_store_alone,
    read_migrations,
    refuse_newer,
    refuse_running,
)

MIGRATION_SECONDS = 25  # below the timeout of statements
ATTEMPTS_MAX = 5  # programs that run already may deadlock with a migration, and go on after it


async def migrate(db: Database, dsn: Dsn) -> int:
    """The version of the schema before, 0 without one.

    Safe with concurrent processes: the first to get the lock does the work.

    An up-to-date schema is not written to, so that a user without the right to change it can open
    the store.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        if await recognise(db, dsn) == len(migrations()):
            break
        try:
            return await migrate_once(db, dsn)
        except REPEAT:
            if attempt == ATTEMPTS_MAX:
                raise
    return len(migrations())


async def migrate_once(db: Database, dsn: Dsn) -> int:
    await db.execute("BEGIN")
    try:
        await db.execute(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'")
        await db.fetch(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"onbeat schema {dsn.schema}"
        )
        before = await recognise(db, dsn)
        await upgrade(db, dsn, before)
        await db.execute("COMMIT")
    except Exception:
        if not db.is_closed():
            await db.execute("ROLLBACK")
        raise
    return before


async def recognise(db: Database, dsn: Dsn) -> int:
    """The version of the schema; 0 without one."""
    # Read from the catalog's rows: a look-up by name may use a cache that is older than our lock.
    sql = """
        SELECT 1
        FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = $1 AND relname = 'migrations'
    """
    if await db.fetchval(sql, dsn.schema) is None:
        return 0
    version = int(await db.fetchval("SELECT coalesce(max(version), 0) FROM migrations"))
    refuse_newer(f"PostgreSQL {dsn.url}", version, len(migrations()), len(migrations()))
    return version


async def upgrade(db: Database, dsn: Dsn, result: int) -> None:
    if not await db.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", dsn.schema):
        await db.execute(f"CREATE SCHEMA {dsn.schema}")
    await db.execute(
        """
        CREATE TABLE IF NOT EXISTS migrations (
          version integer     PRIMARY KEY,
          at      timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    if result and needs_store_alone(migrations()[result:]):
        workers = [record for (record,) in await db.fetch("SELECT record FROM workers")]
        now = await db.fetchval("SELECT clock_timestamp()")
        refuse_running(f"PostgreSQL {dsn.url}", workers, now, len(migrations()))
    for version, script in enumerate(migrations()[result:], result + 1):
        await db.execute(script)
        await db.fetch("INSERT INTO migrations (version) VALUES ($1)", version)


def migrations() -> tuple[str, ...]:
    return read_migrations("onbeat.stores.postgres")
