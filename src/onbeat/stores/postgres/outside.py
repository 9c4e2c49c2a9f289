"""New jobs on a connection of the caller's, in the caller's transaction."""

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from onbeat.model.errors import Unavailable
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued
from onbeat.stores.postgres.connection import Database
from onbeat.stores.postgres.enqueue import enqueue_plain, new_job
from onbeat.stores.postgres.place import read_place
from onbeat.stores.postgres.transaction import Transaction

TRIES_MAX: Final = 6
TABLE: Final = re.compile(r"\b(INTO|FROM) (jobs|finished|schedules)\b")


class Connection(Protocol):
    """Marks are $1, $2 and so on; a sequence is an array."""

    async def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Answers with the number of rows added, or -1 where the driver does not know."""
        ...

    async def fetch(self, sql: str, values: Sequence[Any]) -> Sequence[Any]: ...


class Borrowed:
    """The caller's connection, as the store's verbs use one of their own.

    It finds tables by a path of its own, so that ours are named with their schema.
    """

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def execute(self, query: str, *values: Any) -> str:
        return f"INSERT 0 {await self._connection.execute(self._at_home(query), values)}"

    async def fetch(self, query: str, *values: Any) -> Sequence[Any]:
        return await self._connection.fetch(self._at_home(query), values)

    def _at_home(self, sql: str) -> str:
        return TABLE.sub(rf'\1 "{self._schema}".\2', sql)


async def enqueue(connection: Connection, url: str, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """As the store's own, which neither begins nor commits."""
    borrowed = Borrowed(connection, read_place(url).schema)
    transaction = Transaction(cast("Database", borrowed))
    rows = list(map(new_job, jobs))
    for _ in range(TRIES_MAX):
        answers = await enqueue_plain(transaction, rows)
        stored = [answer for answer in answers if answer is not None]
        # A job that held a key has ended since; what was stored answers as before.
        if len(stored) == len(answers):
            return stored
    raise Unavailable("a unique key is taken and freed again too fast; try again")
