"""Bringing the schema up to date, and refusing files that are not ours."""

from functools import cache
from importlib.resources import files

import apsw

from onbeat.model.errors import Misconfigured
from onbeat.stores.sqlite.transaction import Transaction

APPLICATION_ID = 0x4F6E_6265  # "Onbe", in the file's header


def migrate(db: apsw.Connection, path: str) -> None:
    """Safe with several processes at once: the first to get the write lock does the work."""
    transaction = Transaction(db)
    transaction.begin("IMMEDIATE")
    try:
        found = recognise(transaction, path)
        upgrade(transaction, found)
        refuse_altered(transaction, path)
        transaction.commit()
    finally:
        transaction.end()


def recognise(transaction: Transaction, path: str) -> int:
    """The version of the schema in the file; 0 in an empty one."""
    version = transaction.value("PRAGMA user_version")
    application = transaction.value("PRAGMA application_id")
    empty = not transaction.value("SELECT 1 FROM sqlite_schema")
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
    return int(version)


def upgrade(transaction: Transaction, found: int) -> None:
    for script in migrations()[found:]:
        transaction.run(script)
    if found < len(migrations()):
        transaction.run(f"PRAGMA application_id = {APPLICATION_ID}")
        transaction.run(f"PRAGMA user_version = {len(migrations())}")


def refuse_altered(transaction: Transaction, path: str) -> None:
    """Tables and indexes of somebody else may be there too; ours must be as we made them."""
    actual = schema(transaction)
    for name, sql in expected_schema().items():
        if actual.get(name) != sql:
            raise Misconfigured(
                f"SQLite database {path}: `{name}` was {'altered' if name in actual else 'removed'}"
                " by hand; restore it, or restore a backup",
                key="store",
            )


def schema(transaction: Transaction) -> dict[str, str]:
    sql = """
        SELECT json_group_array(json_array(name, sql)) FROM sqlite_schema WHERE sql IS NOT NULL
    """
    return dict(transaction.values(sql))


@cache
def expected_schema() -> dict[str, str]:
    db = apsw.Connection(":memory:")
    upgrade(Transaction(db), 0)
    expected = schema(Transaction(db))
    db.close()
    return expected


@cache
def migrations() -> tuple[str, ...]:
    """All of them, in order; the number in front of the name is the schema's version after it."""
    folder = files("onbeat.stores.sqlite") / "migrations"
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in scripts)
