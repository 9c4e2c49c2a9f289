"""The rows, and the indexes that are kept with them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from onbeat.model.attempt import Attempt
from onbeat.model.event import Transition
from onbeat.model.ids import JobId, LetterId, ScheduleId, WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.letter import DeadLetter
from onbeat.model.queue import NO_LIMITS, Limits
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.model.worker import Worker
from onbeat.ports.store import Hint
from onbeat.rules.turns import KEPT, Seat
from onbeat.stores.memory.ledger import Ledger
from onbeat.stores.memory.sorted_keys import SortedKeys

AT_FIRST = datetime.min.replace(tzinfo=UTC)

ByTime = SortedKeys[tuple[datetime, JobId]]


class Line(NamedTuple):
    """What jobs that are given out in order of their due time have in common."""

    queue: str
    priority: int
    lane: str
    group: str | None


class Place(NamedTuple):
    """Where running jobs are counted: a queue, or one group of it."""

    queue: str
    group: str | None


def places_of(queue: str, group: str | None) -> Iterator[Place]:
    yield Place(queue, None)
    if group is not None:
        yield Place(queue, group)


def has_started(job: Job) -> bool:
    return job.started_at is not None


def has_lapsed(job: Job, now: datetime) -> bool:
    """Whether a waiting job may not start any more. After an attempt nothing bounds its start."""
    return job.start_by is not None and job.start_by < now


class Tables:
    """All state of a memory store. Rows change only through `put_...` and `remove_...`."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.ids: SortedKeys[JobId] = SortedKeys()
        self.counts: Counter[JobState] = Counter()
        self.attempts: dict[JobId, list[Attempt]] = defaultdict(list)
        self.transitions: dict[JobId, list[Transition]] = defaultdict(list)
        self.schedules: dict[ScheduleId, Schedule] = {}
        self.schedule_keys: dict[str, ScheduleId] = {}
        self.ledger = Ledger()
        self.workers: dict[WorkerId, Worker] = {}
        self.paused_queues: set[str] = set()
        self.limits: dict[str, Limits] = {}
        # When the bucket of a rate will be full again; it is full where nothing is kept.
        self.meters: dict[Place, datetime] = {}
        # By queue, the last turns of groups where these take turns, the latest at the end.
        self.turns: dict[str, dict[Seat, int]] = {}
        self.running: Counter[Place] = Counter()
        self.known_queues: set[str] = set()
        self.letters: dict[LetterId, DeadLetter] = {}

        # What may be claimed once it is due, as of `edge`: what had lapsed by then is not in it.
        self.lines: dict[Line, ByTime] = {}
        self.edge = AT_FIRST
        self.bounded: ByTime = SortedKeys()
        self.holders: dict[str, JobId] = {}
        self.leases: dict[WorkerId, set[JobId]] = defaultdict(set)
        self.live: dict[ScheduleId, ByTime] = defaultdict(SortedKeys)
        self.busy: dict[ScheduleId, set[JobId]] = defaultdict(set)
        self.ended_of: dict[ScheduleId, ByTime] = defaultdict(SortedKeys)
        self.ended: dict[JobState, ByTime] = defaultdict(SortedKeys)
        # Who waits for whose end, seen from both sides.
        self.awaits: dict[JobId, set[JobId]] = {}
        self.awaited_by: dict[JobId, set[JobId]] = {}

        self.hints: set[Hint] = set()

    def put_job(self, job: Job) -> None:
        """Store the job as it now is, in the place of what it was."""
        old = self.jobs.get(job.id)
        if old is not None:
            self.unindex(old)
            self.tell_of_freed_place(old, job)
        self.jobs[job.id] = job
        self.ids.add(job.id)
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

    def tell_of_freed_place(self, old: Job, new: Job) -> None:
        """A job that ends in a limited queue lets another start."""
        has_stopped = old.state is JobState.RUNNING and new.state is not JobState.RUNNING
        if has_stopped and old.queue in self.limits:
            self.hints.add(Hint.JOBS)

    def index_ended(self, job: Job) -> None:
        assert job.finished_at is not None, "an ended job says when it ended"
        self.ended[job.state].add((job.finished_at, job.id))
        if job.schedule_id is not None:
            self.ended_of[job.schedule_id].add((job.due_at, job.id))
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
            self.running.update(places_of(job.queue, job.group))
        if job.start_by is not None and job.state is JobState.WAITING:
            self.bounded.add((job.start_by, job.id))
        self.place(job)

    def unindex(self, job: Job) -> None:
        self.counts[job.state] -= 1
        if job.finished_at is not None:
            self.ended[job.state].discard((job.finished_at, job.id))
        if job.schedule_id is not None:
            self.ended_of[job.schedule_id].discard((job.due_at, job.id))
            self.live[job.schedule_id].discard((job.due_at, job.id))
            self.busy[job.schedule_id].discard(job.id)
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
        self.displace(job)

    def count_out(self, job: Job) -> None:
        for place in places_of(job.queue, job.group):
            self.running[place] -= 1
            if not self.running[place]:
                del self.running[place]

    def line_of(self, job: Job) -> Line:
        """Groups stand in lines of their own where a claim tells them apart, and only there."""
        limits = self.limits.get(job.queue, NO_LIMITS)
        group = job.group if limits.by_group else None
        return Line(job.queue, job.priority, lane_of(job.target), group)

    def place(self, job: Job) -> None:
        """Put the job into its line, if it may be claimed once it is due."""
        if self.is_claimable(job):
            self.lines.setdefault(self.line_of(job), SortedKeys()).add((job.due_at, job.id))
            self.hints.add(Hint.JOBS)

    def displace(self, job: Job) -> None:
        line = self.line_of(job)
        keys = self.lines.get(line)
        if keys is None:
            return
        keys.discard((job.due_at, job.id))
        if not keys:
            del self.lines[line]

    def is_claimable(self, job: Job) -> bool:
        return (
            job.state is JobState.WAITING
            and job.blocked_by == 0
            and not self.is_paused(job.schedule_id)
            and not has_lapsed(job, self.edge)
        )

    def is_live(self, id: JobId) -> bool:
        job = self.jobs.get(id)
        return job is not None and not job.is_final

    def is_paused(self, id: ScheduleId | None) -> bool:
        schedule = None if id is None else self.schedules.get(id)
        return schedule is not None and schedule.status is ScheduleStatus.PAUSED

    def move_edge(self, now: datetime) -> None:
        """Take what has lapsed by `now` out of the lines, and put back what has not.

        Each job is met once, when the present passes its bound: lapsed jobs cost later claims
        nothing. The present can fall, as clocks can be set.
        """
        low, high = sorted((self.edge, now))
        self.edge = now
        for id in tuple(self.bounded_between(low, high)):
            self.displace(self.jobs[id])
            self.place(self.jobs[id])

    def bounded_between(self, low: datetime, high: datetime) -> Iterator[JobId]:
        for start_by, id in self.bounded.after((low, JobId(""))):
            if start_by >= high:
                return
            yield id

    def put_limits(self, name: str, limits: Limits) -> None:
        """Limit the queue anew; its live jobs change their lines where groups come in or go."""
        old = self.limits.get(name, NO_LIMITS)
        live = [job for job in self.jobs.values() if job.queue == name and not job.is_final]
        for job in live:
            self.displace(job)
        if limits == NO_LIMITS:
            self.limits.pop(name, None)
        else:
            self.limits[name] = limits
        for job in live:
            self.place(job)
        self.refill(name, old, limits)
        if not limits.fair:
            self.turns.pop(name, None)

    def put_turn(self, seat: Seat) -> None:
        """The group has given out a job; the others come first now."""
        turns = self.turns.setdefault(seat.queue, {})
        newest = 1 + next(reversed(turns.values()), 0)
        turns.pop(seat, None)
        turns[seat] = newest
        forgotten = next(iter(turns))
        if turns[forgotten] <= newest - KEPT:
            del turns[forgotten]

    def refill(self, name: str, old: Limits, new: Limits) -> None:
        """A new rate begins with a full bucket: what was taken at another rate says nothing."""
        for place in tuple(self.meters):
            rates = (
                (old.rate, new.rate) if place.group is None else (old.group_rate, new.group_rate)
            )
            if place.queue == name and rates[0] != rates[1]:
                del self.meters[place]

    def put_schedule(self, schedule: Schedule) -> None:
        old = self.schedules.get(schedule.id)
        if old is not None and old.key is not None:
            del self.schedule_keys[old.key]
        self.schedules[schedule.id] = schedule
        if schedule.key is not None:
            self.schedule_keys[schedule.key] = schedule.id
        was_paused = old is not None and old.status is ScheduleStatus.PAUSED
        if was_paused != (schedule.status is ScheduleStatus.PAUSED):
            self.replace_live(schedule.id)

    def remove_schedule(self, schedule: Schedule) -> None:
        del self.schedules[schedule.id]
        if schedule.key is not None:
            del self.schedule_keys[schedule.key]

    def replace_live(self, id: ScheduleId) -> None:
        """Take the schedule's jobs out of the lines or put them in, after pause or resume."""
        for job in self.live_jobs(id):
            self.displace(job)
            self.place(job)

    def live_jobs(self, id: ScheduleId) -> tuple[Job, ...]:
        """Jobs of the schedule that have not ended, by due time."""
        return tuple(self.jobs[job_id] for _, job_id in self.live[id])

    def waiting_jobs(self, id: ScheduleId) -> tuple[Job, ...]:
        return tuple(job for job in self.live_jobs(id) if job.state is JobState.WAITING)

    def block(self, job: Job, awaited: set[JobId]) -> Job:
        """The job as it is while it waits for the end of these others."""
        if awaited:
            self.awaits[job.id] = awaited
        for id in awaited:
            self.awaited_by.setdefault(id, set()).add(job.id)
        return replace(job, blocked_by=len(awaited))

    def unblock(self, id: JobId) -> None:
        """Forget what the job waited for."""
        for awaited in self.awaits.pop(id, ()):
            self.awaited_by[awaited].discard(id)
            if not self.awaited_by[awaited]:
                del self.awaited_by[awaited]

    def note(self, id: JobId, at: datetime, to: str, cause: str | None = None) -> None:
        """Add to the history of the job."""
        job = self.jobs[id]
        self.transitions[id].append(
            Transition(job_id=id, at=at, to=to, cause=cause, attempt=job.attempt, worker=job.worker)
        )
