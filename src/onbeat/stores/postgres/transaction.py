"""A connection inside a transaction, with the methods that verbs use."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.postgres.connection import Database
from onbeat.stores.postgres.dependents import FREE
from onbeat.stores.postgres.rows import FORMS
from onbeat.stores.sql.dialect import POSTGRES, Argument, Columns, Dialect, Row, translate
from onbeat.stores.sql.forms import Forms


class Transaction:
    """`hints` collects the hints for listeners after the commit.

    The commit itself announces the hints in `noticed` to other processes. `lone_job` is the new
    job, if the transaction has added a single one and done nothing else.

    A verb of one statement may also run outside a transaction: it is then its own transaction.
    """

    dialect: Dialect = POSTGRES
    forms: Forms = FORMS

    def __init__(self, db: Database) -> None:
        self.db = db
        self.hints: set[Hint] = set()
        self.noticed: set[Hint] = set()
        self.lone_job: JobId | None = None

    async def run(self, sql: str, *values: object) -> int:
        """Returns the number of rows changed."""
        status = await self.db.execute(sql, *values)
        return int(status.rpartition(" ")[2])

    async def copy(self, table: str, columns: Sequence[str], source: AsyncIterator[bytes]) -> int:
        """Add rows in the binary format of COPY; returns their number."""
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

    # For verbs that are written once: see `sql.session.Session`.

    async def execute(self, sql: str, *values: Argument) -> int:
        return await self.run(translate(POSTGRES, sql), *values)

    async def select(self, columns: str, rest: str, *values: Argument) -> Sequence[Sequence[Any]]:
        return await self.rows(translate(POSTGRES, f"SELECT {columns} {rest}"), *values)

    async def select_each(
        self, columns: str, rest: str, values: Columns, rows: Sequence[Row]
    ) -> Sequence[Sequence[Any]]:
        if not rows:
            return []
        sql = translate(POSTGRES, POSTGRES.select_each(columns, rest, values))
        return await self.rows(sql, *zip(*rows, strict=True))

    async def insert_rows(
        self, table: str, columns: Columns, rows: Sequence[Row], ending: str = ""
    ) -> int:
        if not rows:
            return 0
        sql = translate(POSTGRES, POSTGRES.insert(table, columns, ending))
        return await self.run(sql, *zip(*rows, strict=True))

    async def delete_rows(self, table: str, key: Columns, rows: Sequence[Sequence[Any]]) -> int:
        if not rows:
            return 0
        sql = translate(POSTGRES, POSTGRES.delete_each(table, key))
        return await self.run(sql, *zip(*rows, strict=True))

    async def update_rows(
        self, table: str, key: Columns, columns: Columns, rows: Sequence[Sequence[Any]]
    ) -> None:
        if rows:
            sql = translate(POSTGRES, POSTGRES.update_each(table, key, columns))
            await self.run(sql, *zip(*rows, strict=True))

    async def free_dependents(
        self, ended: Sequence[JobId], met: Sequence[int], limit: int
    ) -> int | None:
        ((waiting, freed),) = await self.rows(FREE, list(ended), list(met), limit + 1)
        return int(waiting) if freed == waiting <= limit else None
