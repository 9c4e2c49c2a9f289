"""The store methods that are the same for every database, or for every database server."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.alert import Alert, AlertChange, AlertSilence
from onbeat.model.attempt import Attempt
from onbeat.model.bulk import Bulk, BulkId
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import RequestInFlight
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
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.model.transition import Stats, Transition
from onbeat.model.worker import WorkerRecord
from onbeat.ports.access import TargetChange
from onbeat.ports.events import EventExport, EventFilter, EventKeyExport, EventWaitExport
from onbeat.ports.store import (
    Disposition,
    DispositionExport,
    Enqueued,
    FlowCounts,
    HeldLease,
    JobExport,
    SchemaChange,
)
from onbeat.rules.dead_rows import NO_NEED_SECONDS
from onbeat.stores.sql.dialect import Row
from onbeat.stores.sql.loop_connections import LoopConnections
from onbeat.stores.sql.session import Answer, P, Session, Verb, bind_verb
from onbeat.stores.sql.values import instant, instant_or_none, micros
from onbeat.stores.sql.verbs import (
    access,
    alerts,
    cancel_and_retry,
    cascades,
    counts,
    edit_schedules,
    event_copies,
    event_waits,
    flows,
    held_keys,
    history,
    imports,
    job_logs,
    job_search,
    lateness,
    live,
    prune,
    prune_events,
    queues,
    reschedule,
    routes,
    sweeps,
    timeline,
    workers,
)
from onbeat.stores.sql.verbs import bulks as bulk_verbs
from onbeat.stores.sql.verbs import dead_letters as dead_letter_verbs
from onbeat.stores.sql.verbs import dispositions as disposition_verbs
from onbeat.stores.sql.verbs import events as event_verbs
from onbeat.stores.sql.verbs import faults as fault_verbs
from onbeat.stores.sql.verbs import jobs as job_verbs
from onbeat.stores.sql.verbs import plans as plan_verbs
from onbeat.stores.sql.verbs import pulses as pulse_verbs
from onbeat.stores.sql.verbs import schedules as schedule_verbs
from onbeat.stores.sql.verbs.idempotency import (
    KeyedJobs,
    KeyVerbs,
    export_requests,
    forget_requests,
    import_requests,
    keyed_answers,
    run_keyed,
)

POOL_MAX = 8

T = TypeVar("T", bound=Session)
Connections = TypeVar("Connections", bound=LoopConnections[Any, Any])


class SqlStore(ABC, Generic[T]):
    """Subclasses define how verbs run, and add the methods that differ by database.

    `T` is the argument of verbs: a connection inside a transaction.
    """

    has_slots = False

    def __init__(self, keys: KeyVerbs[T, Any]) -> None:
        self._keys = keys
        self._schema_change: SchemaChange | None = None

    @property
    def schema_changes(self) -> Sequence[SchemaChange]:
        return () if self._schema_change is None else (self._schema_change,)

    @property
    def hints_at_once(self) -> bool:
        """Other processes' changes are polled for."""
        return False

    @abstractmethod
    async def _read(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a read-only verb. Each of its statements may see a different state."""

    @abstractmethod
    async def _transact(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """Run a verb in one transaction."""

    async def _snapshot(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """Run a read-only verb. All of its statements see the same state."""
        return await self._read(verb, *args, **options)

    async def _run(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a verb whose single writing statement is its own transaction."""
        return await self._transact(verb, *args, **options)

    async def _beat(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """As `_run`, on a path that other work cannot delay."""
        return await self._run(verb, *args, **options)

    async def _write(
        self,
        keyed: KeyedRequest | None,
        verb: Verb[T, P, Answer],
        *args: P.args,
        **options: P.kwargs,
    ) -> Answer:
        """Run a verb in one transaction, with the idempotency key of its request if it has one."""
        if keyed is None:
            return await self._transact(verb, *args, **options)
        work = bind_verb(verb, *args, **options)
        return await self._transact(run_keyed, self._keys, keyed, work)

    # Planner

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.due_schedules, micros(now), limit)

    async def next_plan_at(self) -> datetime | None:
        value = await self._read(schedule_verbs.next_plan_at)
        return None if value is None else instant(value)

    async def overdue_jobs(self, now: datetime, limit: int) -> Sequence[Job]:
        return await self._read(prune.overdue_jobs, micros(now), limit)

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.schedules_by_id, ids)

    async def cancel_overdue(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        return await self._transact(cancel_and_retry.cancel_overdue, ids, reason, micros(now))

    async def continue_cascades(self, now: datetime) -> int:
        if not await self._read(cascades.has_cascades):
            return 0
        return await self._transact(cascades.continue_cascades, micros(now))

    async def close_flows(self, now: datetime) -> int:
        ended = await self._read(flows.ended_flows)
        return await self._transact(flows.close_flows, ended, micros(now)) if ended else 0

    # Dispatcher, renewer, rescuer

    async def name_queues(self, names: Collection[str]) -> None:
        if unnamed := await self._read(queues.unnamed_queues, names):
            await self._run(queues.name_queues, unnamed)

    async def queue_names(self) -> Sequence[str]:
        return await self._read(queues.queue_names)

    async def heartbeat(self, worker: WorkerRecord) -> Sequence[HeldLease]:
        return await self._beat(workers.heartbeat, worker)

    async def held_leases(self, worker: WorkerId) -> Sequence[HeldLease]:
        return await self._beat(workers.held_leases, worker)

    async def hand_over(self, id: JobId, token: Token, until: datetime) -> bool:
        return await self._transact(workers.hand_over, id, token, micros(until))

    async def workers(self) -> Sequence[WorkerRecord]:
        return await self._read(workers.workers)

    async def rewrite_workers(self, ids: Collection[WorkerId]) -> int:
        return await self._run(workers.rewrite_workers, ids)

    async def forget_workers(
        self, ids: Collection[WorkerId], beats: Mapping[WorkerId, int] | None = None
    ) -> int:
        return await self._transact(workers.forget_workers, ids, beats)

    async def sweep(self, sweep: Sweep, limit: int) -> Swept:
        return await self._transact(sweeps.sweep, sweep, limit)

    async def vacuum(self) -> float:
        return NO_NEED_SECONDS

    async def prune_held_keys(self, now: datetime, limit: int) -> int:
        return await self._transact(held_keys.prune_held_keys, micros(now), limit)

    async def forget_requests(self, *, before: datetime, now: datetime, limit: int) -> int:
        return await self._transact(forget_requests, micros(before), micros(now), limit)

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        (answer,) = await self._read(keyed_answers, [digest])
        return answer

    async def begun_at(self, digest: bytes) -> datetime | None:
        del digest  # a request is one transaction
        return None

    # Operations on schedules

    async def add_schedule(
        self, schedule: Schedule, plan: Plan, keyed: KeyedRequest | None = None
    ) -> None:
        await self._write(keyed, edit_schedules.add_schedule, schedule, plan)

    async def update_schedule(
        self, schedule: Schedule, plan: Plan | None, now: datetime, event: Event | None = None
    ) -> bool:
        verb = edit_schedules.update_schedule
        return await self._transact(verb, schedule, plan, micros(now), event)

    async def schedules_of_owner(self, owner: str) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.schedules_of_owner, owner)

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        return await self._transact(edit_schedules.delete_schedule, id, micros(now))

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        return next(iter(await self._read(schedule_verbs.schedules_by_id, [id])), None)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        return await self._read(schedule_verbs.schedule_by_key, key)

    async def doubles_of(self, keys: Collection[str]) -> Sequence[Schedule]:
        return ()  # an index keeps each key unique

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        return await self._read(schedule_verbs.schedules, filter)

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        return await self._read(job_verbs.occurrence_jobs, filter)

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        return await self._read(disposition_verbs.dispositions, id, micros(first), micros(last))

    async def latest_dispositions(
        self, id: ScheduleId, before: datetime, limit: int
    ) -> Sequence[Disposition]:
        return await self._read(disposition_verbs.latest_dispositions, id, micros(before), limit)

    async def trigger(self, id: ScheduleId, job: Job, keyed: KeyedRequest | None = None) -> None:
        await self._write(keyed, plan_verbs.trigger, id, job)

    async def backfill(
        self,
        id: ScheduleId,
        jobs: Sequence[Job],
        skips: Sequence[Skip],
        keyed: KeyedRequest | None = None,
    ) -> int:
        return await self._write(keyed, plan_verbs.backfill, id, jobs, skips)

    # Operations on jobs

    async def job(self, id: JobId) -> Job | None:
        return await self._read(job_verbs.job, id)

    async def jobs_by_id(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return await self._read(job_verbs.jobs_by_id, ids)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        verb = job_search.find_jobs if filter.is_search else job_verbs.jobs
        return await self._read(verb, filter)

    async def count_jobs(self, filter: JobFilter, most: int, *, look: int | None = None) -> Counted:
        return await self._read(job_search.count_jobs, filter, most, look=look)

    async def held_key(self, key: str, now: datetime) -> HeldKey | None:
        return await self._read(held_keys.find_held_key, key, micros(now))

    async def newest_flows(self, before: JobId | None, limit: int, look: int) -> Sequence[FlowLook]:
        return await self._read(flows.newest_flows, before, limit, look)

    async def flow_counts(self, ids: Collection[JobId]) -> FlowCounts:
        return await self._read(flows.flow_counts, ids)

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        return await self._read(history.attempts, id)

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        return await self._read(history.transitions, id)

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        return await self._transact(cancel_and_retry.cancel, ids, reason, micros(now))

    async def reschedule(self, id: JobId, due_at: datetime, now: datetime) -> Job | None:
        return await self._transact(reschedule.reschedule, id, micros(due_at), micros(now))

    async def retry(
        self,
        ids: Sequence[JobId],
        now: datetime,
        keyed: KeyedRequest | None = None,
        *,
        dependents: bool = True,
        at_once: bool = True,
    ) -> Sequence[Job | None]:
        verb = cancel_and_retry.retry
        return await self._write(
            keyed, verb, ids, micros(now), dependents=dependents, at_once=at_once
        )

    # Operations on queues

    async def queues(self, now: datetime, sampled: Gauges | None = None) -> Sequence[Queue]:
        return await self._read(counts.queues, micros(now), sampled)

    async def pause_queue(self, name: str, *, paused: bool, pause: Pause | None = None) -> None:
        await self._run(queues.pause_queue, name, paused=paused, pause=pause)

    async def group_depths(self, name: str, look: int) -> GroupDepths:
        return await self._read(counts.group_depths, name, look)

    async def limit_queue(self, name: str, limits: Limits) -> None:
        await self._transact(queues.limit_queue, name, limits)

    async def watched_queues(self, now: datetime) -> Sequence[WatchedQueue]:
        return await self._read(lateness.watched_queues, micros(now))

    async def note_lateness(self, changes: Sequence[LatenessChange], now: datetime) -> int:
        return await self._transact(lateness.note_lateness, changes, micros(now))

    # Alerts

    async def alerts(self, *, is_open: bool, limit: int) -> Sequence[Alert]:
        return await self._read(alerts.alerts, is_open=is_open, limit=limit)

    async def note_alerts(
        self, changes: Sequence[AlertChange], now: datetime
    ) -> Sequence[AlertChange]:
        return await self._transact(alerts.note_alerts, changes, micros(now))

    async def prune_alerts(self, before: datetime, limit: int) -> int:
        return await self._transact(alerts.prune_alerts, micros(before), limit)

    async def silences(self, now: datetime) -> Sequence[AlertSilence]:
        return await self._read(alerts.silences, micros(now))

    async def add_silence(self, silence: AlertSilence) -> None:
        await self._run(alerts.add_silence, silence)

    async def end_silence(self, id: str) -> bool:
        return await self._run(alerts.end_silence, id)

    async def stats(
        self,
        now: datetime,
        ended: Mapping[str, int] | None = None,
        sampled: Gauges | None = None,
    ) -> Stats:
        return await self._snapshot(counts.stats, micros(now), ended, sampled)

    # The history of rates and depths

    async def put_pulses(self, pulses: Sequence[Pulse]) -> int:
        rows = list(map(pulse_verbs.pulse_row, pulses))
        return await self._transact(pulse_verbs.put_pulses, rows) if rows else 0

    async def pulses(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, series: bool = True
    ) -> Sequence[Pulse]:
        span = micros(first), micros(last)
        return await self._read(pulse_verbs.pulses, resolution, *span, limit, series=series)

    async def oldest_history(self, resolution: int) -> datetime | None:
        return instant_or_none(await self._read(pulse_verbs.oldest_history, resolution))

    async def fold_history(
        self,
        resolution: int,
        first: datetime,
        last: datetime,
        pulses: Sequence[Pulse],
        samples: Sequence[tuple[int, Gauges]],
    ) -> int:
        rows = list(map(pulse_verbs.pulse_row, pulses))
        kept = [pulse_verbs.sample_row(*one) for one in samples]
        span = micros(first), micros(last)
        return await self._transact(pulse_verbs.fold_history, resolution, *span, rows, kept)

    async def put_sample(self, resolution: int, sample: Gauges) -> bool:
        row = pulse_verbs.sample_row(resolution, sample)
        return await self._transact(pulse_verbs.put_samples, [row]) > 0

    async def samples(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, queues: bool = True
    ) -> Sequence[Gauges]:
        span = micros(first), micros(last)
        return await self._read(pulse_verbs.samples, resolution, *span, limit, queues=queues)

    async def newest_sample(self, resolution: int) -> Gauges | None:
        return await self._read(pulse_verbs.newest_sample, resolution)

    async def count_depths(self, now: datetime, queues_max: int) -> Gauges:
        return await self._read(pulse_verbs.count_depths, micros(now), queues_max)

    async def count_ended(self, now: datetime) -> EndedCounts:
        return await self._read(pulse_verbs.count_ended, micros(now))

    async def runs_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[JobRun]:
        return await self._read(timeline.runs_between, ids, micros(first), micros(last), limit)

    async def run_counts(
        self,
        ids: Collection[ScheduleId],
        first: datetime,
        last: datetime,
        width: timedelta,
        limit: int,
    ) -> Sequence[RunCount]:
        wide = width // timedelta(microseconds=1)
        return await self._read(timeline.run_counts, ids, micros(first), micros(last), wide, limit)

    async def skips_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[SkippedSpan]:
        return await self._read(timeline.skips_between, ids, micros(first), micros(last), limit)

    async def forgotten_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[ForgottenRun]:
        read = timeline.forgotten_between
        return await self._read(read, ids, micros(first), micros(last), limit)

    # Faults

    async def note_faults(self, changes: Sequence[FaultChange]) -> None:
        if changes:
            await self._transact(fault_verbs.note_faults, changes)

    async def faults(self) -> Sequence[FaultRecord]:
        return await self._read(fault_verbs.faults)

    async def fault(self, key: int) -> FaultRecord | None:
        return await self._read(fault_verbs.fault, key)

    async def silence_fault(self, key: int, until: datetime | None, note: str | None) -> bool:
        at = None if until is None else micros(until)
        return await self._transact(fault_verbs.silence_fault, key, at, note)

    async def write_fault_note(self, key: int, note: OperatorNote | None) -> bool:
        return await self._transact(fault_verbs.write_fault_note, key, note)

    async def fault_jobs(self, keys: Collection[int], limit: int) -> Mapping[int, FaultJobs]:
        return await self._read(fault_verbs.fault_jobs, keys, limit)

    async def prune_faults(self, before: datetime) -> int:
        return await self._run(fault_verbs.prune_faults, micros(before))

    # Bulks

    async def add_bulk(self, bulk: Bulk, keyed: KeyedRequest | None = None) -> None:
        await self._write(keyed, bulk_verbs.add_bulk, bulk)

    async def bulk(self, id: BulkId) -> Bulk | None:
        return await self._read(bulk_verbs.bulk, id)

    async def bulks(self, before: BulkId | None, limit: int) -> Sequence[Bulk]:
        return await self._read(bulk_verbs.bulks, before, limit)

    async def next_bulk(self) -> Bulk | None:
        return await self._read(bulk_verbs.next_bulk)

    async def run_bulk(
        self, id: BulkId, now: datetime, limit: int, *, skip: bool = False
    ) -> Bulk | None:
        return await self._transact(bulk_verbs.run_bulk, id, micros(now), limit, skip=skip)

    async def stop_bulk(self, id: BulkId, now: datetime) -> Bulk | None:
        return await self._transact(bulk_verbs.stop_bulk, id, micros(now))

    async def prune_bulks(self, before: datetime, limit: int) -> int:
        return await self._run(bulk_verbs.prune_bulks, micros(before), limit)

    async def watch_stream(self, process: str, until: datetime) -> None:
        await self._run(live.watch_stream, process, micros(until))

    async def stream_watchers(self, now: datetime) -> Sequence[str]:
        return await self._read(live.stream_watchers, micros(now))

    async def add_stream_batch(self, batch: StreamBatch) -> None:
        await self._run(live.add_stream_batch, batch, micros(batch.at))

    async def stream_batches(
        self, since: datetime, besides: str, limit: int
    ) -> Sequence[StreamBatch]:
        return await self._read(live.stream_batches, micros(since), besides, limit)

    async def add_log_lines(self, lines: Sequence[JobLogLine]) -> int:
        return await self._transact(job_logs.add_log_lines, list(map(job_logs.line_row, lines)))

    async def log_lines(
        self, job: JobId, after: int, limit: int, attempt: int | None = None
    ) -> Sequence[JobLogLine]:
        return await self._read(job_logs.log_lines, job, after, limit, attempt)

    async def export_log_lines(self, after: LineKey | None, limit: int) -> Sequence[JobLogLine]:
        return await self._read(job_logs.export_log_lines, after, limit)

    async def prune_stream(self, before: datetime, limit: int) -> int:
        return await self._transact(live.prune_stream, micros(before), limit)

    # Dead letters

    async def add_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        await self._transact(dead_letter_verbs.add_dead_letters, dead_letters)

    async def dead_letters(
        self, before: DeadLetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        return await self._read(dead_letter_verbs.dead_letters, before, limit, source)

    async def dead_letters_by_id(self, ids: Collection[DeadLetterId]) -> Sequence[DeadLetter]:
        return await self._read(dead_letter_verbs.dead_letters_by_id, ids)

    async def dead_letter_heads(
        self, before: DeadLetterId | None, limit: int
    ) -> Sequence[DeadLetterHead]:
        return await self._read(fault_verbs.dead_letter_heads, before, limit)

    async def delete_dead_letters(
        self, ids: Collection[DeadLetterId], keyed: KeyedRequest | None = None
    ) -> int:
        return await self._write(keyed, dead_letter_verbs.delete_dead_letters, ids)

    # Events

    async def unrouted_events(self, limit: int) -> Unrouted:
        return await self._read(routes.unrouted_events, limit)

    async def event_schedules(self, known: Mapping[ScheduleId, int]) -> EventSchedules:
        return await self._read(routes.event_schedules, known)

    async def keyed_jobs(self, keys: Collection[EventKey]) -> Sequence[KeyedJob]:
        return await self._read(routes.keyed_jobs, keys) if keys else ()

    async def open_waits(self, keys: Collection[AwaitedKey], limit: int) -> Sequence[EventWait]:
        return await self._read(event_waits.open_waits, keys, limit)

    async def await_event(self, wait: EventWait, token: Token, now: datetime) -> WaitResult | None:
        return await self._transact(event_waits.await_event, wait, token, now)

    async def route(self, routing: Routing) -> bool:
        return await self._transact(routes.route, routing)

    async def publish(
        self, events: Sequence[Event], now: datetime, keyed: KeyedRequest | None = None
    ) -> Sequence[bool]:
        rows = [event_verbs.new_row(event, now) for event in events]
        if keyed is None:
            return await self._publish(rows)
        return await self._write(keyed, event_verbs.publish, rows)

    async def _publish(self, rows: Sequence[Row]) -> Sequence[bool]:
        """Store events, in one transaction with those of other callers."""
        return await self._transact(event_verbs.publish, rows)

    async def events(self, filter: EventFilter) -> Sequence[StoredEvent]:
        return await self._read(event_verbs.events, filter)

    async def events_by_id(self, id: str, source: str | None = None) -> Sequence[StoredEvent]:
        return await self._read(event_verbs.events_by_id, id, source)

    async def events_of_job(self, id: JobId) -> Sequence[StoredEvent]:
        return await self._read(event_verbs.events_of_job, id)

    async def replay_event(self, seq: EventSeq) -> bool:
        return await self._transact(event_verbs.replay_event, seq)

    async def wanted_types(self) -> frozenset[str]:
        return await self._read(event_verbs.wanted_types)

    async def prune_events(self, before: datetime, limit: int) -> int:
        return await self._transact(prune_events.prune_events, micros(before), limit)

    async def export_events(self, after: EventSeq | None, limit: int) -> Sequence[EventExport]:
        return await self._read(event_copies.export_events, after, limit)

    async def import_events(self, exports: Sequence[EventExport]) -> int:
        return await self._transact(event_copies.import_events, exports) if exports else 0

    async def export_event_keys(self, after: JobId | None, limit: int) -> Sequence[EventKeyExport]:
        return await self._read(event_copies.export_event_keys, after, limit)

    async def import_event_keys(self, exports: Sequence[EventKeyExport]) -> int:
        return await self._transact(event_copies.import_event_keys, exports)

    async def export_event_waits(
        self, after: tuple[JobId, str] | None, limit: int
    ) -> Sequence[EventWaitExport]:
        return await self._read(event_waits.export_event_waits, after, limit)

    async def import_event_waits(self, exports: Sequence[EventWaitExport]) -> int:
        return await self._transact(event_waits.import_event_waits, exports) if exports else 0

    # Access

    async def secret(self, fresh: bytes) -> bytes:
        known = await self._read(access.known_secret)
        return known if known is not None else await self._transact(access.secret, fresh)

    async def note_map_version(self, version: int) -> int:
        known = await self._read(access.known_map_version)
        return known if known >= version else await self._transact(access.note_map_version, version)

    async def add_key(self, key: ApiKey) -> None:
        await self._transact(access.add_key, access.key_row(key))

    async def keys(self) -> Sequence[ApiKey]:
        return await self._read(access.keys)

    async def remove_key(self, name: str) -> bool:
        return await self._run(access.remove_key, name)

    async def note_key_use(self, name: str, at: datetime) -> None:
        await self._run(access.note_key_use, name, micros(at))

    async def put_audit(self, record: AuditRecord) -> None:
        await self._run(access.put_audit, access.audit_row(record))

    async def audit(self, filter: AuditFilter) -> Sequence[AuditRecord]:
        return await self._read(access.audit, filter)

    async def prune_audit(self, before: datetime, limit: int) -> int:
        return await self._run(access.prune_audit, micros(before), limit)

    async def replace_job_targets(self, changes: Sequence[TargetChange]) -> int:
        return await self._transact(access.replace_job_targets, changes)

    async def replace_schedule_targets(self, changes: Sequence[TargetChange]) -> int:
        return await self._transact(access.replace_schedule_targets, changes)

    # Copies

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.export_schedules, after, limit)

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[DispositionExport]:
        return await self._snapshot(disposition_verbs.export_dispositions, after, limit)

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[JobExport]:
        return await self._snapshot(job_verbs.export_jobs, after, limit)

    async def export_held_keys(self, after: str | None, limit: int) -> Sequence[HeldKey]:
        return await self._read(held_keys.export_held_keys, after, limit)

    async def import_held_keys(self, held: Sequence[HeldKey]) -> int:
        return await self._transact(held_keys.import_held_keys, held)

    async def export_requests(self, after: bytes | None, limit: int) -> Sequence[StoredRequest]:
        return await self._read(export_requests, after, limit)

    async def import_requests(self, requests: Sequence[StoredRequest]) -> int:
        return await self._transact(import_requests, requests)

    async def import_schedules(self, schedules: Sequence[Schedule]) -> int:
        return await self._transact(imports.import_schedules, schedules)

    async def import_jobs(self, exports: Sequence[JobExport]) -> int:
        return await self._transact(imports.import_jobs, exports)

    async def import_dispositions(self, rows: Sequence[DispositionExport]) -> int:
        return await self._transact(disposition_verbs.import_dispositions, rows)


class ServerStore(SqlStore[T], Generic[Connections, T]):
    """Subclasses choose the connections for the running event loop."""

    @abstractmethod
    async def _at(self, act: Callable[[Connections], Awaitable[Answer]]) -> Answer:
        """Act with connections of the running loop, or in the loop of other connections."""

    async def _read(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run(verb, *args, **options))

    async def _run(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run(verb, *args, **options))

    async def _transact(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._at(lambda connections: connections.transact(verb, *args, **options))

    async def _snapshot(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._at(lambda connections: connections.view(verb, *args, **options))

    async def _beat(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run_heartbeat(verb, *args, **options))

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.apply_plans.submit(plans))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.note_progress.submit(notes))

    async def _publish(self, rows: Sequence[Row]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.publish.submit(rows))

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        (answer,) = await self._at(lambda connections: connections.keyed_answers.submit([digest]))
        return answer

    async def _enqueue_keyed(self, keyed: KeyedRequest, jobs: Sequence[Any]) -> Sequence[Enqueued]:
        """Add a few jobs, in one transaction with other requests."""
        request = KeyedJobs(keyed, jobs)
        (answer,) = await self._at(lambda connections: connections.enqueue_keyed.submit([request]))
        if answer is None:
            raise RequestInFlight
        return answer
