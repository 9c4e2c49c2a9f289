"""A connection inside a transaction, with the few ways in which the verbs use it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import apsw
import msgspec

from onbeat.ports.store import Hint

Value = None | int | float | str
Bindings = Sequence[Value] | Mapping[str, Value]
Row = tuple[Value, ...]

# Statements with many rows come in these sizes, short rows padded with NULLs, so that each is
# prepared once. Beyond 256 rows the text would be too long for the driver's cache of statements.
ROW_COUNTS = (1, 4, 16, 64, 256)


class Transaction:
    """`hints` gathers what listeners shall hear once it is committed."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.hints: set[Hint] = set()

    def begin(self, kind: str) -> None:
        self._execute(f"BEGIN {kind}")

    def commit(self) -> None:
        self._execute("COMMIT")

    def end(self) -> None:
        """Undo what was not committed."""
        if self.db.in_transaction:
            self._execute("ROLLBACK")

    def run(self, sql: str, bindings: Bindings = ()) -> int:
        """Answers with the number of rows changed."""
        self._execute(sql, bindings)
        return self.db.changes()

    def run_rows(self, sql: str, rows: Sequence[Row]) -> int:
        """`sql` with `:rows` standing for VALUES; its reader skips rows whose `column1` is NULL."""
        return sum(self.run(text, values) for text, values in spread(sql, rows))

    def value(self, sql: str, bindings: Bindings = ()) -> Any:
        """The first column of the first row; None without one."""
        row = self._execute(sql, bindings).fetchone()
        return None if row is None else row[0]

    def _execute(self, sql: str, bindings: Bindings = ()) -> apsw.Cursor:
        return self.db.execute(sql, bindings)  # pyright: ignore[reportUnknownMemberType]  stubs

    def values(self, sql: str, bindings: Bindings = ()) -> list[Any]:
        """A JSON array that the statement puts together, decoded.

        One row with everything in it rather than many rows: the driver gives up the interpreter
        at every row, and beside a busy event loop each time may cost a switch interval of 5 ms.
        """
        text = self.value(sql, bindings)
        return msgspec.json.decode(text) if text else []


def listed(values: Iterable[Any]) -> str:
    """As a JSON array, for `json_each`."""
    return msgspec.json.encode(list(values)).decode()


def spread(sql: str, rows: Sequence[Row]) -> Iterator[tuple[str, list[Value]]]:
    largest = ROW_COUNTS[-1]
    for start in range(0, len(rows), largest):
        part = rows[start : start + largest]
        width = len(part[0])
        count = next(size for size in ROW_COUNTS if size >= len(part))
        values = list(chain.from_iterable(part))
        values += [None] * (width * (count - len(part)))
        yield with_rows(sql, width, count), values


@cache
def with_rows(sql: str, width: int, count: int) -> str:
    """Short, since the driver reads the whole text each time to find what it has prepared."""
    row = f"({','.join('?' * width)})"
    text = "\n".join(line.strip() for line in sql.splitlines())
    return text.replace(":rows", f"(VALUES {','.join([row] * count)})")
