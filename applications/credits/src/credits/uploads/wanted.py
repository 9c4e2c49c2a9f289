"""Which files are still wanted, as a table of their paths in the session of one run.

A file is wanted by the record of an upload whose owner lives, by a variant of one, and by each
block that refers to it.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Final

from credits.database import Row, Session, stamp
from credits.uploads.addresses import escape_like, paths_of, references

PORTION: Final = 500
NAMES_MAX: Final = 20
PLAIN: Final = re.compile(r"[\w.-]+", re.ASCII)
"""Names that are written alike in JSON, in HTML and in an address."""

BLOCKS: Final = "SELECT id, data FROM blocks WHERE id > ? AND ({mentions}) ORDER BY id LIMIT ?"
OWNED: Final = "(u.block_id IS NULL OR b.id IS NOT NULL OR u.timestamp >= ?)"
"""By a team or a place, by a block that is there, or so new that its block may be on the way."""
UPLOADS: Final = (
    "SELECT u.id, u.original_url FROM uploads u LEFT JOIN blocks b ON b.id = u.block_id"
    " WHERE u.id > ? AND ({mentions}) AND {owned} ORDER BY u.id LIMIT ?"
)
VARIANTS: Final = (
    "SELECT v.url, v.url FROM upload_variants v JOIN uploads u ON u.id = v.upload_id"
    " LEFT JOIN blocks b ON b.id = u.block_id"
    " WHERE v.url > ? AND ({mentions}) AND {owned} ORDER BY v.url LIMIT ?"
)


async def collect(
    session: Session, sites: Sequence[str], before: datetime, only: Sequence[str] | None = None
) -> None:
    """Fill the table `wanted_paths` by one pass over blocks and uploads.

    Uploads since `before` count as owned. With `only`, paths beside these may be left out.
    """
    await make_table(session, "wanted_paths")
    patterns = mentions_of(only)
    since = stamp(before)
    # The game may have stored its JSON as bytes, which LIKE would pass over.
    async for rows in pages(session, BLOCKS, "CAST(data AS CHAR)", patterns):
        found = (path for _, data in rows for path in references(data, sites))
        await put(session, "wanted_paths", found)
    for statement, column in ((UPLOADS, "u.original_url"), (VARIANTS, "v.url")):
        async for rows in pages(session, statement, column, patterns, since):
            found = (path for _, url in rows for path in paths_of(url, sites))
            await put(session, "wanted_paths", found)


def mentions_of(only: Sequence[str] | None) -> list[str]:
    """Patterns of what may mention one of these paths; too many, or odd ones, are not told apart.

    The name is looked for as JSON has it, which is how a plain text has it too.
    """
    names = [path.rpartition("/")[2] for path in only or ()]
    if not names or len(names) > NAMES_MAX or not all(map(is_plain, names)):
        return ["%uploads%"]
    return [f"%{escape_like(json.dumps(name)[1:-1])}%" for name in names]


def is_plain(name: str) -> bool:
    """Others may be quoted in an address or escaped in JSON, in more than one way."""
    return PLAIN.fullmatch(name) is not None


async def pages(
    session: Session, statement: str, column: str, patterns: Sequence[str], *values: object
) -> AsyncIterator[Sequence[Row]]:
    mentions = " OR ".join([f"{column} LIKE ? ESCAPE ?"] * len(patterns))
    pairs = [value for pattern in patterns for value in (pattern, "\\")]
    sql = statement.replace("{mentions}", mentions).replace("{owned}", OWNED)
    after = ""
    while rows := await session.rows(sql, after, *pairs, *values, PORTION):
        yield rows
        after = rows[-1][0]


async def make_table(session: Session, name: str) -> None:
    """A table of paths, of this session alone; it ends with it."""
    await session.run(f"CREATE TEMPORARY TABLE {name} (path {{path}} NOT NULL PRIMARY KEY)")


async def put(session: Session, table: str, paths: Iterable[str]) -> None:
    unique = [(path,) for path in dict.fromkeys(paths)]
    await session.many(f"INSERT INTO {table} (path) VALUES (?) {{keep_path}}", unique)  # noqa: S608
