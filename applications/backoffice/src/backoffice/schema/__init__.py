"""The tables, by numbered files, which can all be run again, on MariaDB and on MySQL."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

import asyncmy.errors

from backoffice.database import Session

PROVIDER: Final = "0001_provider.sql"
TABLE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*)\)", re.DOTALL)
COLUMN: Final = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")
INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)\s+ON (\w+)")

HAS_COLUMN: Final = (
    "SELECT 1 FROM information_schema.columns"
    " WHERE table_schema = database() AND table_name = ? AND column_name = ? LIMIT 1"
)
HAS_INDEX: Final = (
    "SELECT 1 FROM information_schema.statistics"
    " WHERE table_schema = database() AND table_name = ? AND index_name = ? LIMIT 1"
)
MADE_MEANWHILE: Final = frozenset({1050, 1060, 1061})
"""By another process that starts: the table, the column, the index."""


class SchemaError(Exception):
    """The tables of this database cannot be used; the message names what is wrong."""


async def migrate(session: Session) -> None:
    """Make what is not there yet. The server commits each statement by itself.

    Raises `SchemaError`.
    """
    provider = list(statements(PROVIDER))
    for statement in provider:
        await make(session, statement)
    await check(session, columns_of(provider))
    for file in sorted(scripts() - {PROVIDER}):
        for statement in statements(file):
            await make(session, statement)


def scripts() -> set[str]:
    folder = files("backoffice.schema")
    return {file.name for file in folder.iterdir() if file.name.endswith(".sql")}


def statements(file: str) -> Iterator[str]:
    script = files("backoffice.schema").joinpath(file).read_text("utf-8")
    text = re.sub(r"^ *--.*$", "", script, flags=re.MULTILINE)
    yield from filter(None, map(str.strip, text.split(";")))


def columns_of(provider: list[str]) -> Mapping[str, set[str]]:
    """The columns that each table of the provider has to have."""
    found = filter(None, map(TABLE.match, provider))
    return {each[1]: set(re.findall(r"^  `?(\w+)", each[2], re.MULTILINE)) for each in found}


async def check(session: Session, needed: Mapping[str, set[str]]) -> None:
    """Before anything is added: a column of money is not made up."""
    there: dict[str, set[str]] = defaultdict(set)
    for table, column in await session.rows(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = database()"
    ):
        there[str(table)].add(str(column))
    missing = [
        f"{table}.{column}"
        for table, columns in needed.items()
        for column in sorted(columns - there[table])
    ]
    if missing:
        names = ", ".join(missing)
        raise SchemaError(f"the tables lack columns that are needed: {names}; add them first")


async def make(session: Session, statement: str) -> None:
    if await is_made(session, statement):
        return
    try:
        await session.run(statement)
    except asyncmy.errors.MySQLError as error:
        number, *why = error.args
        if number not in MADE_MEANWHILE:
            begin = statement.partition("\n")[0]
            raise SchemaError(f"{begin}: {', '.join(map(str, why)) or number}") from error


async def is_made(session: Session, statement: str) -> bool:
    """MySQL has no `IF NOT EXISTS` for a column or an index."""
    if column := COLUMN.match(statement):
        return await session.row(HAS_COLUMN, *column.groups()) is not None
    if index := INDEX.match(statement):
        name, table = index.groups()
        return await session.row(HAS_INDEX, table, name) is not None
    return False
