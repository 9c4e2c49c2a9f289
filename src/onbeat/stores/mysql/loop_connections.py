"""The connections of one event loop, and its batched writes."""

import asyncio
import inspect
import random
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from onbeat.model.errors import Unavailable
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.job import Job
from onbeat.model.plan import Plan
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.mysql import enqueue, idempotency, leases, settle
from onbeat.stores.mysql.connection import LOCK_SECONDS
from onbeat.stores.mysql.dsn import Dsn
from onbeat.stores.mysql.errors import LOCK_WAIT, code_of, is_lost, is_retryable, refusal
from onbeat.stores.mysql.hints import Hints, HintSender, count_changes
from onbeat.stores.mysql.pool import Pool, pool_of
from onbeat.stores.mysql.ready_lists import ReadyList, group_prefix
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.batcher import Batcher
from onbeat.stores.sql.verbs import plans as plan_verbs

TRIES_MAX = 10
LOST_MAX = 3  # an idle connection may have died, and the next one too
PAUSE_SECONDS = 0.01
KEYED_MAX = 100  # requests with keys in one transaction, each with a few jobs
LOOK_SECONDS = 0.05  # how often to check whether another loop still runs

P = ParamSpec("P")
Answer = TypeVar("Answer")
Verb = Callable[Concatenate[Transaction, P], Awaitable[Answer]]
Work = Callable[[Transaction], Awaitable[Answer]]
"""A verb bound to its arguments."""


class LoopConnections:
    def __init__(self, dsn: Dsn, hints: Hints, pool_max: int) -> None:
        self._loop = weakref.ref(asyncio.get_running_loop())
        self.ready_lists: frozenset[str] = frozenset()  # of the last claim
        self._starts: dict[str, Sequence[str]] = {}  # start keys of `find_groups`, by ready list
        self._place = dsn
        self._hints = hints
        self._pool = pool_of(dsn, pool_max)
        self._heartbeat_pool = pool_of(dsn, 1)
        self._hint_sender = HintSender(self._send_hints)
        self._end: AsyncGenerator[None, None] | None = None
        self.enqueue = Batcher(self._enqueue)
        self.enqueue_keyed = Batcher(self._enqueue_keyed, batch_max=KEYED_MAX)
        self.keyed_answers = Batcher(self._keyed_answers, batch_max=KEYED_MAX)
        self.settle = Batcher(self._settle)
        self.note_progress = Batcher(self._note_progress, flights_max=1)
        self.start = Batcher(self._start)
        self.apply_plans = Batcher(self._apply_plans, flights_max=1)

    def remember_ready_lists(self, ready_lists: Collection[ReadyList]) -> None:
        self.ready_lists = frozenset(line.text for line in ready_lists)
        self._starts = {text: self._starts[text] for text in self.ready_lists & self._starts.keys()}

    def remember_starts(self, ready_lists: Collection[ReadyList], starts: Collection[str]) -> None:
        for line in ready_lists:
            prefix = group_prefix(line)
            self._starts[line.text] = [start for start in starts if start.startswith(prefix)]

    def starts_of(self, ready_lists: Collection[ReadyList]) -> list[str]:
        return [start for line in ready_lists for start in self._starts.get(line.text, ())]

    async def run(self, verb: Verb[P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a verb on a connection; each of its statements is its own transaction."""
        return await self._with_retries(self._run, self._pool, bind_verb(verb, *args, **options))

    async def run_heartbeat(
        self, verb: Verb[P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """As `run`, on a connection reserved for heartbeats."""
        return await self._with_retries(
            self._run, self._heartbeat_pool, bind_verb(verb, *args, **options)
        )

    async def transact(self, verb: Verb[P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a verb in one transaction."""
        return await self._with_retries(
            self._transact, self._pool, bind_verb(verb, *args, **options)
        )

    async def write(
        self,
        keyed: KeyedRequest | None,
        verb: Verb[P, Answer],
        *args: P.args,
        **options: P.kwargs,
    ) -> Answer:
        """Run a verb in one transaction, with the idempotency key of its request if it has one."""
        work = bind_verb(verb, *args, **options)
        if keyed is None:
            return await self.transact(work)
        return await self.transact(idempotency.run_keyed, keyed, work)

    async def view(self, verb: Verb[P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a read-only verb on one snapshot of the store."""
        return await self._with_retries(self._view, self._pool, bind_verb(verb, *args, **options))

    async def close(self) -> None:
        """Finish all begun work. May be called from another loop while this one runs."""
        loop = self._loop()
        if loop is asyncio.get_running_loop():
            await self._close()
        elif loop is not None:
            await run_in_loop(loop, self._close())

    async def _close(self) -> None:
        for batcher in (
            self.enqueue,
            self.enqueue_keyed,
            self.keyed_answers,
            self.settle,
            self.start,
            self.note_progress,
            self.apply_plans,
        ):
            await batcher.drain()
        await self._hint_sender.wait_until_sent()
        if self._end is not None:
            await self._end.aclose()

    async def _close_at_end(self) -> AsyncGenerator[None, None]:
        """Close the connections when the loop ends, as a loop closes its async generators."""
        try:
            yield
        finally:
            self._end = None  # the generator refers to the loop, which must not be kept alive
            await self._heartbeat_pool.close()
            await self._pool.close()

    def _on_hints(self, hints: set[Hint]) -> None:
        self._hints.notify(hints)
        self._hint_sender.send(hints)

    async def _send_hints(self, hints: Collection[Hint]) -> None:
        async with self._pool.borrow() as db:
            await count_changes(Transaction(db), hints)

    async def _with_retries(
        self,
        run: Callable[[Pool, Work[Answer]], Awaitable[Answer]],
        pool: Pool,
        work: Work[Answer],
    ) -> Answer:
        """Retries work that lost a conflict with another transaction; every verb may be repeated.

        A lock wait that lasted the full `LOCK_SECONDS` is not retried.
        """
        if self._end is None:
            self._end = self._close_at_end()
            await anext(self._end)
        now = asyncio.get_running_loop().time
        patience_ends = now() + LOCK_SECONDS
        lost = 0
        for number in range(1, TRIES_MAX + 1):
            try:
                return await run(pool, work)
            except Exception as error:  # noqa: BLE001  classified below
                lost += is_lost(error)
                is_waited_out = code_of(error) == LOCK_WAIT and now() >= patience_ends
                again = is_retryable(error) or (is_lost(error) and lost < LOST_MAX)
                again = again and not is_waited_out
                if not again or number == TRIES_MAX:
                    answer = refusal(error, self._place.url)
                    raise answer from answer.__cause__
            await asyncio.sleep(PAUSE_SECONDS * number * random.random())  # noqa: S311  no secret
        raise AssertionError("the last try answers or raises")

    async def _run(self, pool: Pool, work: Work[Answer]) -> Answer:
        async with pool.borrow() as db:
            transaction = Transaction(db)
            answer = await work(transaction)
        self._on_hints(transaction.hints)
        return answer

    async def _view(self, pool: Pool, work: Work[Answer]) -> Answer:
        begin = (
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",  # for the next transaction only
            "START TRANSACTION READ ONLY",
        )
        return await self._transact(pool, work, begin)

    async def _transact(
        self,
        pool: Pool,
        work: Work[Answer],
        begin: Sequence[str] = ("START TRANSACTION",),
    ) -> Answer:
        async with pool.borrow() as db:
            transaction = Transaction(db)
            for statement in begin:
                await transaction.run(statement)
            try:
                answer = await work(transaction)
                await transaction.run("COMMIT")
            except Exception as error:
                if db.connected and not is_lost(error):
                    await transaction.run("ROLLBACK")
                raise
        self._on_hints(transaction.hints)
        return answer

    async def _enqueue(self, jobs: Sequence[enqueue.NewJob]) -> Sequence[Enqueued]:
        for _ in range(TRIES_MAX):
            answers = await self.transact(enqueue.enqueue, jobs)
            named = [answer for answer in answers if answer is not None]
            if len(named) == len(jobs):
                return named
            # A job that held a unique key has ended since. Repeating is harmless for the jobs
            # stored already.
        raise Unavailable("the unique key changes hands too often; try again")

    async def _keyed_answers(self, digests: Sequence[bytes]) -> Sequence[KeyedAnswer | None]:
        return await self.run(idempotency.keyed_answers, digests)

    async def _enqueue_keyed(
        self, request: Sequence[idempotency.KeyedJobs]
    ) -> Sequence[Sequence[Enqueued]]:
        return await self.transact(idempotency.enqueue_keyed, request)

    async def _settle(self, settlements: Sequence[settle.PreparedSettlement]) -> Sequence[bool]:
        return await self.transact(settle.settle, settlements)

    async def _start(self, takeovers: Sequence[leases.Takeover]) -> Sequence[Job | None]:
        return await self.transact(leases.start, takeovers)

    async def _note_progress(self, notes: Sequence[settle.Note]) -> Sequence[bool]:
        return await self.transact(settle.note_progress, notes)

    async def _apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self.transact(plan_verbs.apply_plans, plans)


def bind_verb(verb: Verb[P, Answer], *args: P.args, **options: P.kwargs) -> Work[Answer]:
    def work(transaction: Transaction) -> Awaitable[Answer]:
        return verb(transaction, *args, **options)

    return work


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
