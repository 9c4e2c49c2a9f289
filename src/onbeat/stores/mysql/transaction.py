"""A connection inside a transaction, with the few ways in which the verbs use it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onbeat.ports.store import Hint
from onbeat.stores.mysql.connection import Database

Values = Sequence[object] | Mapping[str, object]
Row = tuple[Any, ...]

ANSWER_SECONDS = 40.0  # longer than any statement may take: only a dead connection is so silent
STATEMENTS_MAX = 200
STATEMENTS_CHARS_MAX = 1_000_000  # far below the 16 MB that a server takes at once by default


class Transaction:
    """`hints` gathers what listeners shall hear once it is committed.

    A verb that is one statement may also run outside a transaction: it is then one by itself.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.hints: set[Hint] = set()

    async def run(self, sql: str, values: Values | None = None) -> int:
        """Answers with the number of rows changed: one that was as it should be counts nothing."""
        cursor = self.db.cursor()
        async with in_time():
            await cursor.execute(sql, values)
        return cursor.rowcount

    async def alter(self, sql: str) -> None:
        """Change the schema, however long that takes."""
        await self.db.cursor().execute(sql)

    async def insert(self, sql: str, rows: Sequence[Row]) -> int:
        """`sql` ends in VALUES and placeholders for one row; all rows go in few statements."""
        if not rows:
            return 0
        async with in_time():
            return await self.db.cursor().executemany(sql, rows) or 0

    async def run_each(self, sql: str, rows: Iterable[Values]) -> None:
        """The statement for each row, many in one round trip."""
        cursor = self.db.cursor()
        for batch in batched(cursor.mogrify(sql, row) for row in rows):
            async with in_time():
                await cursor.execute(batch)
                while await cursor.nextset():
                    pass

    async def rows(self, sql: str, values: Values | None = None) -> Sequence[Row]:
        cursor = self.db.cursor()
        async with in_time():
            await cursor.execute(sql, values)
            return await cursor.fetchall()

    async def tables(self, sqls: Sequence[str], values: Values) -> list[Sequence[Row]]:
        """The rows of several statements in one round trip."""
        cursor = self.db.cursor()
        async with in_time():
            await cursor.execute(";".join(sqls), values)
            found = [await cursor.fetchall()]
            while await cursor.nextset():
                found.append(await cursor.fetchall())
            return found

    async def column(self, sql: str, values: Values | None = None) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in await self.rows(sql, values)]

    async def value(self, sql: str, values: Values | None = None) -> Any:
        """The first column of the first row; None without one."""
        rows = await self.rows(sql, values)
        return rows[0][0] if rows else None


def in_time() -> asyncio.Timeout:
    """The driver's own bound waits by `asyncio.wait_for`: see `connection.connect`."""
    return asyncio.timeout(ANSWER_SECONDS)


def batched(statements: Iterable[str]) -> Iterator[str]:
    batch: list[str] = []
    size = 0
    for statement in statements:
        if batch and (size + len(statement) > STATEMENTS_CHARS_MAX or len(batch) >= STATEMENTS_MAX):
            yield ";".join(batch)
            batch, size = [], 0
        batch.append(statement)
        size += len(statement)
    if batch:
        yield ";".join(batch)
