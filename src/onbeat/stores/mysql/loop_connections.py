"""The connections of one event loop, and its batched writes."""

import asyncio
import inspect
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence

from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.mysql import enqueue, leases, settle
from onbeat.stores.mysql.connection import LOCK_SECONDS, Database, Dsn, MysqlDriver
from onbeat.stores.mysql.enqueue import KEYS
from onbeat.stores.mysql.hints import Hints, HintSender, count_changes
from onbeat.stores.mysql.ready_lists import ReadyList, group_prefix
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql import loop_connections
from onbeat.stores.sql.pool import Pool
from onbeat.stores.sql.session import Answer, Work
from onbeat.stores.sql.verbs.enqueue import NewJob, until_stored
from onbeat.stores.sql.verbs.events import publish

LOOK_SECONDS = 0.05  # how often to check whether another loop still runs


class LoopConnections(loop_connections.LoopConnections[Database, Transaction]):
    keys = KEYS
    keyed_max = 100  # requests with keys in one transaction, each with a few jobs
    tries_max = 10
    losses_max = 3  # an idle connection may have died, and the next one too
    pause_seconds = 0.01
    lock_seconds = LOCK_SECONDS
    begin_snapshot = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",  # for the next transaction only
        "START TRANSACTION READ ONLY",
    )

    def __init__(self, dsn: Dsn, hints: Hints, pool_max: int) -> None:
        super().__init__(MysqlDriver(dsn), pool_max)
        self._loop = weakref.ref(asyncio.get_running_loop())
        self._end: AsyncGenerator[None, None] | None = None
        self._hints = hints
        self._hint_sender = HintSender(self._send_hints)
        self.ready_lists: frozenset[str] = frozenset()  # of the last claim
        self._starts: dict[str, Sequence[str]] = {}  # start keys of `find_groups`, by ready list
        self.enqueue = self._batch(self._enqueue)
        self.settle = self._batch_verb(self.transact, settle.settle)
        self.note_progress = self._batch_verb(self.transact, settle.note_progress, flights_max=1)
        self.start = self._batch_verb(self.transact, leases.start)
        self.publish = self._batch_verb(self.transact, publish)

    def _transaction(self, connection: Database) -> Transaction:
        return Transaction(connection)

    def _announce(self, transaction: Transaction) -> None:
        self._hints.notify(transaction.hints)
        self._hint_sender.send(transaction.hints)

    async def _with_retries(
        self,
        run: Callable[[Pool[Database], Work[Transaction, Answer]], Awaitable[Answer]],
        pool: Pool[Database],
        work: Work[Transaction, Answer],
    ) -> Answer:
        if self._end is None:
            self._end = self._close_at_end()
            await anext(self._end)
        return await super()._with_retries(run, pool, work)

    async def close(self) -> None:
        """Finish all begun work. May be called from another loop while this one runs."""
        loop = self._loop()
        if loop is asyncio.get_running_loop():
            await self._close()
        elif loop is not None:
            await run_in_loop(loop, self._close())

    async def _close(self) -> None:
        await self._drain()
        await self._hint_sender.wait_until_sent()
        if self._end is not None:
            await self._end.aclose()

    async def _close_at_end(self) -> AsyncGenerator[None, None]:
        """Close the connections when the loop ends, as a loop closes its async generators."""
        try:
            yield
        finally:
            self._end = None  # the generator refers to the loop, which must not be kept alive
            await self._close_pools()

    async def _send_hints(self, hints: Collection[Hint]) -> None:
        async with self._pool.borrow() as db:
            await count_changes(Transaction(db), hints)

    def remember_ready_lists(self, ready_lists: Collection[ReadyList]) -> None:
        self.ready_lists = frozenset(line.text for line in ready_lists)
        self._starts = {text: self._starts[text] for text in self.ready_lists & self._starts.keys()}

    def remember_starts(self, ready_lists: Collection[ReadyList], starts: Collection[str]) -> None:
        for line in ready_lists:
            prefix = group_prefix(line)
            self._starts[line.text] = [start for start in starts if start.startswith(prefix)]

    def starts_of(self, ready_lists: Collection[ReadyList]) -> list[str]:
        return [start for line in ready_lists for start in self._starts.get(line.text, ())]

    async def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        return await until_stored(lambda: self.transact(enqueue.enqueue, jobs), self.tries_max)


async def run_in_loop(
    loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, None]
) -> None:
    """Run a coroutine in another loop. Returns when it is done or that loop has stopped."""
    try:
        there = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:  # the loop is closed
        work.close()
        return
    here = asyncio.wrap_future(there)
    while not here.done() and loop.is_running():
        await asyncio.wait([here], timeout=LOOK_SECONDS)
    if here.done() and not here.cancelled():
        here.result()
    elif inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()
