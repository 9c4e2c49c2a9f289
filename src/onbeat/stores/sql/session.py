"""A transaction of any database, for verbs that are written once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.sql.dialect import Argument, Columns, Dialect, Row
from onbeat.stores.sql.forms import Forms

T = TypeVar("T")
P = ParamSpec("P")
Answer = TypeVar("Answer")
Verb = Callable[Concatenate[T, P], Awaitable[Answer]]
Work = Callable[[T], Awaitable[Answer]]
"""A verb bound to its arguments."""


class Session(Protocol):
    """Statements use the form of `sql.dialect`."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def forms(self) -> Forms: ...

    @property
    def hints(self) -> set[Hint]:
        """The hints that listeners receive after the commit."""
        ...

    async def execute(self, sql: str, *values: Argument) -> int:
        """Returns the number of rows changed; rows that already had the values do not count."""
        ...

    async def select(self, columns: str, rest: str, *values: Argument) -> Sequence[Sequence[Any]]:
        """`SELECT columns rest`. `columns` are plain names, separated by commas."""
        ...

    async def select_each(
        self, columns: str, rest: str, values: Columns, rows: Sequence[Row]
    ) -> Sequence[Sequence[Any]]:
        """`SELECT columns rest` for each of `rows`, whose values are `params.name` in `rest`."""
        ...

    async def insert_rows(
        self, table: str, columns: Columns, rows: Sequence[Row], ending: str = ""
    ) -> int:
        """Insert the rows in order, in few statements. Returns the number of inserted rows."""
        ...

    async def delete_rows(self, table: str, key: Columns, rows: Sequence[Sequence[Any]]) -> int:
        """Delete rows by key; each of `rows` has the values of one key. Returns how many."""
        ...

    async def update_rows(
        self, table: str, key: Columns, columns: Columns, rows: Sequence[Sequence[Any]]
    ) -> None:
        """Update rows by key; each of `rows` has the key, then the new values of `columns`."""
        ...

    async def free_dependents(
        self, ended: Sequence[JobId], met: Sequence[int], limit: int, /
    ) -> int | None:
        """Unblock all dependents of ended jobs, which are locked, in a few statements.

        Returns how many waits were met and deleted. None, with nothing changed, if there are more
        than `limit`, if some want another end than those in `met`, which are values of the column
        `wanted`, or if the database has no fast way to do this.
        """
        ...


def bind_verb(verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Work[T, Answer]:
    def work(transaction: T) -> Awaitable[Answer]:
        return verb(transaction, *args, **options)

    return work
