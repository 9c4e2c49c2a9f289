"""One event loop's way to the database: its connections, and what it writes together."""

import asyncio
import inspect
import random
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import TypeVar

from onbeat.model.errors import Unavailable
from onbeat.model.job import Job
from onbeat.model.plan import Plan
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.mysql import enqueue, leases, planning, settle
from onbeat.stores.mysql.faults import is_lost, is_repeated, refusal
from onbeat.stores.mysql.hints import Bell, Hints, count_changes
from onbeat.stores.mysql.lines import Line, group_prefix
from onbeat.stores.mysql.place import Place
from onbeat.stores.mysql.pool import Pool, pool_of
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.gatherer import Gatherer

TRIES_MAX = 10
LOST_MAX = 3  # a connection may have died idle, and so may the next
PAUSE_SECONDS = 0.01
LOOK_SECONDS = 0.05  # how often to see whether another loop still runs

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
Verb = Callable[[Transaction, Argument], Awaitable[Answer]]


class Site:
    def __init__(self, place: Place, hints: Hints, pool_max: int) -> None:
        self._loop = weakref.ref(asyncio.get_running_loop())
        self.lines: frozenset[str] = frozenset()  # as the last claim found them
        self._starts: dict[str, Sequence[str]] = {}  # of the looks for groups of each of them
        self._place = place
        self._hints = hints
        self._pool = pool_of(place, pool_max)
        self._beats = pool_of(place, 1)
        self._bell = Bell(self._ring)
        self._end: AsyncGenerator[None, None] | None = None
        self.enqueue = Gatherer(self._enqueue)
        self.settle = Gatherer(self._settle)
        self.note_progress = Gatherer(self._note_progress, flights_max=1)
        self.start = Gatherer(self._start)
        self.apply_plans = Gatherer(self._apply_plans, flights_max=1)

    def remember_lines(self, lines: Collection[Line]) -> None:
        self.lines = frozenset(line.text for line in lines)
        self._starts = {text: self._starts[text] for text in self.lines & self._starts.keys()}

    def remember_starts(self, lines: Collection[Line], starts: Collection[str]) -> None:
        for line in lines:
            prefix = group_prefix(line)
            self._starts[line.text] = [one for one in starts if one.startswith(prefix)]

    def starts_of(self, lines: Collection[Line]) -> list[str]:
        return [start for line in lines for start in self._starts.get(line.text, ())]

    async def ask(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """Run it on a connection; each of its statements is a transaction by itself."""
        return await self._tried(self._ask, self._pool, run, argument)

    async def beat(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """As `ask`, on the connection that nothing else may keep busy."""
        return await self._tried(self._ask, self._beats, run, argument)

    async def transact(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """Run it in one transaction."""
        return await self._tried(self._transact, self._pool, run, argument)

    async def view(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """Run it on one view of all that is stored, which nothing changes meanwhile."""
        return await self._tried(self._view, self._pool, run, argument)

    async def close(self) -> None:
        """Finish what was begun. From another loop than its own, while that one runs."""
        loop = self._loop()
        if loop is asyncio.get_running_loop():
            await self._close()
        elif loop is not None:
            await run_there(loop, self._close())

    async def _close(self) -> None:
        for gatherer in (
            self.enqueue,
            self.settle,
            self.start,
            self.note_progress,
            self.apply_plans,
        ):
            await gatherer.landed()
        await self._bell.landed()
        if self._end is not None:
            await self._end.aclose()

    async def _close_at_end(self) -> AsyncGenerator[None, None]:
        """Let the connections go when the loop ends, which ends all that still generates."""
        try:
            yield
        finally:
            self._end = None  # it knows the loop, which is to be forgotten
            await self._beats.close()
            await self._pool.close()

    def _told(self, hints: set[Hint]) -> None:
        self._hints.tell(hints)
        self._bell.ring(hints)

    async def _ring(self, hints: Collection[Hint]) -> None:
        async with self._pool.lend() as db:
            await count_changes(Transaction(db), hints)

    async def _tried(
        self,
        work: Callable[[Pool, Verb[Argument, Answer], Argument], Awaitable[Answer]],
        pool: Pool,
        run: Verb[Argument, Answer],
        argument: Argument,
    ) -> Answer:
        """What was ended to let others go on is tried again; every verb may be repeated."""
        if self._end is None:
            self._end = self._close_at_end()
            await anext(self._end)
        lost = 0
        for number in range(1, TRIES_MAX + 1):
            try:
                return await work(pool, run, argument)
            except Exception as error:  # noqa: BLE001  what it is comes out below
                lost += is_lost(error)
                again = is_repeated(error) or (is_lost(error) and lost < LOST_MAX)
                if not again or number == TRIES_MAX:
                    answer = refusal(error, self._place.url)
                    raise answer from answer.__cause__
            await asyncio.sleep(PAUSE_SECONDS * number * random.random())  # noqa: S311  no secret
        raise AssertionError("the last try answers or raises")

    async def _ask(self, pool: Pool, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        async with pool.lend() as db:
            transaction = Transaction(db)
            answer = await run(transaction, argument)
        self._told(transaction.hints)
        return answer

    async def _view(self, pool: Pool, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        begin = (
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",  # of the next one only
            "START TRANSACTION READ ONLY",
        )
        return await self._transact(pool, run, argument, begin)

    async def _transact(
        self,
        pool: Pool,
        run: Verb[Argument, Answer],
        argument: Argument,
        begin: Sequence[str] = ("START TRANSACTION",),
    ) -> Answer:
        async with pool.lend() as db:
            transaction = Transaction(db)
            for statement in begin:
                await transaction.run(statement)
            try:
                answer = await run(transaction, argument)
                await transaction.run("COMMIT")
            except Exception as error:
                if db.connected and not is_lost(error):
                    await transaction.run("ROLLBACK")
                raise
        self._told(transaction.hints)
        return answer

    async def _enqueue(self, jobs: Sequence[enqueue.NewJob]) -> Sequence[Enqueued]:
        for _ in range(TRIES_MAX):
            answers = await self.transact(enqueue.enqueue, jobs)
            named = [answer for answer in answers if answer is not None]
            if len(named) == len(jobs):
                return named
            # A job that held a key has ended since; what was stored is found again.
        raise Unavailable("its unique key is taken and freed again too fast; try again")

    async def _settle(self, settlements: Sequence[settle.Settled]) -> Sequence[bool]:
        return await self.transact(settle.settle, settlements)

    async def _start(self, takeovers: Sequence[leases.Takeover]) -> Sequence[Job | None]:
        return await self.transact(leases.start, takeovers)

    async def _note_progress(self, notes: Sequence[settle.Note]) -> Sequence[bool]:
        return await self.transact(settle.note_progress, notes)

    async def _apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self.transact(planning.apply_plans, plans)


async def run_there(loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, None]) -> None:
    """Run it in another loop. Returns once it is done, or that loop has ended before it was."""
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
