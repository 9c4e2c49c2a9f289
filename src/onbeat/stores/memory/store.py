"""The methods of the port, each under one lock."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.alert import Alert, AlertChange, AlertSilence
from onbeat.model.attempt import Attempt
from onbeat.model.bulk import Bulk, BulkId
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.event import Event, StoredEvent
from onbeat.model.event_wait import AwaitedKey, EventWait, WaitResult
from onbeat.model.fault import DeadLetterHead, FaultChange, FaultJobs, FaultRecord, OperatorNote
from onbeat.model.flow import FlowLook
from onbeat.model.held_key import HeldKey
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest, StoredRequest
from onbeat.model.ids import DeadLetterId, EventSeq, JobId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.keep_rule import Sweep, Swept
from onbeat.model.live import StreamBatch
from onbeat.model.log_line import JobLogLine, LineKey
from onbeat.model.page import Counted, JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.pulse import EndedCounts, Gauges, Pulse
from onbeat.model.queue import GroupDepths, LatenessChange, Limits, Pause, Queue, WatchedQueue
from onbeat.model.route import EventKey, EventSchedules, KeyedJob, Routing, Unrouted
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.model.transition import Stats, Transition
from onbeat.model.worker import FIRST_BEAT, WorkerRecord
from onbeat.ports.access import TargetChange
from onbeat.ports.events import EventExport, EventFilter, EventKeyExport, EventWaitExport
from onbeat.ports.store import (
    Claimed,
    ClaimRequest,
    Disposition,
    DispositionExport,
    Enqueued,
    Finding,
    FlowCounts,
    HeldLease,
    Hint,
    JobExport,
    SchemaChange,
    SentJobs,
    Settlement,
    SucceededAttempt,
)
from onbeat.rules.dead_rows import NO_NEED_SECONDS
from onbeat.stores.memory import (
    access,
    alerts,
    dependents,
    depths,
    event_copies,
    event_waits,
    export,
    fan_out,
    flows,
    held_keys,
    history,
    idempotency,
    import_jobs,
    import_schedules,
    job_logs,
    lateness,
    listings,
    live,
    retry,
    targets,
    timeline,
)
from onbeat.stores.memory import bulks as bulk_verbs
from onbeat.stores.memory import claim as claim_verb
from onbeat.stores.memory import dead_letters as dead_letter_verbs
from onbeat.stores.memory import enqueue as enqueue_verb
from onbeat.stores.memory import events as event_verbs
from onbeat.stores.memory import faults as fault_verbs
from onbeat.stores.memory import leases as lease_verbs
from onbeat.stores.memory import plans as plan_verbs
from onbeat.stores.memory import prune as prune_verb
from onbeat.stores.memory import settle as settle_verb
from onbeat.stores.memory.stored_events import own_types
from onbeat.stores.memory.tables import AT_FIRST, StreamTables, Tables
from onbeat.stores.successes import settlement_of

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


class TablesLock:
    """The context of a verb, made once for all: in it the tables are locked, and after it the
    listeners are notified.
    """

    def __init__(self, tables: Tables, lock: threading.Lock, listeners: set[Listener]) -> None:
        self.tables = tables
        self.lock = lock
        self.listeners = listeners

    def __enter__(self) -> Tables:
        self.lock.acquire()
        return self.tables

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        hints: set[Hint] = set()
        if kind is None and self.tables.hints:
            hints, self.tables.hints = self.tables.hints, set()
        listeners = tuple(self.listeners) if hints else ()
        self.lock.release()
        for listener in listeners:
            listener.notify(hints)


class MemoryStore:
    """Keeps all state in this process, and loses it when the process ends.

    Every verb checks before it changes, so one that raises has changed nothing.
    """

    has_slots = False
    hints_at_once = True

    def __init__(self) -> None:
        self._tables = Tables()
        self.streams = StreamTables()
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._tables_lock = TablesLock(self._tables, self._lock, self._listeners)

    def lock_tables(self) -> TablesLock:
        return self._tables_lock

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

    @property
    def schema_changes(self) -> Sequence[SchemaChange]:
        return ()

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
            return tuple(tables.schedules[id] for id in sorted(set(ids)) if id in tables.schedules)

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return tuple(plan_verbs.apply_plan(tables, plan) for plan in plans)

    async def cancel_overdue(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        with self.lock_tables() as tables:
            return plan_verbs.cancel_overdue(tables, ids, reason, now)

    async def continue_cascades(self, now: datetime) -> int:
        with self.lock_tables() as tables:
            return retry.continue_cascades(tables, now)

    async def close_flows(self, now: datetime) -> int:
        with self.lock_tables() as tables:
            return flows.close_flows(tables, now)

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

    async def hand_over(self, id: JobId, token: Token, until: datetime) -> bool:
        with self.lock_tables() as tables:
            return lease_verbs.hand_over(tables, id, token, until)

    async def enqueue_from(self, sent: Sequence[SentJobs]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            for each in sent:
                fan_out.new_jobs(tables, each)  # raises before any is stored
            return tuple(fan_out.send_one(tables, each) for each in sent)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return tuple(settle_verb.settle_one(tables, settlement) for settlement in settlements)

    async def succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        return await self.settle(list(map(settlement_of, successes)))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return tuple(settle_verb.note_progress(tables, *note) for note in notes)

    # Renewer and rescuer.

    async def heartbeat(self, worker: WorkerRecord) -> Sequence[HeldLease]:
        with self.lock_tables() as tables:
            tables.workers[worker.id] = worker
            if worker.beat == FIRST_BEAT:
                tables.hints.add(Hint.WORKERS)
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

    async def forget_workers(
        self, ids: Collection[WorkerId], beats: Mapping[WorkerId, int] | None = None
    ) -> int:
        with self.lock_tables() as tables:
            return lease_verbs.forget_workers(tables, ids, beats)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return prune_verb.prune(tables, finished_before, failed_before, limit)

    async def sweep(self, sweep: Sweep, limit: int) -> Swept:
        with self.lock_tables() as tables:
            return prune_verb.sweep(tables, sweep, limit)

    async def vacuum(self) -> float:
        return NO_NEED_SECONDS

    async def prune_held_keys(self, now: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return held_keys.prune_held_keys(tables, now, limit)

    async def held_key(self, key: str, now: datetime) -> HeldKey | None:
        with self.lock_tables() as tables:
            return held_keys.find_held_key(tables, key, now)

    async def export_held_keys(self, after: str | None, limit: int) -> Sequence[HeldKey]:
        with self.lock_tables() as tables:
            return held_keys.export_held_keys(tables, after, limit)

    async def import_held_keys(self, held: Sequence[HeldKey]) -> int:
        with self.lock_tables() as tables:
            return held_keys.import_held_keys(tables, held)

    async def export_requests(self, after: bytes | None, limit: int) -> Sequence[StoredRequest]:
        with self.lock_tables() as tables:
            return idempotency.export(tables, after, limit)

    async def import_requests(self, requests: Sequence[StoredRequest]) -> int:
        with self.lock_tables() as tables:
            return idempotency.restore(tables, requests)

    async def forget_requests(self, *, before: datetime, now: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return idempotency.forget(tables, before, now, limit)

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        with self.lock_tables() as tables:
            result = tables.requests.rows.get(digest)
            return None if result is None else result.answer

    async def begun_at(self, digest: bytes) -> datetime | None:
        del digest  # a request is one step
        return None

    # Operations on schedules.

    async def add_schedule(
        self, schedule: Schedule, plan: Plan, keyed: KeyedRequest | None = None
    ) -> None:
        with self.lock_tables() as tables:
            idempotency.run(tables, keyed, lambda: plan_verbs.add_schedule(tables, schedule, plan))

    async def update_schedule(
        self, schedule: Schedule, plan: Plan | None, now: datetime, event: Event | None = None
    ) -> bool:
        with self.lock_tables() as tables:
            return plan_verbs.update_schedule(tables, schedule, plan, now, event)

    async def schedules_of_owner(self, owner: str) -> Sequence[Schedule]:
        with self.lock_tables() as tables:
            return [one for _, one in sorted(tables.schedules.items()) if one.owner == owner]

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

    async def doubles_of(self, keys: Collection[str]) -> Sequence[Schedule]:
        return ()  # `schedule_keys` has each key once

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

    async def latest_dispositions(
        self, id: ScheduleId, before: datetime, limit: int
    ) -> Sequence[Disposition]:
        with self.lock_tables() as tables:
            return tables.dispositions.latest(id, before, limit)

    async def trigger(self, id: ScheduleId, job: Job, keyed: KeyedRequest | None = None) -> None:
        with self.lock_tables() as tables:
            idempotency.run(tables, keyed, lambda: plan_verbs.trigger(tables, id, job))

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

    async def jobs_by_id(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        with self.lock_tables() as tables:
            return {id: tables.jobs[id] for id in ids if id in tables.jobs}

    async def newest_flows(self, before: JobId | None, limit: int, look: int) -> Sequence[FlowLook]:
        with self.lock_tables() as tables:
            return flows.newest_flows(tables, before, limit, look)

    async def flow_counts(self, ids: Collection[JobId]) -> FlowCounts:
        with self.lock_tables() as tables:
            return flows.flow_counts(tables, ids)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        with self.lock_tables() as tables:
            return listings.jobs_page(tables, filter)

    async def count_jobs(self, filter: JobFilter, most: int, *, look: int | None = None) -> Counted:
        with self.lock_tables() as tables:
            return listings.count_jobs(tables, filter, most, look)

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
            dependents.cancel(tables, ids, reason, now)
            return tuple(tables.jobs.get(id) for id in ids)

    async def reschedule(self, id: JobId, due_at: datetime, now: datetime) -> Job | None:
        with self.lock_tables() as tables:
            return retry.reschedule(tables, id, due_at, now)

    async def retry(
        self,
        ids: Sequence[JobId],
        now: datetime,
        keyed: KeyedRequest | None = None,
        *,
        dependents: bool = True,
        at_once: bool = True,
    ) -> Sequence[Job | None]:
        with self.lock_tables() as tables:
            return idempotency.run(
                tables,
                keyed,
                lambda: retry.retry(tables, ids, now, dependents=dependents, at_once=at_once),
            )

    # Operations on the whole.

    async def queues(self, now: datetime, sampled: Gauges | None = None) -> Sequence[Queue]:
        with self.lock_tables() as tables:
            return listings.queues(tables, now, sampled)

    async def pause_queue(self, name: str, *, paused: bool, pause: Pause | None = None) -> None:
        with self.lock_tables() as tables:
            tables.known_queues.add(name)
            if paused:
                tables.paused_queues[name] = pause
            else:
                tables.paused_queues.pop(name, None)
                tables.hints.add(Hint.JOBS)

    async def group_depths(self, name: str, look: int) -> GroupDepths:
        with self.lock_tables() as tables:
            return depths.group_depths(tables, name, look)

    async def limit_queue(self, name: str, limits: Limits) -> None:
        with self.lock_tables() as tables:
            tables.known_queues.add(name)
            tables.put_limits(name, limits)
            tables.hints.add(Hint.JOBS)

    async def watched_queues(self, now: datetime) -> Sequence[WatchedQueue]:
        with self.lock_tables() as tables:
            return lateness.watched_queues(tables, now)

    async def note_lateness(self, changes: Sequence[LatenessChange], now: datetime) -> int:
        with self.lock_tables() as tables:
            return lateness.note_lateness(tables, changes, now)

    async def alerts(self, *, is_open: bool, limit: int) -> Sequence[Alert]:
        with self.lock_tables() as tables:
            return alerts.alerts(tables, is_open=is_open, limit=limit)

    async def note_alerts(
        self, changes: Sequence[AlertChange], now: datetime
    ) -> Sequence[AlertChange]:
        with self.lock_tables() as tables:
            return alerts.note_alerts(tables, changes, now)

    async def prune_alerts(self, before: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return alerts.prune_alerts(tables, before, limit)

    async def silences(self, now: datetime) -> Sequence[AlertSilence]:
        with self.lock_tables() as tables:
            return alerts.silences(tables, now)

    async def add_silence(self, silence: AlertSilence) -> None:
        with self.lock_tables() as tables:
            tables.watch.silences[silence.id] = silence

    async def end_silence(self, id: str) -> bool:
        with self.lock_tables() as tables:
            return tables.watch.silences.pop(id, None) is not None

    async def runs_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[JobRun]:
        with self.lock_tables() as tables:
            return timeline.runs_between(tables, ids, first, last, limit)

    async def run_counts(
        self,
        ids: Collection[ScheduleId],
        first: datetime,
        last: datetime,
        width: timedelta,
        limit: int,
    ) -> Sequence[RunCount]:
        with self.lock_tables() as tables:
            return timeline.run_counts(tables, ids, first, last, width, limit)

    async def skips_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[SkippedSpan]:
        with self.lock_tables() as tables:
            return timeline.skips_between(tables, ids, first, last, limit)

    async def forgotten_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[ForgottenRun]:
        with self.lock_tables() as tables:
            return timeline.forgotten_between(tables, ids, first, last, limit)

    async def watch_stream(self, process: str, until: datetime) -> None:
        with self._lock:
            self.streams.watchers[process] = until

    async def stream_watchers(self, now: datetime) -> Sequence[str]:
        with self._lock:
            return live.stream_watchers(self.streams, now)

    async def add_stream_batch(self, batch: StreamBatch) -> None:
        with self._lock:
            live.add_stream_batch(self.streams, batch)

    async def stream_batches(
        self, since: datetime, besides: str, limit: int
    ) -> Sequence[StreamBatch]:
        with self._lock:
            return live.stream_batches(self.streams, since, besides, limit)

    async def prune_stream(self, before: datetime, limit: int) -> int:
        with self._lock:
            return live.prune_stream(self.streams, before, limit)

    async def add_log_lines(self, lines: Sequence[JobLogLine]) -> int:
        with self.lock_tables() as tables:
            return job_logs.add_log_lines(tables, lines)

    async def log_lines(
        self, job: JobId, after: int, limit: int, attempt: int | None = None
    ) -> Sequence[JobLogLine]:
        with self.lock_tables() as tables:
            return job_logs.log_lines(tables, job, after, limit, attempt)

    async def export_log_lines(self, after: LineKey | None, limit: int) -> Sequence[JobLogLine]:
        with self.lock_tables() as tables:
            return job_logs.export_log_lines(tables, after, limit)

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

    # Bulks.

    async def add_bulk(self, bulk: Bulk, keyed: KeyedRequest | None = None) -> None:
        with self.lock_tables() as tables:
            idempotency.run(tables, keyed, lambda: bulk_verbs.add_bulk(tables, bulk))

    async def bulk(self, id: BulkId) -> Bulk | None:
        with self.lock_tables() as tables:
            return tables.access.bulks.get(id)

    async def bulks(self, before: BulkId | None, limit: int) -> Sequence[Bulk]:
        with self.lock_tables() as tables:
            return bulk_verbs.bulks(tables, before, limit)

    async def next_bulk(self) -> Bulk | None:
        with self.lock_tables() as tables:
            return bulk_verbs.next_bulk(tables)

    async def run_bulk(
        self, id: BulkId, now: datetime, limit: int, *, skip: bool = False
    ) -> Bulk | None:
        with self.lock_tables() as tables:
            return bulk_verbs.run_bulk(tables, id, now, limit, skip=skip)

    async def stop_bulk(self, id: BulkId, now: datetime) -> Bulk | None:
        with self.lock_tables() as tables:
            return bulk_verbs.stop_bulk(tables, id, now)

    async def prune_bulks(self, before: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return bulk_verbs.prune_bulks(tables, before, limit)

    # Faults.

    async def note_faults(self, changes: Sequence[FaultChange]) -> None:
        with self.lock_tables() as tables:
            fault_verbs.note_faults(tables, changes)

    async def faults(self) -> Sequence[FaultRecord]:
        with self.lock_tables() as tables:
            return fault_verbs.faults(tables)

    async def fault(self, key: int) -> FaultRecord | None:
        with self.lock_tables() as tables:
            return tables.ends.faults.get(key)

    async def silence_fault(self, key: int, until: datetime | None, note: str | None) -> bool:
        with self.lock_tables() as tables:
            return fault_verbs.silence_fault(tables, key, until, note)

    async def write_fault_note(self, key: int, note: OperatorNote | None) -> bool:
        with self.lock_tables() as tables:
            return fault_verbs.write_fault_note(tables, key, note)

    async def fault_jobs(self, keys: Collection[int], limit: int) -> Mapping[int, FaultJobs]:
        with self.lock_tables() as tables:
            return fault_verbs.fault_jobs(tables, keys, limit)

    async def prune_faults(self, before: datetime) -> int:
        with self.lock_tables() as tables:
            return fault_verbs.prune_faults(tables, before)

    async def dead_letter_heads(
        self, before: DeadLetterId | None, limit: int
    ) -> Sequence[DeadLetterHead]:
        with self.lock_tables() as tables:
            return fault_verbs.dead_letter_heads(tables, before, limit)

    async def stats(
        self,
        now: datetime,
        ended: Mapping[str, int] | None = None,
        sampled: Gauges | None = None,
    ) -> Stats:
        with self.lock_tables() as tables:
            return listings.stats(tables, now, ended, sampled)

    # The history of rates and depths

    async def put_pulses(self, pulses: Sequence[Pulse]) -> int:
        with self.lock_tables() as tables:
            return history.put_pulses(tables.history, pulses)

    async def pulses(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, series: bool = True
    ) -> Sequence[Pulse]:
        with self.lock_tables() as tables:
            return history.pulses(tables.history, resolution, first, last, limit, series=series)

    async def oldest_history(self, resolution: int) -> datetime | None:
        with self.lock_tables() as tables:
            return history.oldest_history(tables.history, resolution)

    async def fold_history(
        self,
        resolution: int,
        first: datetime,
        last: datetime,
        pulses: Sequence[Pulse],
        samples: Sequence[tuple[int, Gauges]],
    ) -> int:
        with self.lock_tables() as tables:
            kept = tables.history
            return history.fold_history(kept, resolution, first, last, pulses, samples)

    async def put_sample(self, resolution: int, sample: Gauges) -> bool:
        with self.lock_tables() as tables:
            return history.put_sample(tables.history, resolution, sample)

    async def samples(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, queues: bool = True
    ) -> Sequence[Gauges]:
        with self.lock_tables() as tables:
            found = history.samples(tables.history, resolution, first, last, limit)
        return found if queues else [Gauges(at=s.at, took=s.took, total=s.total) for s in found]

    async def newest_sample(self, resolution: int) -> Gauges | None:
        with self.lock_tables() as tables:
            return history.newest_sample(tables.history, resolution)

    async def count_depths(self, now: datetime, queues_max: int) -> Gauges:
        with self.lock_tables() as tables:
            return depths.count_depths(tables, now, queues_max)

    async def count_ended(self, now: datetime) -> EndedCounts:
        with self.lock_tables() as tables:
            return depths.count_ended(tables, now)

    # Events

    async def unrouted_events(self, limit: int) -> Unrouted:
        with self.lock_tables() as tables:
            return event_verbs.unrouted_events(tables, limit)

    async def event_schedules(self, known: Mapping[ScheduleId, int]) -> EventSchedules:
        with self.lock_tables() as tables:
            return event_verbs.event_schedules(tables, known)

    async def keyed_jobs(self, keys: Collection[EventKey]) -> Sequence[KeyedJob]:
        with self.lock_tables() as tables:
            return event_verbs.keyed_jobs(tables, keys)

    async def open_waits(self, keys: Collection[AwaitedKey], limit: int) -> Sequence[EventWait]:
        with self.lock_tables() as tables:
            return event_waits.open_waits(tables, keys, limit)

    async def await_event(self, wait: EventWait, token: Token, now: datetime) -> WaitResult | None:
        with self.lock_tables() as tables:
            return event_waits.await_event(tables, wait, token, now)

    async def route(self, routing: Routing) -> bool:
        with self.lock_tables() as tables:
            return event_verbs.route(tables, routing)

    async def publish(
        self, events: Sequence[Event], now: datetime, keyed: KeyedRequest | None = None
    ) -> Sequence[bool]:
        with self.lock_tables() as tables:
            return idempotency.run(tables, keyed, lambda: event_verbs.publish(tables, events, now))

    async def events(self, filter: EventFilter) -> Sequence[StoredEvent]:
        with self.lock_tables() as tables:
            return event_verbs.newest_events(tables, filter)

    async def events_by_id(self, id: str, source: str | None = None) -> Sequence[StoredEvent]:
        with self.lock_tables() as tables:
            return event_verbs.events_by_id(tables, id, source)

    async def events_of_job(self, id: JobId) -> Sequence[StoredEvent]:
        with self.lock_tables() as tables:
            return event_verbs.events_of_job(tables, id)

    async def replay_event(self, seq: EventSeq) -> bool:
        with self.lock_tables() as tables:
            return event_verbs.replay(tables, seq)

    async def wanted_types(self) -> frozenset[str]:
        with self.lock_tables() as tables:
            return own_types(tables)

    async def prune_events(self, before: datetime, limit: int) -> int:
        with self.lock_tables() as tables:
            return event_verbs.prune_events(tables, before, limit)

    async def export_events(self, after: EventSeq | None, limit: int) -> Sequence[EventExport]:
        with self.lock_tables() as tables:
            return event_copies.export_events(tables, after, limit)

    async def import_events(self, exports: Sequence[EventExport]) -> int:
        with self.lock_tables() as tables:
            return event_copies.import_events(tables, exports)

    async def export_event_keys(self, after: JobId | None, limit: int) -> Sequence[EventKeyExport]:
        with self.lock_tables() as tables:
            return event_copies.export_event_keys(tables, after, limit)

    async def import_event_keys(self, exports: Sequence[EventKeyExport]) -> int:
        with self.lock_tables() as tables:
            return event_copies.import_event_keys(tables, exports)

    async def export_event_waits(
        self, after: tuple[JobId, str] | None, limit: int
    ) -> Sequence[EventWaitExport]:
        with self.lock_tables() as tables:
            return event_waits.export_event_waits(tables, after, limit)

    async def import_event_waits(self, exports: Sequence[EventWaitExport]) -> int:
        with self.lock_tables() as tables:
            return event_waits.import_event_waits(tables, exports)

    # Access

    async def secret(self, fresh: bytes) -> bytes:
        with self.lock_tables() as tables:
            access_tables = tables.access
            access_tables.secret = access_tables.secret or fresh
            return access_tables.secret

    async def note_map_version(self, version: int) -> int:
        with self.lock_tables() as tables:
            tables.access.map_version = max(tables.access.map_version, version)
            return tables.access.map_version

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
