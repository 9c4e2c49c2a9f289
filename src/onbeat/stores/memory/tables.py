"""The tables and their indexes."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from onbeat.model.access import ApiKey, AuditRecord
from onbeat.model.alert import Alert, AlertSilence
from onbeat.model.attempt import Attempt
from onbeat.model.bulk import Bulk, BulkId
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.event import StoredEvent
from onbeat.model.idempotency import KeyedAnswer
from onbeat.model.ids import DeadLetterId, EventSeq, JobId, ScheduleId, WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.live import StreamBatch
from onbeat.model.queue import NO_LIMITS, Limits, Pause
from onbeat.model.route import Carried, EventKey
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.model.transition import Transition
from onbeat.model.worker import WorkerRecord
from onbeat.ports.store import Hint
from onbeat.rules.fairness import KEPT, GroupKey
from onbeat.rules.limits import LimitKey
from onbeat.stores.memory.dispositions import DispositionTable
from onbeat.stores.memory.end_tables import EndTables
from onbeat.stores.memory.flow_index import FlowIndex, key_of
from onbeat.stores.memory.history import HistoryTables
from onbeat.stores.memory.run_times import RunTimes
from onbeat.stores.memory.sorted_keys import SortedKeys
from onbeat.stores.memory.wait_table import WaitTable

AT_FIRST = datetime.min.replace(tzinfo=UTC)

ByTime = SortedKeys[tuple[datetime, JobId]]


class ReadyList(NamedTuple):
    """The common fields of jobs that are claimed in the order of their due times."""

    queue: str
    priority: int
    lane: str
    group: str | None


def limit_keys(queue: str, group: str | None) -> Iterator[LimitKey]:
    """The limits that count a running job."""
    yield queue, ""
    if group is not None:
        yield queue, group


class KeyedRow(NamedTuple):
    """A request with a key, the start of its retention, and the range of ids of its jobs."""

    answer: KeyedAnswer
    kept_from: datetime
    first_job: JobId | None
    last_job: JobId | None


class RequestTable:
    """Requests by the digests of their idempotency keys, and by age."""

    def __init__(self) -> None:
        self.rows: dict[bytes, KeyedRow] = {}
        self.by_age: SortedKeys[tuple[datetime, bytes]] = SortedKeys()
        self.digests: SortedKeys[bytes] = SortedKeys()

    def put(self, digest: bytes, row: KeyedRow) -> None:
        self.remove(digest)
        self.rows[digest] = row
        self.by_age.add((row.kept_from, digest))
        self.digests.add(digest)

    def remove(self, digest: bytes) -> None:
        old = self.rows.pop(digest, None)
        if old is not None:
            self.by_age.discard((old.kept_from, digest))
            self.digests.discard(digest)


def has_started(job: Job) -> bool:
    return job.token > 0


def is_overdue(job: Job, now: datetime) -> bool:
    """Whether a waiting job may no longer start. After an attempt there is no bound."""
    return job.start_by is not None and job.start_by < now


class EventKeyRow(NamedTuple):
    """A job by what its events are gathered, throttled and cancelled by."""

    key: EventKey
    job_id: JobId
    opened_at: datetime
    gathered: int


class EventTables:
    """Events by seq, the jobs that carry them, and the schedules that react to events."""

    def __init__(self) -> None:
        self.rows: dict[EventSeq, StoredEvent] = {}
        self.last = 0
        self.by_id: dict[str, dict[str, EventSeq]] = {}
        self.unrouted: SortedKeys[EventSeq] = SortedKeys()
        # By age, which begins to count later where a job kept the event.
        self.by_age: SortedKeys[tuple[datetime, EventSeq]] = SortedKeys()
        self.carried: dict[EventSeq, dict[JobId, Carried]] = {}
        self.seqs_of: dict[JobId, set[EventSeq]] = {}
        self.keyed: dict[JobId, EventKeyRow] = {}
        self.jobs_of: dict[EventKey, set[JobId]] = {}
        self.schedules: set[ScheduleId] = set()
        self.waits = WaitTable()

    def remove(self, seq: EventSeq) -> None:
        event = self.rows.pop(seq).event
        self.unrouted.discard(seq)
        del self.by_id[event.id][event.source]
        if not self.by_id[event.id]:
            del self.by_id[event.id]
        for id in self.carried.pop(seq, {}):
            self.seqs_of[id].discard(seq)
            if not self.seqs_of[id]:
                del self.seqs_of[id]

    def carry(self, carried: Carried) -> None:
        """Record that the job carries the event; does nothing if it is recorded."""
        self.carried.setdefault(carried.seq, {}).setdefault(carried.job_id, carried)
        self.seqs_of.setdefault(carried.job_id, set()).add(carried.seq)

    def leave_unread(self, id: JobId) -> None:
        """The target of the job gets none of the events that are carried so far."""
        for seq in self.seqs_of.get(id, ()):
            self.carried[seq][id] = replace(self.carried[seq][id], reads=False)

    def of_key(self, key: EventKey) -> list[EventKeyRow]:
        return [self.keyed[id] for id in self.jobs_of.get(key, ())]

    def put_key(self, row: EventKeyRow) -> None:
        self.remove_key(row.job_id)
        self.keyed[row.job_id] = row
        self.jobs_of.setdefault(row.key, set()).add(row.job_id)

    def remove_key(self, id: JobId) -> None:
        old = self.keyed.pop(id, None)
        if old is not None:
            self.jobs_of[old.key].discard(id)
            if not self.jobs_of[old.key]:
                del self.jobs_of[old.key]


class AccessTables:
    def __init__(self) -> None:
        self.secret: bytes | None = None
        self.map_version = 0
        self.keys: dict[str, ApiKey] = {}
        self.audit: dict[str, AuditRecord] = {}
        self.bulks: dict[BulkId, Bulk] = {}


class WatchTables:
    """What is known of things that are watched: since when queues are late, and alerts."""

    def __init__(self) -> None:
        self.late_since: dict[str, datetime] = {}
        self.alerts: dict[str, Alert] = {}
        self.silences: dict[str, AlertSilence] = {}


class StreamTables:
    """Who watches the live stream until when, and what processes tell each other."""

    def __init__(self) -> None:
        self.watchers: dict[str, datetime] = {}
        self.batches: dict[tuple[datetime, str, int], StreamBatch] = {}


class Tables:
    """All state of a memory store. Rows change only through `put_...` and `remove_...`."""

    edge = AT_FIRST

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.ids: SortedKeys[JobId] = SortedKeys()
        self.counts: Counter[JobState] = Counter()
        self.attempts: dict[JobId, list[Attempt]] = defaultdict(list)
        self.transitions: dict[JobId, list[Transition]] = defaultdict(list)
        self.schedules: dict[ScheduleId, Schedule] = {}
        self.schedule_keys: dict[str, ScheduleId] = {}
        self.dispositions = DispositionTable()
        self.workers: dict[WorkerId, WorkerRecord] = {}
        self.paused_queues: dict[str, Pause | None] = {}
        self.limits: dict[str, Limits] = {}
        self.watch = WatchTables()
        # When the bucket of a rate will be full again; full if there is no entry.
        self.meters: dict[LimitKey, datetime] = {}
        # By fair queue, the last turns of its groups, the latest at the end.
        self.turns: dict[str, dict[GroupKey, int]] = {}
        self.running: Counter[LimitKey] = Counter()
        self.known_queues: set[str] = set()
        self.dead_letters: dict[DeadLetterId, DeadLetter] = {}
        self.access, self.events, self.requests = AccessTables(), EventTables(), RequestTable()

        # Jobs that may be claimed once they are due, without those that had lapsed at `edge`.
        self.ready_lists: dict[ReadyList, ByTime] = {}
        self.bounded: ByTime = SortedKeys()
        self.holders: dict[str, JobId] = {}
        self.leases: dict[WorkerId, set[JobId]] = defaultdict(set)
        self.live: dict[ScheduleId, ByTime] = defaultdict(SortedKeys)
        self.busy: dict[ScheduleId, set[JobId]] = defaultdict(set)
        self.ended_of: dict[ScheduleId, ByTime] = defaultdict(SortedKeys)
        self.ended: dict[JobState, ByTime] = defaultdict(SortedKeys)
        # The dependencies between jobs, in both directions.
        self.awaits: dict[JobId, set[JobId]] = {}
        self.awaited_by: dict[JobId, set[JobId]] = {}
        self.ends, self.flows, self.history = EndTables(), FlowIndex(), HistoryTables()
        self.hints, self.run_times = set[Hint](), RunTimes()

    def put_job(self, job: Job) -> None:
        """Store the job in place of its former version."""
        old = self.jobs.get(job.id)
        if old is not None:
            self.unindex(old)
            self.hint_freed_slot(old, job)
        self.jobs[job.id] = job
        self.ids.add(job.id)
        self.flows.add(job)
        self.run_times.add(job)
        self.counts[job.state] += 1
        if job.is_final:
            self.index_ended(job)
        else:
            self.index_live(job)

    def remove_job(self, id: JobId) -> None:
        self.unindex(self.jobs.pop(id))
        self.ids.discard(id)
        self.attempts.pop(id, None)
        self.transitions.pop(id, None)
        self.ends.lines.pop(id, None)

    def hint_freed_slot(self, old: Job, new: Job) -> None:
        """Hint that the end of a job in a limited queue lets another start."""
        has_stopped = old.state is JobState.RUNNING and new.state is not JobState.RUNNING
        if has_stopped and old.queue in self.limits:
            self.hints.add(Hint.JOBS)

    def index_ended(self, job: Job) -> None:
        assert job.finished_at is not None, "an ended job says when it ended"
        self.ended[job.state].add((job.finished_at, job.id))
        if job.schedule_id is not None:
            self.ended_of[job.schedule_id].add((job.due_at, job.id))
        self.ends.add(job)
        self.hints.add(Hint.ENDED)

    def index_live(self, job: Job) -> None:
        if job.unique is not None:
            self.holders[job.unique] = job.id
        if job.schedule_id is not None:
            self.live[job.schedule_id].add((job.due_at, job.id))
            if has_started(job):
                self.busy[job.schedule_id].add(job.id)
        if job.worker is not None:
            self.leases[job.worker].add(job.id)
        if job.state is JobState.RUNNING:
            self.running.update(limit_keys(job.queue, job.group))
        if job.start_by is not None and job.state is JobState.WAITING:
            self.bounded.add((job.start_by, job.id))
        self.add_to_list(job)

    def unindex(self, job: Job) -> None:
        self.counts[job.state] -= 1
        self.flows.discard(job)
        self.run_times.discard(job)
        if job.finished_at is not None:
            self.ended[job.state].discard((job.finished_at, job.id))
        if job.schedule_id is not None:
            self.ended_of[job.schedule_id].discard((job.due_at, job.id))
            self.live[job.schedule_id].discard((job.due_at, job.id))
            self.busy[job.schedule_id].discard(job.id)
        self.ends.discard(job)
        if job.unique is not None and self.holders.get(job.unique) == job.id:
            del self.holders[job.unique]
        if job.worker is not None:
            self.leases[job.worker].discard(job.id)
            if not self.leases[job.worker]:
                del self.leases[job.worker]
        if job.state is JobState.RUNNING:
            self.count_out(job)
        if job.start_by is not None:
            self.bounded.discard((job.start_by, job.id))
        self.remove_from_list(job)

    def count_out(self, job: Job) -> None:
        for key in limit_keys(job.queue, job.group):
            self.running[key] -= 1
            if not self.running[key]:
                del self.running[key]

    def ready_list_of(self, job: Job) -> ReadyList:
        """The ready list of a job; groups have separate lists only if claims separate them."""
        limits = self.limits.get(job.queue, NO_LIMITS)
        group = job.group if limits.by_group else None
        return ReadyList(job.queue, job.priority, lane_of(job.target), group)

    def add_to_list(self, job: Job) -> None:
        """Add the job to its ready list, if it may be claimed once it is due."""
        if self.is_claimable(job):
            self.ready_lists.setdefault(self.ready_list_of(job), SortedKeys()).add(
                (job.due_at, job.id)
            )
            self.hints.add(Hint.JOBS)

    def remove_from_list(self, job: Job) -> None:
        line = self.ready_list_of(job)
        keys = self.ready_lists.get(line)
        if keys is None:
            return
        keys.discard((job.due_at, job.id))
        if not keys:
            del self.ready_lists[line]

    def is_claimable(self, job: Job) -> bool:
        return (
            job.state is JobState.WAITING
            and job.blocked_by == 0
            and not self.is_paused(job.schedule_id)
            and not is_overdue(job, self.edge)
        )

    def is_live(self, id: JobId) -> bool:
        job = self.jobs.get(id)
        return job is not None and not job.is_final

    def is_paused(self, id: ScheduleId | None) -> bool:
        schedule = None if id is None else self.schedules.get(id)
        return schedule is not None and schedule.status is ScheduleStatus.PAUSED

    def update_overdue(self, now: datetime) -> None:
        """Remove jobs that have lapsed by `now` from the ready lists, and return others.

        Each job is handled once, when `now` passes its bound, so lapsed jobs cost later claims
        nothing. `now` can fall, as clocks can be set back.
        """
        low, high = sorted((self.edge, now))
        self.edge = now
        if not self.bounded:
            return
        for id in tuple(self.bounded_between(low, high)):
            self.remove_from_list(self.jobs[id])
            self.add_to_list(self.jobs[id])

    def bounded_between(self, low: datetime, high: datetime) -> Iterator[JobId]:
        for start_by, id in self.bounded.after((low, JobId(""))):
            if start_by >= high:
                return
            yield id

    def put_limits(self, name: str, limits: Limits) -> None:
        """Set the limits of a queue; its live jobs change lists if limits by group start or end."""
        old = self.limits.get(name, NO_LIMITS)
        live = [job for job in self.jobs.values() if job.queue == name and not job.is_final]
        for job in live:
            self.remove_from_list(job)
        if limits == NO_LIMITS:
            self.limits.pop(name, None)
        else:
            self.limits[name] = limits
        for job in live:
            self.add_to_list(job)
        if limits.late_after is None:
            self.watch.late_since.pop(name, None)
        self.refill(name, old, limits)
        if not limits.fair:
            self.turns.pop(name, None)

    def put_turn(self, group_key: GroupKey) -> None:
        """Give the turn to the group, so that all others come before it."""
        turns = self.turns.setdefault(group_key.queue, {})
        newest = 1 + next(reversed(turns.values()), 0)
        turns.pop(group_key, None)
        turns[group_key] = newest
        forgotten = next(iter(turns))
        if turns[forgotten] <= newest - KEPT:
            del turns[forgotten]

    def refill(self, name: str, old: Limits, new: Limits) -> None:
        """A changed rate begins with a full bucket."""
        for queue, group in tuple(self.meters):
            rates = (old.group_rate, new.group_rate) if group else (old.rate, new.rate)
            if queue == name and rates[0] != rates[1]:
                del self.meters[queue, group]

    def put_schedule(self, schedule: Schedule) -> None:
        old = self.schedules.get(schedule.id)
        if old is not None and old.key is not None:
            del self.schedule_keys[old.key]
        self.schedules[schedule.id] = schedule
        if schedule.on:
            self.events.schedules.add(schedule.id)
        else:
            self.events.schedules.discard(schedule.id)
        if schedule.key is not None:
            self.schedule_keys[schedule.key] = schedule.id
        was_paused = old is not None and old.status is ScheduleStatus.PAUSED
        if was_paused != (schedule.status is ScheduleStatus.PAUSED):
            self.replace_live(schedule.id)

    def remove_schedule(self, schedule: Schedule) -> None:
        del self.schedules[schedule.id]
        self.events.schedules.discard(schedule.id)
        if schedule.key is not None:
            del self.schedule_keys[schedule.key]

    def replace_live(self, id: ScheduleId) -> None:
        """Update the ready lists of the schedule's jobs after pause or resume."""
        for job in self.live_jobs(id):
            self.remove_from_list(job)
            self.add_to_list(job)

    def live_jobs(self, id: ScheduleId) -> tuple[Job, ...]:
        """Live jobs of the schedule, by due time."""
        return tuple(self.jobs[job_id] for _, job_id in self.live[id])

    def waiting_jobs(self, id: ScheduleId) -> tuple[Job, ...]:
        return tuple(job for job in self.live_jobs(id) if job.state is JobState.WAITING)

    def wait_for_flow(self, job: Job) -> set[JobId]:
        """What the job waits for, for `add_dependencies`, if it waits for a flow."""
        if job.awaits_flow is None:
            return set()
        self.flows.awaited.add(job.awaits_flow)
        return {key_of(job.awaits_flow)}

    def add_dependencies(self, job: Job, awaited: set[JobId]) -> Job:
        """Add dependencies; returns the job as blocked by the others."""
        if awaited:
            self.awaits[job.id] = awaited
        for id in awaited:
            self.awaited_by.setdefault(id, set()).add(job.id)
        return replace(job, blocked_by=len(awaited))

    def unblock(self, id: JobId) -> None:
        """Delete the dependencies of the job."""
        for awaited in tuple(self.awaits.get(id, ())):
            self.end_wait(id, awaited)

    def end_wait(self, id: JobId, awaited: JobId) -> None:
        for index, key, other in ((self.awaits, id, awaited), (self.awaited_by, awaited, id)):
            index[key].discard(other)
            if not index[key]:
                del index[key]

    def note(self, id: JobId, at: datetime, to: str, cause: str | None = None) -> None:
        """Add a transition to the history of the job."""
        job = self.jobs[id]
        self.transitions[id].append(
            Transition(job_id=id, at=at, to=to, cause=cause, attempt=job.attempt, worker=job.worker)
        )
