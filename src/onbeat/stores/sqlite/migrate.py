"""Migrates the schema, in Onbeat's own file or in the file of an application."""

from functools import cache
from typing import Final

import apsw
import msgspec

from onbeat.model.errors import Misconfigured
from onbeat.stores.sql.migrate import read_migrations, refuse_newer
from onbeat.stores.sqlite.transaction import Transaction

PREFIX: Final = "onbeat_"

FIRST_RELEASE_ID: Final = 0x4F6E_6265  # "Onbe", in the file's header
"""The `application_id` of files of version 0.1, whose tables have no prefix."""

FIRST_RELEASE_SCHEMA: Final = 2
"""The `user_version` of files of version 0.1."""


class SchemaEntry(msgspec.Struct, frozen=True, array_like=True):
    """A row of `sqlite_schema`."""

    kind: str
    name: str
    sql: str


def migrate(db: apsw.Connection, path: str) -> int:
    """The version of the schema before, 0 without one.

    Safe with concurrent processes: the first to get the write lock does the work.
    """
    transaction = Transaction(db)
    transaction.begin("IMMEDIATE")
    try:
        result = recognise(transaction, path)
        if is_first_release(transaction):
            take_over(transaction, path, result)
        elif result == 0:
            refuse_taken_names(transaction, path)
        upgrade(transaction, result)
        refuse_altered(transaction, path)
        transaction.commit()
    finally:
        transaction.end()
    return result


def recognise(transaction: Transaction, path: str) -> int:
    """The version of the schema in the file; 0 without our tables."""
    known = len(migrations())
    if has_version(transaction):
        version = transaction.value("SELECT version FROM onbeat_schema")
    elif is_first_release(transaction):
        version = transaction.value("PRAGMA user_version")
        known = FIRST_RELEASE_SCHEMA
    else:
        return 0
    if version is None:
        raise altered_error(path, "onbeat_schema", "emptied")
    refuse_newer(f"SQLite database {path}", version, known, len(migrations()))
    return int(version)


def has_version(transaction: Transaction) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE name = 'onbeat_schema'"
    return bool(transaction.value(sql))


def is_first_release(transaction: Transaction) -> bool:
    """Whether version 0.1 created the file, and no newer one has opened it since."""
    return bool(
        transaction.value("PRAGMA application_id") == FIRST_RELEASE_ID
        and not has_version(transaction)
    )


def take_over(transaction: Transaction, path: str, result: int) -> None:
    """Add the prefix to the tables of version 0.1, and return the header to the application.

    SQLite cannot rename indexes and views: they are created again from our scripts. Tables of the
    application in the file are not changed.
    """
    ours = schema_at(result)
    names = {entry.name for entry in schema(transaction)}
    for entry in ours:
        if without_prefix(entry.name) not in names:
            raise altered_error(path, without_prefix(entry.name), "removed")
    refuse_taken_names(transaction, path)
    try:
        rename(transaction, ours)
    except apsw.SQLError as error:
        raise Misconfigured(
            f"SQLite database {path}: the tables of version 0.1 cannot be renamed ({error}); "
            "drop the view or trigger that is named here, and make it anew afterwards",
            key="store",
        ) from error
    transaction.run("PRAGMA application_id = 0")
    transaction.run("PRAGMA user_version = 0")


def rename(transaction: Transaction, ours: tuple[SchemaEntry, ...]) -> None:
    """Views are dropped first, since renaming a table would rewrite their text."""
    for kind in ("view", "index"):
        for entry in ours:
            if entry.kind == kind:
                transaction.run(f"DROP {kind} {without_prefix(entry.name)}")
    for entry in ours:
        if entry.kind == "table":
            transaction.run(f"ALTER TABLE {without_prefix(entry.name)} RENAME TO {entry.name}")
    for entry in ours:
        if entry.kind != "table":
            transaction.run(entry.sql)


def without_prefix(name: str) -> str:
    return name.removeprefix(PREFIX)


def upgrade(transaction: Transaction, result: int) -> None:
    for script in migrations()[result:]:
        transaction.run(script)
    if result < len(migrations()):
        transaction.run(
            """
            INSERT INTO onbeat_schema (id, version) VALUES (1, ?)
            ON CONFLICT DO UPDATE SET version = excluded.version
            """,
            (len(migrations()),),
        )


def refuse_taken_names(transaction: Transaction, path: str) -> None:
    ours = {entry.name for entry in schema_at(len(migrations()))}
    for entry in schema(transaction):
        if entry.name.lower() in ours:
            raise Misconfigured(
                f"SQLite database {path} has `{entry.name}` already, and not from this program; "
                "rename that, or name another file",
                key="store",
            )


def refuse_altered(transaction: Transaction, path: str) -> None:
    """Tables and indexes of the application are ignored; ours must be as we created them."""
    actual = {entry.name: entry.sql for entry in schema(transaction)}
    for entry in schema_at(len(migrations())):
        if actual.get(entry.name) != entry.sql:
            raise altered_error(path, entry.name, "altered" if entry.name in actual else "removed")


def altered_error(path: str, name: str, what: str) -> Misconfigured:
    return Misconfigured(
        f"SQLite database {path}: `{name}` was {what} by hand; restore it, or restore a backup",
        key="store",
    )


def schema(transaction: Transaction) -> tuple[SchemaEntry, ...]:
    """In the order of creation; the quotes around renamed tables are removed."""
    sql = """
        SELECT json_group_array(json_array(
                 type, name, replace(sql, '"' || tbl_name || '"', tbl_name)))
        FROM (SELECT * FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid)
    """
    return tuple(msgspec.convert(transaction.values(sql), list[SchemaEntry]))


@cache
def schema_at(version: int) -> tuple[SchemaEntry, ...]:
    """The schema that our scripts create up to that version."""
    db = apsw.Connection(":memory:")
    for script in migrations()[:version]:
        Transaction(db).run(script)
    made = schema(Transaction(db))
    db.close()
    return made


def migrations() -> tuple[str, ...]:
    return read_migrations("onbeat.stores.sqlite")
