"""New jobs and ended ones on a connection of the caller's, in the caller's transaction."""

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from onbeat.model.errors import Invalid, LeaseLost, Unavailable
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Settlement
from onbeat.stores.postgres import settle as ended_jobs
from onbeat.stores.postgres.connection import Database
from onbeat.stores.postgres.enqueue import enqueue_plain, new_job
from onbeat.stores.postgres.place import read_place
from onbeat.stores.postgres.transaction import Transaction

TRIES_MAX: Final = 6
TABLES: Final = (
    "jobs|finished|waits|attempts|transitions|schedules|dispositions|queues|meters|turns"
    "|dead_letters"
)
TABLE: Final = re.compile(rf"\b(INTO|FROM|USING|UPDATE|JOIN) ({TABLES})\b")


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

    async def fetchval(self, query: str, *values: Any) -> Any:
        rows = await self.fetch(query, *values)
        return rows[0][0] if rows else None

    def _at_home(self, sql: str) -> str:
        return TABLE.sub(rf'\1 "{self._schema}".\2', sql)


def borrowed(connection: Connection, url: str) -> Transaction:
    return Transaction(cast("Database", Borrowed(connection, read_place(url).schema)))


async def enqueue(connection: Connection, url: str, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """As the store's own, which neither begins nor commits."""
    transaction = borrowed(connection, url)
    rows = list(map(new_job, jobs))
    for _ in range(TRIES_MAX):
        answers = await enqueue_plain(transaction, rows)
        stored = [answer for answer in answers if answer is not None]
        # A job that held a key has ended since; what was stored answers as before.
        if len(stored) == len(answers):
            return stored
    raise Unavailable("a unique key is taken and freed again too fast; try again")


async def settle(connection: Connection, url: str, settlement: Settlement) -> None:
    """As the store's own, which neither begins nor commits.

    Raises `LeaseLost`, and `Invalid` where no transaction is open.
    """
    transaction = borrowed(connection, url)
    await refuse_no_transaction(transaction)
    (was_ours,) = await ended_jobs.settle(transaction, [ended_jobs.settled(settlement)])
    if not was_ours:
        raise LeaseLost


async def refuse_no_transaction(transaction: Transaction) -> None:
    """A number that a transaction was given is gone with the next statement where none is open."""
    await transaction.value("SELECT txid_current()")
    if await transaction.value("SELECT txid_current_if_assigned()") is None:
        raise Invalid("the connection is in no transaction; begin one", field="connection")
