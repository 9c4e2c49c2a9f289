"""One event loop's way to the database: its connections, and what it writes together."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from onbeat.model.errors import Conflict, Unavailable
from onbeat.model.job import Job
from onbeat.model.plan import Plan
from onbeat.ports.store import Enqueued, Held, Hint
from onbeat.stores.postgres import bulk, enqueue, leases, planning, sending, settle
from onbeat.stores.postgres.faults import REPEAT, raise_refusal
from onbeat.stores.postgres.hints import Hints
from onbeat.stores.postgres.place import Place
from onbeat.stores.postgres.pool import Pool, pool_of
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.gatherer import Gatherer

TRIES_MAX = 6
PAUSE_SECONDS = 0.02
SENDERS_MAX = 50  # in one transaction: each may send thousands of jobs

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
Verb = Callable[[Transaction, Argument], Awaitable[Answer]]


class Site:
    def __init__(self, place: Place, hints: Hints, pool_max: int) -> None:
        self._place = place
        self._hints = hints
        self._pool = pool_of(place, pool_max)
        self._beats = pool_of(place, 1)
        self.is_apart = False  # whether the last claim met jobs that need `admission`
        self.crowded_claims = 0  # how many more claims shall reckon with other claimants
        self.enqueue = Gatherer(self._enqueue)
        self.start = Gatherer(self._start)
        self.settle = Gatherer(self._settle)
        self.renew = Gatherer(self._renew)
        self.send_from = Gatherer(self._send_from, batch_max=SENDERS_MAX)
        self.note_progress = Gatherer(self._note_progress)
        self.apply_plans = Gatherer(self._apply_plans, flights_max=1)

    async def ask(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """Run it on a connection; each of its statements is a transaction by itself."""
        return await self._tried(self._ask, self._pool, run, argument)

    async def beat(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """As `ask`, on the connection that nothing else may keep busy."""
        return await self._tried(self._ask, self._beats, run, argument)

    async def transact(self, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        """Run it in one transaction."""
        return await self._tried(self._transact, self._pool, run, argument)

    async def notify(self, channel: str, payload: str) -> None:
        """A notification is not worth a wait for the disk."""
        await self.ask(notify, (channel, payload))

    async def close(self) -> None:
        await self.enqueue.landed()
        await self.start.landed()
        await self.settle.landed()
        await self.renew.landed()
        await self.send_from.landed()
        await self.note_progress.landed()
        await self.apply_plans.landed()
        await self._beats.close()
        await self._pool.close()

    async def _tried(
        self,
        work: Callable[[Pool, Verb[Argument, Answer], Argument], Awaitable[Answer]],
        pool: Pool,
        run: Verb[Argument, Answer],
        argument: Argument,
    ) -> Answer:
        """What was ended to let others go on is tried again; every verb may be repeated."""
        for number in range(1, TRIES_MAX):
            try:
                return await work(pool, run, argument)
            except REPEAT:
                await asyncio.sleep(PAUSE_SECONDS * number * random.random())  # noqa: S311  no secret
            except Exception as error:  # noqa: BLE001  it is raised again as what it means
                raise_refusal(error, self._place.url)
        try:
            return await work(pool, run, argument)
        except Exception as error:  # noqa: BLE001  as above
            raise_refusal(error, self._place.url)

    async def _ask(self, pool: Pool, run: Verb[Argument, Answer], argument: Argument) -> Answer:
        async with pool.lend() as db:
            transaction = Transaction(db)
            answer = await run(transaction, argument)
        self._hints.tell(transaction.hints, transaction.noticed)
        return answer

    async def _transact(
        self, pool: Pool, run: Verb[Argument, Answer], argument: Argument
    ) -> Answer:
        async with pool.lend() as db:
            transaction = Transaction(db)
            await db.execute("BEGIN")
            try:
                answer = await run(transaction, argument)
                await db.execute("COMMIT")
            except Exception:
                if not db.is_closed():
                    await db.execute("ROLLBACK")
                raise
        self._hints.tell(transaction.hints, transaction.noticed)
        return answer

    async def _enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        """Most jobs are new and need no look at others."""
        if bulk.may_be_copied(jobs):
            adding = self.transact(bulk.copy_new, jobs)
            if await all_are_new(adding, len(jobs)):
                return [Enqueued(job.id, created=True) for job in jobs]
            return await self._enqueue_plain(list(map(enqueue.new_job, jobs)))
        new = list(map(enqueue.new_job, jobs))
        if any(job.looks_around for job in new):
            return await self.transact(enqueue.enqueue, new)
        if all(job.unique is None for job in new):
            notice = self._hints.notice(Hint.JOBS) if len(new) == 1 else None
            adding = self.ask(enqueue.enqueue_new, (new, notice))
            if await all_are_new(adding, len(jobs)):
                return [Enqueued(job.id, created=True) for job in jobs]
        return await self._enqueue_plain(new)

    async def _enqueue_plain(self, new: Sequence[enqueue.NewJob]) -> Sequence[Enqueued]:
        answers = await self.ask(enqueue.enqueue_plain, new)
        for _ in range(TRIES_MAX):
            if None not in answers:
                break
            # The job that held a key has ended since; what was stored answers as before.
            answers = await self.ask(enqueue.enqueue_plain, new)
        stored = [answer for answer in answers if answer is not None]
        if len(stored) < len(new):
            raise Unavailable("a unique key is taken and freed again too fast; try again")
        return stored

    async def _settle(self, settlements: Sequence[settle.Settled]) -> Sequence[bool]:
        answers = await self.ask(settle.end_plain, settlements)
        rest = [one for one, done in zip(settlements, answers, strict=True) if not done]
        if not rest:
            return answers
        others = iter(await self.transact(settle.settle, rest))
        return [done or next(others) for done in answers]

    async def _start(self, starts: Sequence[leases.Start]) -> Sequence[Job | None]:
        return await self.ask(leases.start, starts)

    async def _renew(self, renewals: Sequence[leases.Renewal]) -> Sequence[Held | None]:
        return await self.ask(leases.renew, renewals)

    async def _send_from(self, sendings: Sequence[sending.Sending]) -> Sequence[bool]:
        return await self.transact(sending.send_from, sendings)

    async def _note_progress(self, notes: Sequence[settle.Note]) -> Sequence[bool]:
        return await self.ask(settle.note_progress, notes)

    async def _apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self.transact(planning.apply_plans, plans)


async def all_are_new(adding: Awaitable[int], count: int) -> bool:
    """Whether so many jobs were added; where some exist already, none were."""
    try:
        return await adding == count
    except Conflict:
        return False


async def notify(transaction: Transaction, asked: tuple[str, str]) -> None:
    await transaction.rows(
        "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)", *asked
    )
