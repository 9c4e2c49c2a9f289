"""The connections of one event loop to a database server, and how verbs run on them."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Progress
from onbeat.ports.store import Enqueued
from onbeat.stores.sql.batcher import BATCH_MAX, FLIGHTS_MAX, Batcher
from onbeat.stores.sql.dialect import Row
from onbeat.stores.sql.pool import Connection, Driver, Pool
from onbeat.stores.sql.session import Answer, P, Session, Verb, Work, bind_verb
from onbeat.stores.sql.verbs.idempotency import (
    KeyedJobs,
    KeyVerbs,
    enqueue_keyed,
    keyed_answers,
)
from onbeat.stores.sql.verbs.plans import apply_plans

T = TypeVar("T", bound=Session)
Item = TypeVar("Item")


class LoopConnections(ABC, Generic[Connection, T]):
    """Work is tried `tries_max` times; every verb may be repeated.

    Work on lost connections is tried `losses_max` times. Work that waited for a lock for all of
    `lock_seconds` is not tried again.
    """

    keys: ClassVar[KeyVerbs[Any, Any]]
    keyed_max: ClassVar[int]
    tries_max: ClassVar[int]
    losses_max: ClassVar[int] = 1
    pause_seconds: ClassVar[float]
    lock_seconds: ClassVar[float]
    begin_snapshot: ClassVar[Sequence[str]]

    note_progress: Batcher[tuple[JobId, Token, Progress], bool]
    publish: Batcher[Row, bool]

    def __init__(self, driver: Driver[Connection], pool_max: int) -> None:
        self._driver = driver
        self._pool = Pool(driver, pool_max)
        self._heartbeat_pool = Pool(driver, 1)
        self._batchers: list[Batcher[Any, Any]] = []
        self.apply_plans = self._batch_verb(self.transact, apply_plans, flights_max=1)
        self.enqueue_keyed = self._batch(self._enqueue_keyed, batch_max=self.keyed_max)
        self.keyed_answers = self._batch_verb(self.run, keyed_answers, batch_max=self.keyed_max)

    @abstractmethod
    def _transaction(self, connection: Connection) -> T: ...

    @abstractmethod
    def _announce(self, transaction: T) -> None:
        """Notify the listeners after a commit."""

    async def run(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a verb on a connection; each of its statements is its own transaction."""
        return await self._with_retries(self._run, self._pool, bind_verb(verb, *args, **options))

    async def run_heartbeat(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """As `run`, on a connection reserved for heartbeats."""
        work = bind_verb(verb, *args, **options)
        return await self._with_retries(self._run, self._heartbeat_pool, work)

    async def transact(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """Run a verb in one transaction."""
        work = bind_verb(verb, *args, **options)
        return await self._with_retries(self._transact, self._pool, work)

    async def view(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a read-only verb on one snapshot of the store."""
        return await self._with_retries(self._view, self._pool, bind_verb(verb, *args, **options))

    async def close(self) -> None:
        """Finish all begun work, and close the connections."""
        await self._drain()
        await self._close_pools()

    async def _drain(self) -> None:
        for batcher in self._batchers:
            await batcher.drain()

    async def _close_pools(self) -> None:
        await self._heartbeat_pool.close()
        await self._pool.close()

    def _batch(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        flights_max: int = FLIGHTS_MAX,
        batch_max: int = BATCH_MAX,
    ) -> Batcher[Item, Answer]:
        """A batcher that `close` drains."""
        batcher = Batcher(write, flights_max=flights_max, batch_max=batch_max)
        self._batchers.append(batcher)
        return batcher

    def _batch_verb(
        self,
        run: Callable[..., Awaitable[Any]],
        verb: Callable[[T, Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        flights_max: int = FLIGHTS_MAX,
        batch_max: int = BATCH_MAX,
    ) -> Batcher[Item, Answer]:
        """A batcher that passes its rows to the verb; `run` is `self.run` or `self.transact`."""

        async def write(items: Sequence[Item]) -> Sequence[Answer]:
            answers: Sequence[Answer] = await run(verb, items)
            return answers

        return self._batch(write, flights_max=flights_max, batch_max=batch_max)

    async def _enqueue_keyed(
        self, requests: Sequence[KeyedJobs[Any]]
    ) -> Sequence[Sequence[Enqueued] | None]:
        return await self.transact(enqueue_keyed, self.keys, requests)

    async def _with_retries(
        self,
        run: Callable[[Pool[Connection], Work[T, Answer]], Awaitable[Answer]],
        pool: Pool[Connection],
        work: Work[T, Answer],
    ) -> Answer:
        now = asyncio.get_running_loop().time
        patience_ends = now() + self.lock_seconds
        losses = 0
        for number in range(1, self.tries_max + 1):
            try:
                return await run(pool, work)
            except Exception as error:  # noqa: BLE001  raised again as an error of the store
                losses += self._driver.is_lost(error)
                waited = self._driver.is_lock_wait(error) and now() >= patience_ends
                if number == self.tries_max or waited or not self._may_retry(error, losses):
                    refusal = self._driver.refusal(error)
                    raise refusal from refusal.__cause__
            await asyncio.sleep(self.pause_seconds * number * random.random())  # noqa: S311  no secret
        raise AssertionError("the last try answers or raises")

    def _may_retry(self, error: Exception, losses: int) -> bool:
        if self._driver.is_lost(error):
            return losses < self.losses_max
        return self._driver.is_conflict(error)

    async def _run(self, pool: Pool[Connection], work: Work[T, Answer]) -> Answer:
        async with pool.borrow() as connection:
            transaction = self._transaction(connection)
            answer = await work(transaction)
        self._announce(transaction)
        return answer

    async def _view(self, pool: Pool[Connection], work: Work[T, Answer]) -> Answer:
        return await self._transact(pool, work, self.begin_snapshot)

    async def _transact(
        self,
        pool: Pool[Connection],
        work: Work[T, Answer],
        begin: Sequence[str] = ("BEGIN",),
    ) -> Answer:
        driver = self._driver
        async with pool.borrow() as connection:
            transaction = self._transaction(connection)
            for statement in begin:
                await driver.execute(connection, statement)
            try:
                answer = await work(transaction)
                await driver.execute(connection, "COMMIT")
            except Exception as error:
                if driver.is_open(connection) and not driver.is_lost(error):
                    await driver.execute(connection, "ROLLBACK")
                raise
        self._announce(transaction)
        return answer
