"""A connection inside a transaction, with the methods that verbs use."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw
import msgspec

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.sql.dialect import SQLITE, Argument, Columns, Dialect, Value, translate
from onbeat.stores.sql.dialect import Row as AnyRow
from onbeat.stores.sql.forms import Forms
from onbeat.stores.sqlite.dependents import COUNT_WAITS, FORGET_WAITS, UNBLOCK
from onbeat.stores.sqlite.rows import FORMS

P = ParamSpec("P")
Answer = TypeVar("Answer")
Bindings = Sequence[Value] | Mapping[str, Value]
Row = tuple[Value, ...]

# Statements with many rows have these sizes, padded with rows of NULLs, so that each is prepared
# once. Few statements with many rows are best: after each one the writer waits for the interpreter,
# beside a busy event loop for milliseconds.
ROW_COUNTS = (1, 4, 16, 64, 256, 512, 1024)
TEXT_MAX = 16_000  # characters of a statement: the driver keeps no longer ones prepared


class Transaction:
    """`hints` collects the hints for listeners after the commit."""

    dialect: Dialect = SQLITE
    forms: Forms = FORMS

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.hints: set[Hint] = set()

    def begin(self, kind: str) -> None:
        self._execute(f"BEGIN {kind}")

    def commit(self) -> None:
        self._execute("COMMIT")

    def end(self) -> None:
        """Roll back, unless committed."""
        if self.db.in_transaction:
            self._execute("ROLLBACK")

    def run(self, sql: str, bindings: Bindings = ()) -> int:
        """Returns the number of rows changed."""
        self._execute(sql, bindings)
        return self.db.changes()

    def run_rows(self, sql: str, rows: Sequence[Row]) -> int:
        """Run `sql` with VALUES for `:rows`; it must skip rows whose `column1` is NULL."""
        return sum(self.run(text, values) for text, values in with_bound_rows(sql, rows))

    def value(self, sql: str, bindings: Bindings = ()) -> Any:
        """The first column of the first row; None without one."""
        row = self._execute(sql, bindings).fetchone()
        return None if row is None else row[0]

    def _execute(self, sql: str, bindings: Bindings = ()) -> apsw.Cursor:
        return self.db.execute(sql, bindings)  # pyright: ignore[reportUnknownMemberType]  stubs

    def row(self, sql: str, bindings: Bindings = ()) -> Any:
        """The first row; None without one."""
        return self._execute(sql, bindings).fetchone()

    def values(self, sql: str, bindings: Bindings = ()) -> list[Any]:
        """Decode the JSON array that the statement builds.

        One row with all values instead of many rows: the driver releases the GIL at every row, and
        beside a busy event loop each release may cost a switch interval of 5 ms.
        """
        text = self.value(sql, bindings)
        return msgspec.json.decode(text) if text else []

    # For verbs that are written once: see `sql.session.Session`.

    async def execute(self, sql: str, *values: Argument) -> int:
        return self.run(translate(SQLITE, sql), tuple(map(bound, values)))

    async def select(self, columns: str, rest: str, *values: Argument) -> Sequence[Sequence[Any]]:
        text = f"SELECT json_group_array(json_array({columns})) FROM (SELECT {columns} {rest})"  # noqa: S608  values are bound
        return self.values(translate(SQLITE, text), tuple(map(bound, values)))

    async def select_each(
        self, columns: str, rest: str, values: Columns, rows: Sequence[AnyRow]
    ) -> Sequence[Sequence[Any]]:
        named = ", ".join(f"value ->> {place} AS {name}" for place, name in enumerate(values))
        text = f"""
            SELECT json_group_array(json(
                     (SELECT json_group_array(json_array({columns}))
                      FROM (SELECT {columns} {rest}))))
            FROM (SELECT {named} FROM json_each(?)) AS params
        """  # noqa: S608  values are bound
        lists = self.values(translate(SQLITE, text), (json_array(rows),)) if rows else []
        return list(chain.from_iterable(lists))

    async def insert_rows(
        self, table: str, columns: Columns, rows: Sequence[AnyRow], ending: str = ""
    ) -> int:
        return self.run_rows(translate(SQLITE, SQLITE.insert(table, columns, ending)), rows)

    async def delete_rows(self, table: str, key: Columns, rows: Sequence[Sequence[Any]]) -> int:
        sql = translate(SQLITE, SQLITE.delete_each(table, key))
        return self.run_rows(sql, list(map(tuple, rows)))

    async def update_rows(
        self, table: str, key: Columns, columns: Columns, rows: Sequence[Sequence[Any]]
    ) -> None:
        sql = translate(SQLITE, SQLITE.update_each(table, key, columns))
        self.run_rows(sql, list(map(tuple, rows)))

    async def free_dependents(
        self, ended: Sequence[JobId], met: Sequence[int], limit: int
    ) -> int | None:
        ids = json_array(ended)
        waiting, freed = self.values(COUNT_WAITS, (json_array(met), ids, limit + 1))
        if waiting > limit or freed < waiting:
            return None
        if waiting:
            self.run(UNBLOCK, (ids,))
            self.run(FORGET_WAITS, (ids,))
        return int(waiting)


def bound(value: Argument) -> Value:
    """As the driver takes it; bytes in a list as text, see `Dialect.in_list`."""
    if not isinstance(value, tuple):
        return value
    return json_array(one.hex() if isinstance(one, bytes) else one for one in value)


def json_array(values: Iterable[Any]) -> str:
    """A JSON array for `json_each`."""
    return msgspec.json.encode(list(values)).decode()


def with_bound_rows(sql: str, rows: Sequence[Row]) -> Iterator[tuple[str, list[Value]]]:
    if not rows:
        return
    width = len(rows[0])
    counts = row_counts(sql, width)
    largest = counts[-1]
    for start in range(0, len(rows), largest):
        part = rows[start : start + largest]
        count = next(size for size in counts if size >= len(part))
        values = list(chain.from_iterable(part))
        values += [None] * (width * (count - len(part)))
        yield with_rows(sql, width, count), values


@cache
def row_counts(sql: str, width: int) -> tuple[int, ...]:
    """The sizes in which the statement can be kept prepared."""
    fits = [count for count in ROW_COUNTS if len(with_rows(sql, width, count)) <= TEXT_MAX]
    return tuple(fits or ROW_COUNTS[:1])


@cache
def with_rows(sql: str, width: int, count: int) -> str:
    """Short, since the driver reads the whole text each time to find its prepared statement."""
    row = f"({','.join('?' * width)})"
    text = "\n".join(line.strip() for line in sql.splitlines())
    return text.replace(":rows", f"(VALUES {','.join([row] * count)})")


def in_thread(
    verb: Callable[Concatenate[Transaction, P], Answer],
) -> Callable[Concatenate[Transaction, P], Awaitable[Answer]]:
    """Wraps a plain function as the coroutine that `finish` runs."""

    async def run(transaction: Transaction, /, *args: P.args, **options: P.kwargs) -> Answer:
        return verb(transaction, *args, **options)

    return run


def finish(work: Awaitable[Answer]) -> Answer:
    """The result of `work`, a coroutine that never suspends."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    steps.close()
    raise AssertionError("a verb waited in the store's thread")
