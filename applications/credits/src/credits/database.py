"""What the business asks of a database: statements, and transactions around them.

Statements are written once, with `?` for values and a word in braces where SQLite and MariaDB
differ, such as `{lock}`; each database has its own `WORDS`.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

Row = tuple[Any, ...]


class Session(Protocol):
    """One connection. Outside a transaction each statement commits by itself."""

    async def run(self, sql: str, *values: object) -> int:
        """How many rows the statement has changed."""
        ...

    async def rows(self, sql: str, *values: object) -> Sequence[Row]: ...

    async def many(self, sql: str, values: Sequence[Row]) -> None:
        """Run the statement for each of `values`."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Commits at its end; an exception rolls back, and so does a killed process."""
        ...


class Database(Protocol):
    kind: str
    """The name of its folder of the schema."""

    def session(self) -> AbstractAsyncContextManager[Session]: ...


def open_database(url: str) -> Database:
    """The drivers are imported here: each installation needs but one."""
    if url.startswith("sqlite:///"):
        from credits.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqliteDatabase(url.removeprefix("sqlite:///"))
    from credits.mysql import MysqlDatabase  # noqa: PLC0415

    return MysqlDatabase(url)


def stamp(at: datetime) -> str:
    """An instant as both databases keep and compare it: UTC, to the microsecond.

    SQLite compares text, also with what others have written: a whole second has no fraction.
    """
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
