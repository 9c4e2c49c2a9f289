"""The store: every verb runs in the writer thread or the reader thread."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import apsw

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.plan import Plan
from onbeat.ports.store import (
    Claimed,
    ClaimRequest,
    Enqueued,
    Finding,
    HeldLease,
    Hint,
    SentJobs,
    Settlement,
    SucceededAttempt,
)
from onbeat.stores.sql.dialect import Row
from onbeat.stores.sql.migrate import change_to
from onbeat.stores.sql.session import Answer, P, Verb
from onbeat.stores.sql.store import SqlStore
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs import (
    access,
    bulks,
    cancel_and_retry,
    cascades,
    dead_letters,
    dispositions,
    edit_schedules,
    event_copies,
    event_waits,
    events,
    flows,
    imports,
    job_logs,
    prune,
    prune_events,
    pulses,
    queues,
    sweeps,
    workers,
)
from onbeat.stores.sql.verbs import plans as plan_verbs
from onbeat.stores.sql.verbs.enqueue import prepare_batch
from onbeat.stores.sql.verbs.idempotency import forget_requests, run_keyed
from onbeat.stores.sqlite import (
    caller_transaction,
    claim,
    doctor,
    enqueue,
    settle,
)
from onbeat.stores.sqlite import leases as lease_verbs
from onbeat.stores.sqlite.ballast import Ballast, free_percent
from onbeat.stores.sqlite.connection import connect_reader, connect_writer
from onbeat.stores.sqlite.errors import BUSY_OPEN_SECONDS, BUSY_SECONDS, SETTING, unavailable
from onbeat.stores.sqlite.migrate import migrate, migrations
from onbeat.stores.sqlite.requests import Reader
from onbeat.stores.sqlite.transaction import Transaction, finish, in_thread
from onbeat.stores.sqlite.writer import Writer
from onbeat.stores.successes import settlement_of

CHECKED_BYTES_MAX = 268_435_456


def publish(transaction: Transaction, rows: Sequence[Row]) -> Sequence[bool]:
    return finish(events.publish(transaction, rows))


# Operations that delete or finish running work. All of them write little.
SPARED = frozenset[Callable[..., object]](
    {
        access.prune_audit,
        access.put_audit,
        access.remove_key,
        bulks.prune_bulks,
        bulks.stop_bulk,
        dead_letters.delete_dead_letters,
        cascades.continue_cascades,
        flows.close_flows,
        cancel_and_retry.cancel,
        forget_requests,
        lease_verbs.renew,
        cancel_and_retry.cancel_overdue,
        prune.prune,
        prune_events.prune_events,
        sweeps.sweep,
        pulses.fold_history,
        queues.pause_queue,
        edit_schedules.delete_schedule,
        settle.note_progress,
        settle.settle,
        settle.succeed,
        workers.heartbeat,
        workers.forget_workers,
    }
)

# Operations that may be refused, as they accept new work. All others keep earlier promises.
ADDING = frozenset[Callable[..., object]](
    {
        bulks.add_bulk,
        dead_letters.add_dead_letters,
        dispositions.import_dispositions,
        imports.import_jobs,
        imports.import_schedules,
        job_logs.add_log_lines,
        enqueue.enqueue,
        run_keyed,
        plan_verbs.backfill,
        edit_schedules.add_schedule,
        enqueue.enqueue_from,
        publish,
        event_copies.import_events,
        event_copies.import_event_keys,
        event_waits.import_event_waits,
        pulses.put_pulses,
        pulses.put_samples,
    }
)

PRUNE_FEW = 50
"""Jobs deleted at once if the WAL of more does not fit on the disk."""

Synchronous = Literal["FULL", "EXTRA", "NORMAL", "OFF"]


class SqliteStore(SqlStore[Transaction]):
    """All state in one SQLite file, which several processes of one machine may share.

    A level below `synchronous="FULL"` loses acknowledged work at a power failure.
    """

    def __init__(self, path: str, *, synchronous: Synchronous = "FULL") -> None:
        super().__init__(enqueue.KEYS)
        self._path = str(Path(path).absolute())
        self._synchronous = synchronous
        self._ballast = Ballast(self._path)
        self._writer = Writer(self._path, self._connect, self._ballast, SPARED, ADDING)
        self._reader = Reader(self._path, connect_reader)

    def _connect(self) -> apsw.Connection:
        db = connect_writer(self._path, self._synchronous, self._writer.lock_wait)
        before = migrate(db, self._path)
        self._schema_change = change_to(self.url, migrations(), before)
        return db

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    async def open(self) -> None:
        if self._writer.is_running:
            return
        self._writer.lock_wait.seconds = BUSY_OPEN_SECONDS
        db = await asyncio.to_thread(connect_checked, self._connect, self._path)
        self._writer.lock_wait.seconds = BUSY_SECONDS
        caller_transaction.OPEN[self] = self._path
        self._writer.start(db)
        self._reader.start()

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.stop)
        await asyncio.to_thread(self._writer.stop)
        caller_transaction.OPEN.pop(self, None)

    async def ping(self) -> None:
        await self._writer.run(doctor.ping)

    async def now(self) -> datetime | None:
        """A file has no clock."""

    async def doctor(self) -> Sequence[Finding]:
        return await self._reader.run(doctor.doctor, self._path, self._synchronous)

    async def free_percent(self) -> float:
        """Free space of the disk, including free pages in the file."""
        return await self._reader.run(in_thread(free_percent), self._path)

    @property
    def hints_at_once(self) -> bool:
        """Other processes' changes are polled for, but mostly there are none."""
        return self._writer.is_alone

    def listen(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        return self._writer.listen(on_hint)

    # How verbs are run

    async def _read(
        self, verb: Verb[Transaction, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._reader.run(verb, *args, **options)

    async def _transact(
        self, verb: Verb[Transaction, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._writer.run(verb, *args, **options)

    # Batched calls, and methods that differ by database

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._writer.run_batched(apply_plans, plans)

    async def _publish(self, rows: Sequence[Row]) -> Sequence[bool]:
        return await self._writer.run_batched(publish, rows)

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self._writer.run(claim.claim, request)

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        rows = [lease_verbs.start_row(worker, id, token, now) for id, token in leases]
        return await self._writer.run_batched(lease_verbs.start, rows)

    async def enqueue_from(self, sent: Sequence[SentJobs]) -> Sequence[bool]:
        return await self._writer.run_batched(
            enqueue.enqueue_from, [prepare_batch(one, enqueue.new_job) for one in sent]
        )

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return await self._writer.run_batched(
            settle.settle, list(map(settle.prepare_settlement, settlements))
        )

    async def succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        if not all(map(settle.is_lone, successes)):
            return await self.settle(list(map(settlement_of, successes)))
        return await self._writer.run_batched(
            settle.succeed, list(map(settle.prepare_success, successes))
        )

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._writer.run_batched(settle.note_progress, notes)

    async def held_leases(self, worker: WorkerId) -> Sequence[HeldLease]:
        return await self._reader.run(workers.held_leases, worker)

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[HeldLease | None]:
        rows = [lease_verbs.renew_row(id, token, until) for id, token in leases]
        return await self._writer.run_batched(lease_verbs.renew, rows)

    async def abandoned_jobs(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        return await self._read(lease_verbs.abandoned_jobs, dead, micros(now), limit)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        ages = micros(finished_before), micros(failed_before)
        try:
            pruned = await self._writer.run(prune.prune, "finished", *ages, limit)
        except Unavailable as error:
            if not isinstance(error.__cause__, apsw.FullError):
                raise
            pruned = await prune_by_few(self._writer, *ages, limit)
        await asyncio.to_thread(self._ballast.keep)
        return pruned

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        new = list(map(enqueue.new_job, jobs))
        if keyed is None:
            return await self._writer.run_batched(enqueue.enqueue, new)
        return await self._write(keyed, enqueue.KEYS.enqueue, new)


def apply_plans(transaction: Transaction, plans: Sequence[Plan]) -> Sequence[bool]:
    return finish(plan_verbs.apply_plans(transaction, plans))


async def prune_by_few(writer: Writer, finished_before: int, failed_before: int, limit: int) -> int:
    pruned = 0
    while pruned < limit:
        ages = finished_before, failed_before
        count = await writer.run(prune.prune, "finished", *ages, PRUNE_FEW)
        pruned += count
        if count < PRUNE_FEW:
            break
    return pruned


def connect_checked(connect: Callable[[], apsw.Connection], path: str) -> apsw.Connection:
    """The first connection; checks the file before if its last user was killed."""
    was_left_open = Path(f"{path}-wal").exists()
    try:
        db = connect()
        if was_left_open:
            refuse_damaged(db, path)
    except SETTING as error:
        raise Misconfigured(str(unavailable(error, path)), key="store") from error
    except apsw.Error as error:
        raise unavailable(error, path) from error
    return db


def refuse_damaged(db: apsw.Connection, path: str) -> None:
    """Larger files would delay the start for long; `doctor` checks those."""
    if Path(path).stat().st_size <= CHECKED_BYTES_MAX:
        finding = doctor.integrity(Transaction(db))
        if not finding.ok:
            raise apsw.CorruptError(finding.value)
