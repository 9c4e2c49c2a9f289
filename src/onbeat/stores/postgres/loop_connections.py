"""The connections of one event loop, and its batched writes."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

import asyncpg

from onbeat.model.errors import Conflict, Unavailable
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.job import Job
from onbeat.model.plan import Plan
from onbeat.ports.store import Enqueued, HeldLease, Hint
from onbeat.stores.postgres import bulk, enqueue, idempotency, leases, settle
from onbeat.stores.postgres.connection import LOCK_SECONDS
from onbeat.stores.postgres.dsn import Dsn
from onbeat.stores.postgres.errors import REPEAT, raise_refusal
from onbeat.stores.postgres.hints import Hints
from onbeat.stores.postgres.pool import Pool, pool_of
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.batcher import Batcher
from onbeat.stores.sql.verbs import plans as plan_verbs
from onbeat.stores.sql.verbs.fan_out import FanOutBatch

TRIES_MAX = 6
PAUSE_SECONDS = 0.02
KEYED_MAX = 500  # requests with keys in one transaction, each with a few jobs
SENDERS_MAX = 50  # in one transaction: each may send thousands of jobs

P = ParamSpec("P")
Answer = TypeVar("Answer")
Verb = Callable[Concatenate[Transaction, P], Awaitable[Answer]]
Work = Callable[[Transaction], Awaitable[Answer]]
"""A verb bound to its arguments."""


class LoopConnections:
    def __init__(self, dsn: Dsn, hints: Hints, pool_max: int) -> None:
        self._place = dsn
        self._hints = hints
        self._pool = pool_of(dsn, pool_max)
        self._heartbeat_pool = pool_of(dsn, 1)
        self.needs_limits = False  # whether the last claim met jobs that need `limits.claim`
        self.contended_claims = 0  # how many more claims take locks against other claimants
        self.enqueue = Batcher(self._enqueue)
        self.enqueue_keyed = Batcher(self._enqueue_keyed, batch_max=KEYED_MAX)
        self.keyed_answers = Batcher(self._keyed_answers, batch_max=KEYED_MAX)
        self.start = Batcher(self._start)
        self.settle = Batcher(self._settle)
        self.renew = Batcher(self._renew)
        self.send_from = Batcher(self._send_from, batch_max=SENDERS_MAX)
        self.note_progress = Batcher(self._note_progress)
        self.apply_plans = Batcher(self._apply_plans, flights_max=1)

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

    async def notify(self, channel: str, payload: str) -> None:
        """Send a NOTIFY without waiting for the disk."""
        await self.run(notify, channel, payload)

    async def close(self) -> None:
        await self.enqueue.drain()
        await self.enqueue_keyed.drain()
        await self.keyed_answers.drain()
        await self.start.drain()
        await self.settle.drain()
        await self.renew.drain()
        await self.send_from.drain()
        await self.note_progress.drain()
        await self.apply_plans.drain()
        await self._heartbeat_pool.close()
        await self._pool.close()

    async def _with_retries(
        self,
        run: Callable[[Pool, Work[Answer]], Awaitable[Answer]],
        pool: Pool,
        work: Work[Answer],
    ) -> Answer:
        """Retries work that lost a conflict with another transaction; every verb may be repeated.

        A lock wait that lasted the full `LOCK_SECONDS` is not retried.
        """
        now = asyncio.get_running_loop().time
        patience_ends = now() + LOCK_SECONDS
        for number in range(1, TRIES_MAX):
            try:
                return await run(pool, work)
            except REPEAT as error:
                if isinstance(error, asyncpg.LockNotAvailableError) and now() >= patience_ends:
                    raise_refusal(error, self._place.url)
                await asyncio.sleep(PAUSE_SECONDS * number * random.random())  # noqa: S311  no secret
            except Exception as error:  # noqa: BLE001  raised again as an error of the store
                raise_refusal(error, self._place.url)
        try:
            return await run(pool, work)
        except Exception as error:  # noqa: BLE001  as above
            raise_refusal(error, self._place.url)

    async def _run(self, pool: Pool, work: Work[Answer]) -> Answer:
        async with pool.borrow() as db:
            transaction = Transaction(db)
            answer = await work(transaction)
        self._hints.notify(transaction.hints, transaction.noticed)
        return answer

    async def _view(self, pool: Pool, work: Work[Answer]) -> Answer:
        return await self._transact(pool, work, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    async def _transact(self, pool: Pool, work: Work[Answer], begin: str = "BEGIN") -> Answer:
        async with pool.borrow() as db:
            transaction = Transaction(db)
            await db.execute(begin)
            try:
                answer = await work(transaction)
                await db.execute("COMMIT")
            except Exception:
                if not db.is_closed():
                    await db.execute("ROLLBACK")
                raise
        self._hints.notify(transaction.hints, transaction.noticed)
        return answer

    async def _enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        """First try the fast paths: most jobs are new and independent of others."""
        if bulk.may_be_copied(jobs):
            adding = self.transact(bulk.copy_new, jobs)
            if await all_are_new(adding, len(jobs)):
                return [Enqueued(job.id, created=True) for job in jobs]
            return await self._enqueue_plain(list(map(enqueue.new_job, jobs)))
        new = list(map(enqueue.new_job, jobs))
        if any(job.needs_locks for job in new):
            return await self.transact(enqueue.enqueue, new)
        if all(job.unique is None for job in new):
            notice = self._hints.notice(Hint.JOBS) if len(new) == 1 else None
            adding = self.run(enqueue.enqueue_new, new, notice)
            if await all_are_new(adding, len(jobs)):
                return [Enqueued(job.id, created=True) for job in jobs]
        return await self._enqueue_plain(new)

    async def _keyed_answers(self, digests: Sequence[bytes]) -> Sequence[KeyedAnswer | None]:
        return await self.run(idempotency.keyed_answers, digests)

    async def _enqueue_keyed(
        self, request: Sequence[idempotency.KeyedJobs]
    ) -> Sequence[Sequence[Enqueued] | None]:
        return await self.transact(idempotency.enqueue_keyed, request)

    async def _enqueue_plain(self, new: Sequence[enqueue.NewJob]) -> Sequence[Enqueued]:
        answers = await self.run(enqueue.enqueue_plain, new)
        for _ in range(TRIES_MAX):
            if None not in answers:
                break
            # A job that held a unique key has ended since. Repeating is harmless for the jobs
            # stored already.
            answers = await self.run(enqueue.enqueue_plain, new)
        stored = [answer for answer in answers if answer is not None]
        if len(stored) < len(new):
            raise Unavailable("the unique key changes hands too often; try again")
        return stored

    async def _settle(self, settlements: Sequence[settle.PreparedSettlement]) -> Sequence[bool]:
        answers = await self.run(settle.end_plain, settlements)
        rest = [
            settlement for settlement, done in zip(settlements, answers, strict=True) if not done
        ]
        if not rest:
            return answers
        others = iter(await self.transact(settle.settle, rest))
        return [done or next(others) for done in answers]

    async def _start(self, starts: Sequence[leases.Start]) -> Sequence[Job | None]:
        return await self.run(leases.start, starts)

    async def _renew(self, renewals: Sequence[leases.Renewal]) -> Sequence[HeldLease | None]:
        return await self.run(leases.renew, renewals)

    async def _send_from(self, sendings: Sequence[FanOutBatch[enqueue.NewJob]]) -> Sequence[bool]:
        return await self.transact(enqueue.enqueue_from, sendings)

    async def _note_progress(self, notes: Sequence[settle.Note]) -> Sequence[bool]:
        return await self.run(settle.note_progress, notes)

    async def _apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self.transact(plan_verbs.apply_plans, plans)


def bind_verb(verb: Verb[P, Answer], *args: P.args, **options: P.kwargs) -> Work[Answer]:
    def work(transaction: Transaction) -> Awaitable[Answer]:
        return verb(transaction, *args, **options)

    return work


async def all_are_new(adding: Awaitable[int], count: int) -> bool:
    """Whether this many jobs were added. If some exist already, none are added."""
    try:
        return await adding == count
    except Conflict:
        return False


async def notify(transaction: Transaction, channel: str, payload: str) -> None:
    await transaction.rows(
        "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)", channel, payload
    )
