"""Bringing the schema up to date, and refusing one that is newer."""

from functools import cache
from importlib.resources import files

from onbeat.model.errors import Misconfigured
from onbeat.stores.postgres.connection import Database
from onbeat.stores.postgres.place import Place


async def migrate(db: Database, place: Place) -> None:
    """Safe with many at once: the first to get the lock does the work, the others find it done.

    Where nothing is to be done nothing is written, so that a user without the right to change the
    schema can open it.
    """
    if await recognise(db, place) == len(migrations()):
        return
    await db.execute("BEGIN")
    try:
        await db.fetch(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"onbeat schema {place.schema}"
        )
        await upgrade(db, place, await recognise(db, place))
        await db.execute("COMMIT")
    except Exception:
        if not db.is_closed():
            await db.execute("ROLLBACK")
        raise


async def recognise(db: Database, place: Place) -> int:
    """The version of the schema; 0 where there is none."""
    # Asked of the catalog's rows: a look-up by name may answer from a cache that is older than the
    # lock we waited for.
    sql = """
        SELECT 1
        FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = $1 AND relname = 'migrations'
    """
    if await db.fetchval(sql, place.schema) is None:
        return 0
    version = int(await db.fetchval("SELECT coalesce(max(version), 0) FROM migrations"))
    if version > len(migrations()):
        raise Misconfigured(
            f"PostgreSQL {place.url} has schema {version}, and this program knows up to "
            f"{len(migrations())}; start the newer program that wrote it",
            key="store",
        )
    return version


async def upgrade(db: Database, place: Place, found: int) -> None:
    if not await db.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", place.schema):
        await db.execute(f"CREATE SCHEMA {place.schema}")
    await db.execute(
        """
        CREATE TABLE IF NOT EXISTS migrations (
          version integer     PRIMARY KEY,
          at      timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    for version, script in enumerate(migrations()[found:], found + 1):
        await db.execute(script)
        await db.fetch("INSERT INTO migrations (version) VALUES ($1)", version)


@cache
def migrations() -> tuple[str, ...]:
    """All of them, in order; the number in front of the name is the schema's version after it."""
    folder = files("onbeat.stores.postgres") / "migrations"
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in scripts)
