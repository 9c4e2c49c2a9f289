"""A connection inside a transaction, with the few ways in which the verbs use it."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from onbeat.ports.store import Hint
from onbeat.stores.postgres.connection import Database


class Transaction:
    """`hints` gathers what listeners shall hear once it is committed; of what is `noticed`, those
    in other processes hear by the commit itself.

    A verb that is one statement may also run outside a transaction: it is then one by itself.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.hints: set[Hint] = set()
        self.noticed: set[Hint] = set()

    async def run(self, sql: str, *values: object) -> int:
        """Answers with the number of rows changed."""
        status = await self.db.execute(sql, *values)
        return int(status.rpartition(" ")[2])

    async def copy(self, table: str, columns: Sequence[str], source: AsyncIterator[bytes]) -> int:
        """Add rows that come in the binary form of COPY; answers with their number."""
        status = await self.db.copy_to_table(table, source=source, columns=columns, format="binary")
        return int(status.rpartition(" ")[2])

    async def rows(self, sql: str, *values: object) -> Sequence[Any]:
        return await self.db.fetch(sql, *values)

    async def column(self, sql: str, *values: object) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in await self.db.fetch(sql, *values)]

    async def value(self, sql: str, *values: object) -> Any:
        """The first column of the first row; None without one."""
        return await self.db.fetchval(sql, *values)
