"""Bringing the schema up to date, and refusing files that are not ours."""

from functools import cache
from importlib.resources import files

import apsw

from onbeat.model.errors import Misconfigured

APPLICATION_ID = 0x4F6E_6265  # "Onbe", in the file's header


def migrate(db: apsw.Connection, path: str) -> None:
    """Safe with several processes at once: the first to get the write lock does the work."""
    db.execute("BEGIN IMMEDIATE")
    try:
        found = recognise(db, path)
        upgrade(db, found)
        refuse_altered(db, path)
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def recognise(db: apsw.Connection, path: str) -> int:
    """The version of the schema in the file; 0 in an empty one."""
    version = int(db.pragma("user_version"))
    application = int(db.pragma("application_id"))
    empty = db.execute("SELECT count(*) FROM sqlite_schema").get == 0
    if application != APPLICATION_ID and not (empty and version == application == 0):
        raise Misconfigured(
            f"SQLite database {path} belongs to another program; name another file", key="store"
        )
    if version > len(migrations()):
        raise Misconfigured(
            f"SQLite database {path} has schema {version}, and this program knows up to "
            f"{len(migrations())}; start the newer program that wrote it",
            key="store",
        )
    return version


def upgrade(db: apsw.Connection, found: int) -> None:
    for script in migrations()[found:]:
        db.execute(script)
    if found < len(migrations()):
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", len(migrations()))


def refuse_altered(db: apsw.Connection, path: str) -> None:
    """Tables and indexes of somebody else may be there too; ours must be as we made them."""
    actual = schema(db)
    for name, sql in expected_schema().items():
        if actual.get(name) != sql:
            raise Misconfigured(
                f"SQLite database {path}: `{name}` was {'altered' if name in actual else 'removed'}"
                " by hand; restore it, or restore a backup",
                key="store",
            )


def schema(db: apsw.Connection) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    return {str(name): str(sql) for name, sql in db.execute(query)}


@cache
def expected_schema() -> dict[str, str]:
    db = apsw.Connection(":memory:")
    upgrade(db, 0)
    expected = schema(db)
    db.close()
    return expected


@cache
def migrations() -> tuple[str, ...]:
    """All of them, in order; the number in front of the name is the schema's version after it."""
    folder = files("onbeat.stores.sqlite") / "migrations"
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in scripts)
