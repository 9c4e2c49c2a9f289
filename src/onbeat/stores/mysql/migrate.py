"""Migrates the schema, and refuses tables of other programs.

DDL commits implicitly here, so a migration is not one transaction: each of its statements may be
run again, and its number is stored when all have run. A statement that alters a table adds or
renames columns, so it is refused if it was run before.
"""

import hashlib
import re
from datetime import UTC, datetime

from asyncmy import errors

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.mysql.connection import LOCK_SECONDS, STATEMENT_SECONDS, Dsn, is_mariadb
from onbeat.stores.mysql.errors import code_of
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.migrate import (
    needs_store_alone,
    read_migrations,
    refuse_newer,
    refuse_running,
)

DUPLICATE_COLUMN = 1060
DUPLICATE_INDEX = 1061
UNKNOWN_COLUMN = 1054
MIGRATION_SECONDS = 25  # below the timeout of statements
MARIADB_MIN = (10, 6)  # SKIP LOCKED
MYSQL_MIN = (8, 0, 16)  # CHECK constraints

# Trailing spaces and every code point are significant.
MARIADB_EXACT = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
MYSQL_EXACT = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"


async def migrate(transaction: Transaction, dsn: Dsn) -> int:
    """The version of the schema before, 0 without one.

    Safe with concurrent processes: the first to get the lock does the work.
    """
    refuse_old_server(transaction, dsn)
    if await version(transaction) == len(migrations()):
        return len(migrations())
    name = lock_name(dsn)
    if await transaction.value("SELECT GET_LOCK(%s, %s)", (name, MIGRATION_SECONDS)) != 1:
        raise Unavailable(f"MySQL {dsn.url}: another process is migrating it; try again")
    try:
        await bound_statements(transaction, 0)  # a table with many rows takes longer
        await wait_for_tables(transaction, MIGRATION_SECONDS)
        return await upgrade(transaction, dsn)
    finally:
        # If it was cancelled in the middle of an answer, the connection is closed, and with it lock
        # and settings are gone. A statement on it would fail and hide the cancellation.
        if transaction.db.connected:
            await bound_statements(transaction, STATEMENT_SECONDS)
            await wait_for_tables(transaction, LOCK_SECONDS)
            await transaction.value("SELECT RELEASE_LOCK(%s)", (name,))


async def bound_statements(transaction: Transaction, seconds: int) -> None:
    """Set the statement timeout; 0 is none. MySQL has one only for statements that read."""
    if is_mariadb(transaction.db):
        await transaction.run(f"SET SESSION max_statement_time = {seconds}")


async def wait_for_tables(transaction: Transaction, seconds: int) -> None:
    """Set how long DDL waits for tables that others use."""
    await transaction.run(f"SET SESSION lock_wait_timeout = {seconds}")


def lock_name(dsn: Dsn) -> str:
    """A hash, since lock names are global on the server and limited in length."""
    return f"onbeat:{hashlib.sha256(dsn.database.encode()).hexdigest()[:32]}"


def refuse_old_server(transaction: Transaction, dsn: Dsn) -> None:
    result = server_version(transaction)
    needed = MARIADB_MIN if is_mariadb(transaction.db) else MYSQL_MIN
    if result < needed:
        raise Misconfigured(
            f"MySQL {dsn.url} is version {server_name(transaction)}; "
            "it must be MariaDB 10.6, MySQL 8.0.16 or newer",
            key="store",
        )


def server_version(transaction: Transaction) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", server_name(transaction))
    return tuple(map(int, match.group().split("."))) if match else ()


def server_name(transaction: Transaction) -> str:
    """MariaDB may report "5.5.5-10.11.4-MariaDB" for old clients."""
    return transaction.db.get_server_info().removeprefix("5.5.5-")


async def upgrade(transaction: Transaction, dsn: Dsn) -> int:
    result = await version(transaction)
    if result is None:
        await refuse_others(transaction, dsn)
        await transaction.run(
            "CREATE TABLE IF NOT EXISTS onbeat_schema (version INT NOT NULL) ENGINE = InnoDB"
        )
    else:
        refuse_newer(f"MySQL {dsn.url}", result, len(migrations()), len(migrations()))
        if result and needs_store_alone(migrations()[result:]):
            workers = await transaction.column("SELECT record FROM workers")
            now: datetime = await transaction.value("SELECT UTC_TIMESTAMP(6)")
            refuse_running(f"MySQL {dsn.url}", workers, now.replace(tzinfo=UTC), len(migrations()))
    exact = MARIADB_EXACT if is_mariadb(transaction.db) else MYSQL_EXACT
    for number, script in enumerate(migrations()[result or 0 :], (result or 0) + 1):
        for statement in statements(script):
            await run_once(transaction, statement.replace(":exact", exact))
        await transaction.run("INSERT INTO onbeat_schema (version) VALUES (%s)", (number,))
    return result or 0


async def run_once(transaction: Transaction, statement: str) -> None:
    try:
        await transaction.alter(statement)
    except errors.MySQLError as error:
        if code_of(error) not in (DUPLICATE_COLUMN, DUPLICATE_INDEX, UNKNOWN_COLUMN):
            raise


async def version(transaction: Transaction) -> int | None:
    """The version of the schema; 0 while the first is being created, None in a foreign database."""
    if not await exists(transaction, ["onbeat_schema"]):
        return None
    value = await transaction.value("SELECT COALESCE(MAX(version), 0) FROM onbeat_schema")
    return int(value)


async def refuse_others(transaction: Transaction, dsn: Dsn) -> None:
    """Other programs may have tables there too, but not under our names."""
    names = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", "".join(migrations()))
    if taken := await exists(transaction, names):
        raise Misconfigured(
            f"MySQL {dsn.url} has a table {taken[0]!r} of another program; name another database",
            key="store",
        )


async def exists(transaction: Transaction, names: list[str]) -> list[str]:
    """Which of the tables exist."""
    return await transaction.column(
        """
        SELECT table_name FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name IN %s
        """,
        (tuple(names),),
    )


def statements(script: str) -> list[str]:
    """Comments may hold semicolons; literals in our statements do not."""
    bare = re.sub(r"--.*", "", script)
    return [part.strip() for part in bare.split(";") if part.strip()]


def migrations() -> tuple[str, ...]:
    return read_migrations("onbeat.stores.mysql")
