"""The methods of the port, each under one lock."""

import logging
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.attempt import Attempt
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.event import Stats, Transition
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.ids import DeadLetterId, JobId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Limits, Queue
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.worker import WorkerRecord
from onbeat.ports.access import TargetChange
from onbeat.ports.store import (
    Claimed,
    ClaimRequest,
    Disposition,
    DispositionExport,
    Enqueued,
    Finding,
    HeldLease,
    Hint,
    JobExport,
    SentJobs,
    Settlement,
)
from onbeat.stores.memory import (
    access,
    dependents,
    export,
    fan_out,
    idempotency,
    import_jobs,
    import_schedules,
    listings,
    targets,
)
from onbeat.stores.memory import claim as claim_verb
from onbeat.stores.memory import dead_letters as dead_letter_verbs
from onbeat.stores.memory import enqueue as enqueue_verb
from onbeat.stores.memory import leases as lease_verbs
from onbeat.stores.memory import plans as plan_verbs
from onbeat.stores.memory import prune as prune_verb
from onbeat.stores.memory import settle as settle_verb
from onbeat.stores.memory.tables import AT_FIRST, Tables

log = logging.getLogger(__name__)

Heard = Callable[[Hint], None]


class Listener:
    """One call of `listen`; the same function may be given to several."""

    def __init__(self, on_hint: Heard) -> None:
        self.on_hint = on_hint

    def notify(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            try:
                self.on_hint(hint)
            except Exception:  # the change is made; a failing listener must not make it look undone
                log.exception("store.listener_failed")


class MemoryStore:
    """Keeps all state in this process, and loses it when the process ends.

    Every verb checks before it changes, so one that raises has changed nothing.
    """

    def __init__(self) -> None:
        self._tables = Tables()
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()

    @contextmanager
    def lock_tables(self) -> Generator[Tables, None, None]:
        """Lock the tables for one verb; listeners are notified after it."""
        with self._lock:
            yield self._tables
            hints, self._tables.hints = self._tables.hints, set()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener.notify(hints)

    @property
    def url(self) -> str:
        return "memory://"

    async def open(self) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing: every verb is finished when it returns."""

    async def ping(self) -> None:
        """Always succeeds."""

    async def now(self) -> datetime | None:
        """The store has no clock."""

    async def doctor(self) -> Sequence[Finding]:
        return (
            Finding(
                name="durability",
                ok=False,
                value="in memory: nothing is kept across a restart",
                remedy="Use it for tests and trials; keep work that matters in an SQLite store.",
            ),
        )

    def listen(self, on_hint: Heard) -> Callable[[], None]:
        listener = Listener(on_hint)
        with self._lock:
            self._listeners.add(listener)

        def stop() -> None:
            with self._lock:
                self._listeners.discard(listener)

        return stop

    # Planner.

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        with self.lock_tables() as tables:
            due = [
                (schedule.plan_at, schedule.id)
                for schedule in tables.schedules.values()
                if schedule.status is ScheduleStatus.ACTIVE
                and schedule.plan_at is not None
                and schedule.plan_at <= now
            ]
            return tuple(tables.schedules[id] for _, id in sorted(due)[:limit])

    async def next_plan_at(self) -> datetime | None:
        with self.lock_tables() as tables:
            times = (
                schedule.plan_at
                for schedule in tables.schedules.values()
                if schedule.status is ScheduleStatus.ACTIVE and schedule.plan_at is not None
            )
            return min(times, default=None)

    async def overdue_jobs(self, now: datetime, limit: int) -> Sequence[Job]:
        with self.lock_tables() as tables:
            past = tables.bounded_between(AT_FIRST, now)
            return tuple(tables.jobs[id] for id in islice(past, limit))

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        with self.lock_tables() as tables:
            return tuple(tables.schedules[id] for id in set(ids) if id in tables.schedules)

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return tuple(plan_verbs.apply_plan(tables, plan) for plan in plans)

    async def cancel_overdue(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        with self.lock_tables() as tables:
            return plan_verbs.cancel_overdue(tables, ids, reason, now)

    async def continue_cascades(self, now: datetime) -> int:
        with self.lock_tables() as tables:
            return dependents.continue_cascades(tables, now)

    # Dispatcher and worker.

    async def claim(self, request: ClaimRequest) -> Claimed:
        with self.lock_tables() as tables:
            return claim_verb.claim(tables, request)

    async def name_queues(self, names: Collection[str]) -> None:
        with self.lock_tables() as tables:
            tables.known_queues.update(names)

    async def queue_names(self) -> Sequence[str]:
        with self.lock_tables() as tables:
            return tuple(sorted(tables.known_queues))

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        with self.lock_tables() as tables:
            return tuple(lease_verbs.start(tables, worker, *lease, now) for lease in leases)

    async def enqueue_from(self, sent: Sequence[SentJobs]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            for each in sent:
                fan_out.refuse_unknown(tables, each)
            return tuple(fan_out.send_one(tables, each) for each in sent)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return tuple(settle_verb.settle_one(tables, settlement) for settlement in settlements)

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return tuple(settle_verb.note_progress(tables, *note) for note in notes)

    # Renewer and rescuer.

    async def heartbeat(self, worker: WorkerRecord) -> Sequence[HeldLease]:
        with self.lock_tables() as tables:
            tables.workers[worker.id] = worker
            return lease_verbs.held_leases(tables, worker.id)

    async def held_leases(self, worker: WorkerId) -> Sequence[HeldLease]:
        with self.lock_tables() as tables:
            return lease_verbs.held_leases(tables, worker)

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[HeldLease | None]:
        with self.lock_tables() as tables:
            return tuple(lease_verbs.renew(tables, *lease, until) for lease in leases)

    async def workers(self) -> Sequence[WorkerRecord]:
        with self.lock_tables() as tables:
            return tuple(
                replace(worker, running=len(tables.leases.get(id, ())))
                for id, worker in sorted(tables.workers.items())
            )

    async def abandoned_jobs(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        with self.lock_tables() as tables:
            return lease_verbs.abandoned_jobs(tables, dead, now, limit)

    async def rewrite_workers(self, ids: Collection[WorkerId]) -> int:
        with self.lock_tables() as tables:
            return len(tables.workers.keys() & set(ids))

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        with self.lock_tables() as tables:
            gone = [id for id in set(ids) if id in tables.workers and not tables.leases.get(id)]
            for id in gone:
                del tables.workers[id]
            return len(gone)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return prune_verb.prune(tables, finished_before, failed_before, limit)

    async def forget_requests(self, *, before: datetime, now: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return idempotency.forget(tables, before, now, limit)

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        with self.lock_tables() as tables:
            result = tables.requests.rows.get(digest)
            return None if result is None else result.answer

    # Operations on schedules.

    async def add_schedule(
        self, schedule: Schedule, plan: Plan, keyed: KeyedRequest | None = None
    ) -> None:
        with self.lock_tables() as tables:
            idempotency.run(tables, keyed, lambda: plan_verbs.add_schedule(tables, schedule, plan))

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        with self.lock_tables() as tables:
            return plan_verbs.update_schedule(tables, schedule, plan, now)

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        with self.lock_tables() as tables:
            return plan_verbs.delete_schedule(tables, id, now)

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        with self.lock_tables() as tables:
            return tables.schedules.get(id)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        with self.lock_tables() as tables:
            id = tables.schedule_keys.get(key)
            return None if id is None else tables.schedules[id]

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        with self.lock_tables() as tables:
            return listings.schedules_page(tables, filter)

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        with self.lock_tables() as tables:
            return listings.occurrences_page(tables, filter)

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        with self.lock_tables() as tables:
            return tables.dispositions.between(id, first, last)

    async def backfill(
        self,
        id: ScheduleId,
        jobs: Sequence[Job],
        skips: Sequence[Skip],
        keyed: KeyedRequest | None = None,
    ) -> int:
        with self.lock_tables() as tables:
            return idempotency.run(
                tables, keyed, lambda: plan_verbs.backfill(tables, id, jobs, skips)
            )

    # Operations on jobs.

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        with self.lock_tables() as tables:
            return idempotency.run(tables, keyed, lambda: enqueue_verb.enqueue(tables, jobs))

    async def job(self, id: JobId) -> Job | None:
        with self.lock_tables() as tables:
            return tables.jobs.get(id)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        with self.lock_tables() as tables:
            return listings.jobs_page(tables, filter)

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        with self.lock_tables() as tables:
            return tuple(tables.attempts.get(id, ()))

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        with self.lock_tables() as tables:
            return tuple(tables.transitions.get(id, ()))

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        with self.lock_tables() as tables:
            for id in ids:
                if id in tables.jobs:
                    dependents.cancel(tables, tables.jobs[id], reason, now)
            return tuple(tables.jobs.get(id) for id in ids)

    async def retry(
        self, ids: Sequence[JobId], now: datetime, keyed: KeyedRequest | None = None
    ) -> Sequence[Job | None]:
        with self.lock_tables() as tables:
            return idempotency.run(tables, keyed, lambda: enqueue_verb.retry(tables, ids, now))

    # Operations on the whole.

    async def queues(self, now: datetime) -> Sequence[Queue]:
        with self.lock_tables() as tables:
            return listings.queues(tables, now)

    async def pause_queue(self, name: str, *, paused: bool) -> None:
        with self.lock_tables() as tables:
            tables.known_queues.add(name)
            if paused:
                tables.paused_queues.add(name)
            else:
                tables.paused_queues.discard(name)
                tables.hints.add(Hint.JOBS)

    async def limit_queue(self, name: str, limits: Limits) -> None:
        with self.lock_tables() as tables:
            tables.known_queues.add(name)
            tables.put_limits(name, limits)
            tables.hints.add(Hint.JOBS)

    async def add_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        with self.lock_tables() as tables:
            dead_letter_verbs.add_dead_letters(tables, dead_letters)

    async def dead_letters(
        self, before: DeadLetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        with self.lock_tables() as tables:
            return dead_letter_verbs.newest_dead_letters(tables, before, limit, source)

    async def dead_letters_by_id(self, ids: Collection[DeadLetterId]) -> Sequence[DeadLetter]:
        with self.lock_tables() as tables:
            return dead_letter_verbs.dead_letters_by_id(tables, ids)

    async def delete_dead_letters(
        self, ids: Collection[DeadLetterId], keyed: KeyedRequest | None = None
    ) -> int:
        with self.lock_tables() as tables:
            return idempotency.run(
                tables, keyed, lambda: dead_letter_verbs.delete_dead_letters(tables, ids)
            )

    async def stats(self, now: datetime) -> Stats:
        with self.lock_tables() as tables:
            return listings.stats(tables, now)

    # Access

    async def secret(self, fresh: bytes) -> bytes:
        with self.lock_tables() as tables:
            access_tables = tables.access
            access_tables.secret = access_tables.secret or fresh
            return access_tables.secret

    async def add_key(self, key: ApiKey) -> None:
        with self.lock_tables() as tables:
            access.add_key(tables.access, key)

    async def keys(self) -> Sequence[ApiKey]:
        with self.lock_tables() as tables:
            return access.keys(tables.access)

    async def remove_key(self, name: str) -> bool:
        with self.lock_tables() as tables:
            return tables.access.keys.pop(name, None) is not None

    async def note_key_use(self, name: str, at: datetime) -> None:
        with self.lock_tables() as tables:
            access.note_key_use(tables.access, name, at)

    async def put_audit(self, record: AuditRecord) -> None:
        with self.lock_tables() as tables:
            tables.access.audit[record.id] = record

    async def audit(self, filter: AuditFilter) -> Sequence[AuditRecord]:
        with self.lock_tables() as tables:
            return access.audit(tables.access, filter)

    async def prune_audit(self, before: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return access.prune_audit(tables.access, before, limit)

    async def replace_job_targets(self, changes: Sequence[TargetChange]) -> int:
        with self.lock_tables() as tables:
            return targets.replace_job_targets(tables, changes)

    async def replace_schedule_targets(self, changes: Sequence[TargetChange]) -> int:
        with self.lock_tables() as tables:
            return targets.replace_schedule_targets(tables, changes)

    # Copying.

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        with self.lock_tables() as tables:
            return export.export_schedules(tables, after, limit)

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[DispositionExport]:
        with self.lock_tables() as tables:
            return tuple(
                DispositionExport(*row) for row in islice(tables.dispositions.beyond(after), limit)
            )

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[JobExport]:
        with self.lock_tables() as tables:
            return export.export_jobs(tables, after, limit)

    async def import_schedules(self, schedules: Sequence[Schedule]) -> int:
        with self.lock_tables() as tables:
            return import_schedules.import_schedules(tables, schedules)

    async def import_dispositions(self, rows: Sequence[DispositionExport]) -> int:
        with self.lock_tables() as tables:
            return sum(tables.dispositions.add(each.schedule_id, each.disposition) for each in rows)

    async def import_jobs(self, exports: Sequence[JobExport]) -> int:
        with self.lock_tables() as tables:
            return import_jobs.import_jobs(tables, exports)
