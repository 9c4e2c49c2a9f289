"""Bringing the schema up to date, and refusing what is not ours.

A change of the schema commits by itself here, so that no transaction holds a migration together:
each of its statements may be run again, and its number is written down once all have run. A
statement that changes a table adds columns to it, and so is refused where it was run before.
"""

import hashlib
import re
from functools import cache
from importlib.resources import files

from asyncmy import errors

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.mysql.connection import STATEMENT_SECONDS, is_mariadb
from onbeat.stores.mysql.faults import code_of
from onbeat.stores.mysql.place import Place
from onbeat.stores.mysql.transaction import Transaction

DUPLICATE_COLUMN = 1060
LOCK_SECONDS = 25  # less than any statement may take
MARIADB_MIN = (10, 6)  # SKIP LOCKED
MYSQL_MIN = (8, 0, 16)  # constraints that are checked

# Trailing spaces count, and so does every code point.
MARIADB_EXACT = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
MYSQL_EXACT = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"


async def migrate(transaction: Transaction, place: Place) -> None:
    """Safe with several processes at once: the first to get the lock does the work."""
    refuse_old_server(transaction, place)
    if await version(transaction) == len(migrations()):
        return
    name = lock_name(place)
    if await transaction.value("SELECT GET_LOCK(%s, %s)", (name, LOCK_SECONDS)) != 1:
        raise Unavailable(f"MySQL {place.url}: another process is migrating it; try again")
    try:
        await bound_statements(transaction, 0)  # a table with many rows takes its time
        await upgrade(transaction, place)
    finally:
        # Cancelled in the middle of an answer, it is closed, and with it went both; to ask all the
        # same would fail, and that failure would hide that it was cancelled.
        if transaction.db.connected:
            await bound_statements(transaction, STATEMENT_SECONDS)
            await transaction.value("SELECT RELEASE_LOCK(%s)", (name,))


async def bound_statements(transaction: Transaction, seconds: int) -> None:
    """0 stands for no bound. MySQL bounds nothing but what only reads."""
    if is_mariadb(transaction.db):
        await transaction.run(f"SET SESSION max_statement_time = {seconds}")


def lock_name(place: Place) -> str:
    """Locks are known to the whole server, and their names are short."""
    return f"onbeat:{hashlib.sha256(place.database.encode()).hexdigest()[:32]}"


def refuse_old_server(transaction: Transaction, place: Place) -> None:
    found = server_version(transaction)
    needed = MARIADB_MIN if is_mariadb(transaction.db) else MYSQL_MIN
    if found < needed:
        raise Misconfigured(
            f"MySQL {place.url} is version {server_name(transaction)}; "
            "it must be MariaDB 10.6, MySQL 8.0.16 or newer",
            key="store",
        )


def server_version(transaction: Transaction) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", server_name(transaction))
    return tuple(map(int, found.group().split("."))) if found else ()


def server_name(transaction: Transaction) -> str:
    """MariaDB may say "5.5.5-10.11.4-MariaDB", for the sake of old clients."""
    return transaction.db.get_server_info().removeprefix("5.5.5-")


async def upgrade(transaction: Transaction, place: Place) -> None:
    found = await version(transaction)
    if found is None:
        await refuse_others(transaction, place)
        await transaction.run(
            "CREATE TABLE IF NOT EXISTS onbeat_schema (version INT NOT NULL) ENGINE = InnoDB"
        )
    elif found > len(migrations()):
        raise Misconfigured(
            f"MySQL {place.url} has schema {found}, and this program knows up to "
            f"{len(migrations())}; start the newer program that wrote it",
            key="store",
        )
    exact = MARIADB_EXACT if is_mariadb(transaction.db) else MYSQL_EXACT
    for number, script in enumerate(migrations()[found or 0 :], (found or 0) + 1):
        for statement in statements(script):
            await run_once(transaction, statement.replace(":exact", exact))
        await transaction.run("INSERT INTO onbeat_schema (version) VALUES (%s)", (number,))


async def run_once(transaction: Transaction, statement: str) -> None:
    try:
        await transaction.alter(statement)
    except errors.MySQLError as error:
        if code_of(error) != DUPLICATE_COLUMN:
            raise


async def version(transaction: Transaction) -> int | None:
    """The version of the schema; 0 while the first is being made, None in a foreign database."""
    if not await exists(transaction, ["onbeat_schema"]):
        return None
    found = await transaction.value("SELECT COALESCE(MAX(version), 0) FROM onbeat_schema")
    return int(found)


async def refuse_others(transaction: Transaction, place: Place) -> None:
    """Tables of somebody else may be there too, but not under our names."""
    names = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", "".join(migrations()))
    if taken := await exists(transaction, names):
        raise Misconfigured(
            f"MySQL {place.url} has a table {taken[0]!r} of another program; name another database",
            key="store",
        )


async def exists(transaction: Transaction, names: list[str]) -> list[str]:
    """Which of the tables there are."""
    return await transaction.column(
        """
        SELECT table_name FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name IN %s
        """,
        (tuple(names),),
    )


def statements(script: str) -> list[str]:
    """Comments may hold semicolons; texts in our statements do not."""
    bare = re.sub(r"--.*", "", script)
    return [part.strip() for part in bare.split(";") if part.strip()]


@cache
def migrations() -> tuple[str, ...]:
    """All of them, in order; the number in front of the name is the schema's version after it."""
    folder = files("onbeat.stores.mysql") / "migrations"
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in scripts)
