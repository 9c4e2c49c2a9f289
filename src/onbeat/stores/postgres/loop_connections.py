"""The connections of one event loop and its batched writes, and a loop in the background."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

from onbeat.model.errors import Conflict, Unavailable
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, SucceededAttempt
from onbeat.rules.claim_marks import ClaimMarks
from onbeat.rules.lone_jobs import LastLook
from onbeat.stores.postgres import bulk, enqueue, leases, settle
from onbeat.stores.postgres.connection import LOCK_SECONDS, Database, Dsn, PostgresDriver
from onbeat.stores.postgres.enqueue import KEYS
from onbeat.stores.postgres.hints import Hints
from onbeat.stores.postgres.rows import columns
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql import loop_connections
from onbeat.stores.sql.session import Answer
from onbeat.stores.sql.verbs.enqueue import NewJob, until_stored
from onbeat.stores.sql.verbs.events import publish
from onbeat.stores.successes import settlement_of

CLAIMANTS_MAX = 64  # the store remembers so many, and forgets the oldest
SENDERS_MAX = 50  # in one transaction: each may send thousands of jobs


class Claimant:
    """What the claims of one worker leave for its next ones."""

    def __init__(self) -> None:
        self.marks = ClaimMarks()
        self.last_look: LastLook | None = None


class LoopConnections(loop_connections.LoopConnections[Database, Transaction]):
    keys = KEYS
    keyed_max = 500  # requests with keys in one transaction, each with a few jobs
    tries_max = 6
    pause_seconds = 0.02
    lock_seconds = LOCK_SECONDS
    begin_snapshot = ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",)

    def __init__(self, dsn: Dsn, hints: Hints, pool_max: int) -> None:
        super().__init__(PostgresDriver(dsn), pool_max)
        self._hints = hints
        self.needs_limits = False  # whether the last claim met jobs that need `limited_claim`
        self.contended_claims = 0  # how many more claims take locks against other claimants
        self._claimants: dict[WorkerId, Claimant] = {}
        self.enqueue = self._batch(self._enqueue)
        self.start = self._batch_verb(self.run, leases.start)
        self.settle = self._batch(self._settle)
        self.succeed = self._batch(self._succeed)
        self.renew = self._batch_verb(self.run, leases.renew)
        self.send_from = self._batch_verb(
            self.transact, enqueue.enqueue_from, batch_max=SENDERS_MAX
        )
        self.note_progress = self._batch_verb(self.run, settle.note_progress)
        self.publish = self._batch_verb(self.run, publish)

    def claimant(self, worker: WorkerId) -> "Claimant":
        """What earlier claims of this worker have left for its next one."""
        claimant = self._claimants.get(worker)
        if claimant is None:
            if len(self._claimants) >= CLAIMANTS_MAX:
                del self._claimants[next(iter(self._claimants))]
            claimant = self._claimants[worker] = Claimant()
        return claimant

    def announced_job(self) -> JobId | None:
        """The new job that was announced since the last claim; None if other changes were, too."""
        return self._hints.announced.take()

    def _transaction(self, connection: Database) -> Transaction:
        return Transaction(connection)

    def _announce(self, transaction: Transaction) -> None:
        self._hints.notify(transaction.hints, transaction.noticed, transaction.lone_job)

    async def notify(self, channel: str, payload: str) -> None:
        """Send a NOTIFY without waiting for the disk."""
        await self.run(notify, channel, payload)

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
            notice = self._hints.notice(new[0].id) if len(new) == 1 else None
            adding = self.run(enqueue.enqueue_new, new, notice)
            if await all_are_new(adding, len(jobs)):
                return [Enqueued(job.id, created=True) for job in jobs]
        return await self._enqueue_plain(new)

    async def _enqueue_plain(self, new: Sequence[NewJob]) -> Sequence[Enqueued]:
        has_keys = any(job.unique is not None for job in new)
        run = self.transact if has_keys else self.run
        return await until_stored(lambda: run(enqueue.enqueue_plain, new), self.tries_max)

    async def _settle(self, settlements: Sequence[settle.PreparedSettlement]) -> Sequence[bool]:
        answers = await self.run(settle.end_plain, settlements)
        rest = [
            settlement for settlement, done in zip(settlements, answers, strict=True) if not done
        ]
        if not rest:
            return answers
        others = iter(await self.transact(settle.settle, rest))
        return [done or next(others) for done in answers]

    async def _succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        """Most jobs have nothing that depends on their end; `settle` writes the others."""
        ended: set[JobId] = set()
        for worker, rows in settle.plain_successes(successes).items():
            ended.update(await self.run(settle.succeed, worker, *columns(rows)))
        if len(ended) == len(successes):
            return [True] * len(successes)
        words = {one.job.id: one for one in reversed(successes)}
        answers = [one.job.id in ended and words[one.job.id] is one for one in successes]
        rest = [one for one, done in zip(successes, answers, strict=True) if not done]
        prepared = [settle.prepare_settlement(settlement_of(one)) for one in rest]
        others = iter(await self.transact(settle.settle, prepared))
        return [done or next(others) for done in answers]


class BackgroundLoop:
    """A background thread with an event loop, for callers outside the loop that opened the store.

    A loop made for one call ends without notice, and its connections would be lost. This loop runs
    from the first call until the store is closed, and a busy first loop does not delay heartbeats.
    """

    def __init__(self, build: Callable[[], LoopConnections]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._is_open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: LoopConnections | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        self._is_open = True

    async def run(self, act: Callable[[LoopConnections], Awaitable[Answer]]) -> Answer:
        loop, connections = self._ensure_started()

        async def work() -> Answer:
            return await act(connections)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))

    def _ensure_started(self) -> tuple[asyncio.AbstractEventLoop, LoopConnections]:
        with self._lock:
            if not self._is_open:
                raise Unavailable("the store is not open")
            if self._loop is None or self._connections is None:
                self._loop, self._connections = asyncio.new_event_loop(), self._build()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="onbeat-postgres", daemon=True
                )
                self._thread.start()
            return self._loop, self._connections

    def close(self) -> None:
        """Blocks until all earlier requests are done."""
        with self._lock:
            loop, connections, thread = self._loop, self._connections, self._thread
            self._loop = self._connections = self._thread = None
            self._is_open = False
        if loop is None or connections is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(connections.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def all_are_new(adding: Awaitable[int], count: int) -> bool:
    """Whether this many jobs were added; the others exist already."""
    try:
        return await adding == count
    except Conflict:
        return False


async def notify(transaction: Transaction, channel: str, payload: str) -> None:
    await transaction.rows(
        "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)", channel, payload
    )
