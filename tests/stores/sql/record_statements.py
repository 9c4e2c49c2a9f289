"""Records the statements that `stores.sql` composes, as the drivers get them."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec
import pytest

import onbeat.stores
from onbeat.stores.mysql.transaction import Transaction as MysqlTransaction
from onbeat.stores.postgres.transaction import Transaction as PostgresTransaction
from onbeat.stores.sqlite.transaction import Transaction as SqliteTransaction

STORES: Final = Path(onbeat.stores.__file__).parent
METHODS: Final = frozenset(
    {"execute", "select", "select_each", "insert_rows", "update_rows", "delete_rows"}
)
"""Those of `Session`."""
HELPERS: Final = frozenset(
    {
        "count_by",
        "delete_by_id",
        "select_dead_letters",
        "select_dispositions",
        "select_events",
        "select_first",
        "select_schedules",
    }
)
"""Functions of verbs that run the statement of their caller."""
SENT_BY: Final[dict[type[Any], Sequence[str]]] = {
    SqliteTransaction: ["_execute"],
    PostgresTransaction: ["run", "rows"],
    MysqlTransaction: ["run", "rows", "insert", "run_each"],
}
"""The methods of each transaction through which every statement goes to the driver."""
ROWS: Final = re.compile(r"\(VALUES (\([?,]+\))(,\1)*\)")


class Statement(msgspec.Struct, frozen=True, order=True):
    """`verb` is the function that composes it."""

    verb: str
    text: str


class Recording:
    """`lines` are the places in the source that called a method of `Session`."""

    def __init__(self) -> None:
        self.statements: set[Statement] = set()
        self.lines: set[tuple[str, int]] = set()

    def watch(self, kind: type[Any], patch: pytest.MonkeyPatch) -> None:
        for name in SENT_BY[kind]:
            patch.setattr(kind, name, self._recorded(getattr(kind, name)))

    def _recorded(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def run(transaction: Any, sql: str, *values: Any) -> Any:
            self._note(sql, list(callers(sys._getframe(1))))
            return send(transaction, sql, *values)

        def run_rows(transaction: Any, sql: str, rows: Iterable[Any]) -> Any:
            """Without rows nothing is sent."""
            values = list(rows)
            return run(transaction, sql, values) if values else send(transaction, sql, values)

        return run_rows if send.__name__ in ("insert", "run_each") else run

    def _note(self, sql: str, frames: Sequence[FrameType]) -> None:
        """Statements that a store has written itself do not come from a method of `Session`."""
        depth = next((at for at, one in enumerate(frames) if is_session_method(one)), None)
        if depth is None:
            return
        caller = frames[depth + 1]
        self.lines.add((place_of(caller), caller.f_lineno))
        composer = next(one for one in frames[depth + 1 :] if one.f_code.co_name not in HELPERS)
        verb = f"{place_of(composer)} {composer.f_code.co_name}"
        self.statements.add(Statement(verb, without_counts(sql)))


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_session_method(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name in METHODS and place_of(frame).endswith("/transaction.py")


def place_of(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return path.relative_to(STORES).as_posix() if path.is_relative_to(STORES) else path.name


def without_counts(sql: str) -> str:
    """The statement for one row, without empty lines."""
    first, *others = sql.split(" UNION ALL ")
    if others and set(others) == {first}:
        sql = first
    return "\n".join(filter(None, ROWS.sub(r"(VALUES \1)", sql).splitlines()))
