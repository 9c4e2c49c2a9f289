"""A connection inside a transaction, with the methods that verbs use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.mysql.connection import Database, in_time
from onbeat.stores.mysql.rows import FORMS
from onbeat.stores.sql.dialect import MYSQL, PARAMS, Argument, Columns, Dialect, translate
from onbeat.stores.sql.forms import Forms

Values = Sequence[object] | Mapping[str, object]
Row = tuple[Any, ...]

STATEMENTS_MAX = 200
SELECTS_MAX = 200  # joined by UNION in one statement
STATEMENTS_CHARS_MAX = 1_000_000  # far below the server's default packet limit of 16 MB


class Transaction:
    """`hints` collects the hints for listeners after the commit.

    A verb of one statement may also run outside a transaction: it is then its own transaction.
    """

    dialect: Dialect = MYSQL
    forms: Forms = FORMS

    def __init__(self, db: Database) -> None:
        self.db = db
        self.hints: set[Hint] = set()

    async def run(self, sql: str, values: Values | None = None) -> int:
        """Returns the number of rows changed; rows that already had the values do not count."""
        cursor = self.db.cursor()
        async with in_time():
            await cursor.execute(sql, values)
        return cursor.rowcount

    async def alter(self, sql: str) -> None:
        """Run DDL, without a timeout."""
        await self.db.cursor().execute(sql)

    async def insert(self, sql: str, rows: Sequence[Row]) -> int:
        """`sql` ends in VALUES and placeholders for one row; rows are sent in few statements."""
        if not rows:
            return 0
        async with in_time():
            return await self.db.cursor().executemany(sql, rows) or 0

    async def run_each(self, sql: str, rows: Iterable[Values]) -> int:
        """Run the statement for each row, many in one round trip; returns the changed rows."""
        cursor = self.db.cursor()
        changed = 0
        for batch in join_statements(cursor.mogrify(sql, row) for row in rows):
            async with in_time():
                await cursor.execute(batch)
                changed += cursor.rowcount
                while await cursor.nextset():
                    changed += cursor.rowcount
        return changed

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
            result = [await cursor.fetchall()]
            while await cursor.nextset():
                result.append(await cursor.fetchall())
            return result

    async def column(self, sql: str, values: Values | None = None) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in await self.rows(sql, values)]

    async def value(self, sql: str, values: Values | None = None) -> Any:
        """The first column of the first row; None without one."""
        rows = await self.rows(sql, values)
        return rows[0][0] if rows else None

    # For verbs that are written once: see `sql.session.Session`.

    async def execute(self, sql: str, *values: Argument) -> int:
        return await self.run(translate(MYSQL, sql), tuple(map(bound, values)))

    async def select(self, columns: str, rest: str, *values: Argument) -> Sequence[Sequence[Any]]:
        sql = translate(MYSQL, f"SELECT {columns} {rest}")
        return await self.rows(sql, tuple(map(bound, values)))

    async def select_each(
        self, columns: str, rest: str, values: Columns, rows: Sequence[Row]
    ) -> Sequence[Sequence[Any]]:
        one = translate(MYSQL, f"(SELECT {columns} {PARAMS.sub('?', rest)})")
        places = [list(values).index(name) for name in PARAMS.findall(rest)]
        found: list[Row] = []
        for start in range(0, len(rows), SELECTS_MAX):
            part = rows[start : start + SELECTS_MAX]
            sql = " UNION ALL ".join([one] * len(part))
            found += await self.rows(sql, [row[place] for row in part for place in places])
        return found

    async def insert_rows(
        self, table: str, columns: Columns, rows: Sequence[Row], ending: str = ""
    ) -> int:
        return await self.insert(translate(MYSQL, MYSQL.insert(table, columns, ending)), rows)

    async def delete_rows(self, table: str, key: Columns, rows: Sequence[Sequence[Any]]) -> int:
        sql = translate(MYSQL, MYSQL.delete_each(table, key))
        return await self.run_each(
            sql, join_keys((row[:-1], row[-1]) for row in sorted(map(tuple, rows)))
        )

    async def update_rows(
        self, table: str, key: Columns, columns: Columns, rows: Sequence[Sequence[Any]]
    ) -> None:
        sql, last = translate(MYSQL, MYSQL.update_each(table, key, columns)), len(key) - 1
        values = (((*row[last + 1 :], *row[:last]), row[last]) for row in rows)
        await self.run_each(sql, join_keys(values))

    async def free_dependents(
        self, _ended: Sequence[JobId], _met: Sequence[int], _limit: int
    ) -> int | None:
        """Not here: an UPDATE that selects its rows would lock the gaps between them too."""
        return None


def join_keys(rows: Iterable[tuple[Sequence[Any], Any]]) -> list[Row]:
    """The values of each statement: rows that differ only in their last value share one."""
    keys: dict[Row, list[Any]] = {}
    for values, last in rows:
        keys.setdefault(tuple(values), []).append(last)
    return [(*values, tuple(lasts)) for values, lasts in keys.items()]


def bound(value: Argument) -> Argument:
    """As the driver takes it: an empty list would be no SQL, and nothing is equal to NULL."""
    return (None,) if value == () else value


def join_statements(statements: Iterable[str]) -> Iterator[str]:
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
