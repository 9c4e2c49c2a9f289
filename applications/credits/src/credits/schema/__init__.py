"""The tables, by numbered files for each kind of database, which can all be run again."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from credits.database import Database, Session

INDEX: Final = re.compile(r"CREATE INDEX (?P<name>\w+) ON (?P<table>\w+)")


async def migrate(database: Database) -> None:
    """Make what is not there yet. Tables of the game are left as they are.

    In one transaction on SQLite; MySQL commits each table by itself.
    """
    async with database.session() as session, session.transaction():
        for statement in statements(database.kind):
            if not await exists(session, database.kind, statement):
                await session.run(statement)


def statements(kind: str) -> Iterator[str]:
    folder = files("credits.schema").joinpath(kind)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        text = re.sub(r"^--.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
        yield from filter(None, map(str.strip, text.split(";")))


async def exists(session: Session, kind: str, statement: str) -> bool:
    """MySQL has no `IF NOT EXISTS` for an index."""
    index = INDEX.match(statement)
    if kind != "mysql" or index is None:
        return False
    found = await session.rows(
        "SELECT 1 FROM information_schema.statistics"
        " WHERE table_schema = database() AND table_name = ? AND index_name = ? LIMIT 1",
        index["table"],
        index["name"],
    )
    return bool(found)
