"""The store as its readers see it: every verb hands its work to the writer or the reader."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import apsw

from onbeat.model.attempt import Attempt
from onbeat.model.errors import Misconfigured
from onbeat.model.event import Stats, Transition
from onbeat.model.ids import JobId, LetterId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.letter import DeadLetter
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Limits, Queue
from onbeat.model.schedule import Schedule
from onbeat.model.worker import Worker
from onbeat.ports.store import (
    Carton,
    Claimed,
    ClaimRequest,
    Disposition,
    Enqueued,
    Finding,
    Held,
    Hint,
    Sent,
    Settlement,
    Traced,
)
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sqlite import (
    burying,
    claim,
    copying,
    disk,
    doctor,
    enqueue,
    history,
    jobs,
    leasing,
    outside,
    planning,
    prune,
    queues,
    schedules,
    sending,
    settle,
    workers,
)
from onbeat.stores.sqlite.ballast import Ballast
from onbeat.stores.sqlite.connection import connect_reader, connect_writer
from onbeat.stores.sqlite.faults import unavailable
from onbeat.stores.sqlite.migrate import migrate
from onbeat.stores.sqlite.reader import Reader
from onbeat.stores.sqlite.transaction import Transaction
from onbeat.stores.sqlite.writer import Writer

CHECKED_BYTES_MAX = 268_435_456

# What deletes, or brings to its end what runs. All of it writes little.
SPARED = frozenset[Callable[..., object]](
    {
        burying.exhume,
        jobs.cancel,
        leasing.renew,
        prune.cancel_lapsed,
        prune.prune,
        queues.pause_queue,
        schedules.delete_schedule,
        settle.note_progress,
        settle.settle,
        workers.beat,
        workers.forget_workers,
    }
)

Synchronous = Literal["FULL", "EXTRA", "NORMAL", "OFF"]


class SqliteStore:
    """All state in one SQLite file, which several processes of one machine may share.

    Less than `synchronous="FULL"` loses acknowledged work at a power failure.
    """

    def __init__(self, path: str, *, synchronous: Synchronous = "FULL") -> None:
        self._path = str(Path(path).absolute())
        self._synchronous = synchronous
        self._ballast = Ballast(self._path)
        self._writer = Writer(self._path, self._connect, self._ballast, SPARED)
        self._reader = Reader(self._path, lambda: connect_reader(self._path))

    def _connect(self) -> apsw.Connection:
        db = connect_writer(self._path, self._synchronous)
        migrate(db, self._path)
        return db

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    async def open(self) -> None:
        if self._writer.is_running:
            return
        db = await asyncio.to_thread(connected, self._connect, self._path)
        outside.OPEN[self] = self._path
        self._writer.start(db)
        self._reader.start()

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.stop)
        await asyncio.to_thread(self._writer.stop)
        outside.OPEN.pop(self, None)

    async def ping(self) -> None:
        await self._writer.ask(doctor.ping, None)

    async def now(self) -> datetime | None:
        """A file has no clock of its own."""

    async def doctor(self) -> Sequence[Finding]:
        asked = (self._path, self._synchronous)
        return await self._reader.ask(doctor.doctor, asked)

    async def free_percent(self) -> float:
        """Of its disk, with what is empty in its file."""
        return await self._reader.ask(disk.free_percent, self._path)

    def listen(self, heard: Callable[[Hint], None]) -> Callable[[], None]:
        return self._writer.listen(heard)

    # Planner

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        return await self._reader.ask(schedules.due_schedules, (micros(now), limit))

    async def next_plan_at(self) -> datetime | None:
        found = await self._reader.ask(schedules.next_plan_at, None)
        return None if found is None else instant(found)

    async def lapsed(self, now: datetime, limit: int) -> Sequence[Job]:
        return await self._reader.ask(prune.lapsed, (micros(now), limit))

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        return await self._reader.ask(schedules.schedules_by_id, ids)

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._writer.merge(planning.apply_plans, plans)

    async def cancel_lapsed(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        request = prune.CancelLapsed(ids, reason, micros(now))
        return await self._writer.ask(prune.cancel_lapsed, request)

    # Dispatcher, worker, renewer

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self._writer.ask(claim.claim, request)

    async def name_queues(self, names: Collection[str]) -> None:
        if not await self._reader.ask(queues.are_named, names):
            await self._writer.ask(queues.name_queues, names)

    async def queue_names(self) -> Sequence[str]:
        return await self._reader.ask(queues.queue_names, None)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return await self._writer.merge(settle.settle, list(map(settle.settled, settlements)))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._writer.merge(settle.note_progress, notes)

    async def send_from(self, sent: Sequence[Sent]) -> Sequence[bool]:
        return await self._writer.merge(sending.send_from, list(map(sending.sending, sent)))

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        rows = [leasing.start_row(worker, id, token, now) for id, token in leases]
        return await self._writer.merge(leasing.start, rows)

    async def beat(self, worker: Worker) -> Sequence[Held]:
        return await self._writer.ask(workers.beat, worker)

    async def held(self, worker: WorkerId) -> Sequence[Held]:
        return await self._reader.ask(leasing.held, worker)

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[Held | None]:
        rows = [leasing.renew_row(id, token, until) for id, token in leases]
        return await self._writer.merge(leasing.renew, rows)

    # Rescuer, pruner

    async def workers(self) -> Sequence[Worker]:
        return await self._reader.ask(workers.workers, None)

    async def abandoned(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        return await self._reader.ask(leasing.abandoned, (dead, micros(now), limit))

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        return await self._writer.ask(workers.forget_workers, ids)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        request = prune.Prune(micros(finished_before), micros(failed_before), limit)
        pruned = await self._writer.ask(prune.prune, request)
        await asyncio.to_thread(self._ballast.keep)
        return pruned

    # Operations on schedules

    async def add_schedule(self, schedule: Schedule, plan: Plan) -> None:
        await self._writer.ask(schedules.add_schedule, (schedule, plan))

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        return await self._writer.ask(schedules.update_schedule, (schedule, plan, micros(now)))

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        return await self._writer.ask(schedules.delete_schedule, (id, micros(now)))

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        return next(iter(await self._reader.ask(schedules.schedules_by_id, [id])), None)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        return await self._reader.ask(schedules.schedule_by_key, key)

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        return await self._reader.ask(schedules.schedules, filter)

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        return await self._reader.ask(jobs.occurrence_jobs, filter)

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        return await self._reader.ask(planning.dispositions, (id, micros(first), micros(last)))

    async def backfill(self, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]) -> int:
        return await self._writer.ask(planning.backfill, (id, jobs, skips))

    # Operations on jobs

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        return await self._writer.merge(enqueue.enqueue, list(map(enqueue.new_job, jobs)))

    async def job(self, id: JobId) -> Job | None:
        return await self._reader.ask(jobs.job, id)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        return await self._reader.ask(jobs.jobs, filter)

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        return await self._reader.ask(history.attempts, id)

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        return await self._reader.ask(history.transitions, id)

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        return await self._writer.ask(jobs.cancel, jobs.Cancel(ids, reason, micros(now)))

    async def retry(self, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
        return await self._writer.ask(jobs.retry, jobs.Retry(ids, micros(now)))

    # Operations on queues

    async def queues(self, now: datetime) -> Sequence[Queue]:
        return await self._reader.ask(queues.queues, micros(now))

    async def pause_queue(self, name: str, *, paused: bool) -> None:
        await self._writer.ask(queues.pause_queue, queues.Pause(name, paused))

    async def limit_queue(self, name: str, limits: Limits) -> None:
        await self._writer.ask(queues.limit_queue, queues.Limit(name, limits))

    # Dead letters

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        await self._writer.ask(burying.bury, list(map(burying.letter_row, letters)))

    async def dead_letters(
        self, before: LetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        return await self._reader.ask(burying.newest, (before, limit, source))

    async def dead_letters_by_id(self, ids: Collection[LetterId]) -> Sequence[DeadLetter]:
        return await self._reader.ask(burying.letters_by_id, ids)

    async def exhume(self, ids: Collection[LetterId]) -> int:
        return await self._writer.ask(burying.exhume, ids)

    async def stats(self, now: datetime) -> Stats:
        return await self._reader.ask(queues.stats, micros(now))

    # Copies

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        return await self._reader.ask(copying.export_schedules, (after, limit))

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[Traced]:
        return await self._reader.ask(copying.export_dispositions, (after, limit))

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[Carton]:
        return await self._reader.ask(copying.export_jobs, (after, limit))

    async def restore_schedules(self, schedules: Sequence[Schedule]) -> int:
        return await self._writer.ask(copying.restore_schedules, schedules)

    async def restore_dispositions(self, traced: Sequence[Traced]) -> int:
        return await self._writer.ask(copying.restore_dispositions, traced)

    async def restore_jobs(self, cartons: Sequence[Carton]) -> int:
        return await self._writer.ask(copying.restore_jobs, list(map(copying.parcel, cartons)))


def connected(connect: Callable[[], apsw.Connection], path: str) -> apsw.Connection:
    """The first connection, after a look at the file if its last user was killed."""
    was_left_open = Path(f"{path}-wal").exists()
    try:
        db = connect()
        if was_left_open:
            refuse_damaged(db, path)
    except apsw.NotADBError as error:
        raise Misconfigured(str(unavailable(error, path)), key="store") from error
    except apsw.Error as error:
        raise unavailable(error, path) from error
    return db


def refuse_damaged(db: apsw.Connection, path: str) -> None:
    """Larger files would hold up the start for long; `doctor` looks at those."""
    if Path(path).stat().st_size <= CHECKED_BYTES_MAX:
        finding = doctor.integrity(Transaction(db))
        if not finding.ok:
            raise apsw.CorruptError(finding.value)
