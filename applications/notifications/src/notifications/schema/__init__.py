"""The tables, by numbered files that both databases read, and that can all be run again."""

import re
from collections.abc import Iterator
from importlib.resources import files

from notifications.database import Database


async def migrate(database: Database) -> None:
    """Make what is not there yet, in one transaction."""
    async with database.session() as session, session.transaction():
        for statement in statements():
            await session.run(statement)


def statements() -> Iterator[str]:
    folder = files("notifications.schema")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            text = re.sub(r"^--.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
            yield from filter(None, map(str.strip, text.split(";")))
