"""The tables, by numbered files, which can all be run again."""

import re
from collections.abc import Iterator
from importlib.resources import files

from backoffice.database import Session


async def migrate(session: Session) -> None:
    """Make what is not there yet. MariaDB commits each statement by itself."""
    for statement in statements():
        await session.run(statement)


def statements() -> Iterator[str]:
    scripts = (file for file in files("backoffice.schema").iterdir() if file.name.endswith(".sql"))
    for file in sorted(scripts, key=lambda file: file.name):
        text = re.sub(r"^ *--.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
        yield from filter(None, map(str.strip, text.split(";")))
