"""The router's decision: from events, in their order, to jobs.

Every instant counts from the arrival of an event, not from when it is routed: the same events give
the same jobs however they are divided into batches.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.event import Event, EventCause, EventVerdict
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import EVENT_DEPTH_MAX, REASON_CHARS_MAX, VERDICT_CHARS_MAX, VERDICTS_MAX
from onbeat.model.reaction import Gather, Keep
from onbeat.model.route import Carried, EventKey, KeyedJob, Routing
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.recurrence import compile_spec
from onbeat.rules.calendar import shifted
from onbeat.rules.derived_ids import derived_id
from onbeat.rules.event_patterns import Match, MatchedEvent, NoValue
from onbeat.rules.gathers import gathering_end, is_throttle, joined_until, opening, postponed_to
from onbeat.rules.job_events import DEPTH
from onbeat.rules.plans import Compile, inherited_fields, jitter_of
from onbeat.rules.windows import opening_at_or_after

COUNTED: Final = "counted: the job of an earlier event stands for it"

Made = Mapping[EventSeq, Sequence[EventVerdict]]


def keys_of(events: Sequence[MatchedEvent]) -> frozenset[EventKey]:
    """The keys whose jobs the decision depends on."""
    keys: set[EventKey] = set()
    for event in events:
        for match in event.matches:
            schedule = match.reaction.schedule
            if match.cancels is not None:
                keys.add(EventKey(schedule.id, match.cancels))
            if match.key is not None and schedule.gather is not None:
                keys.add(EventKey(schedule.id, match.key))
    return frozenset(keys)


def route(
    events: Sequence[MatchedEvent],
    keyed: Sequence[KeyedJob],
    made: Made,
    now: datetime,
    compile: Compile = compile_spec,
) -> Routing:
    """The decision on all of the events, each with the effects of those before it.

    `keyed` has the jobs of `keys_of(events)`, and `made` those of events that are replayed.
    """
    draft = Draft(keyed, now, compile)
    for event in events:
        before = {
            verdict.schedule_id: verdict.job_id
            for verdict in made.get(event.stored.seq, ())
            if verdict.job_id is not None
        }
        draft.decide(event, before)
    return draft.routing()


class KeyedState:
    """A keyed job as it is after the events so far."""

    __slots__ = ("due_at", "gathered", "is_new", "is_waiting", "job_id", "opened_at")

    def __init__(self, job: KeyedJob, *, is_new: bool) -> None:
        self.job_id = job.job_id
        self.opened_at = job.opened_at
        self.due_at = job.due_at
        self.gathered = job.gathered
        self.is_waiting = job.is_waiting
        self.is_new = is_new


class Draft:
    """A routing in the making."""

    def __init__(self, keyed: Iterable[KeyedJob], now: datetime, compile: Compile) -> None:
        self.now = now
        self.compile = compile
        self.states: dict[EventKey, list[KeyedState]] = defaultdict(list)
        for job in sorted(keyed, key=lambda job: (job.opened_at, job.job_id)):
            self.states[job.key].append(KeyedState(job, is_new=False))
        self.verdicts: dict[EventSeq, tuple[EventVerdict, ...]] = {}
        self.versions: dict[ScheduleId, int] = {}
        self.jobs: dict[JobId, Job] = {}
        self.carried: list[Carried] = []
        self.reading: dict[JobId, int] = {}
        self.unread: dict[JobId, None] = {}
        self.joined: dict[JobId, None] = {}
        self.changed: dict[JobId, tuple[EventKey, KeyedState]] = {}
        self.postponed: dict[JobId, datetime] = {}
        self.cancelled: dict[JobId, str] = {}

    def routing(self) -> Routing:
        return Routing(
            verdicts=self.verdicts,
            at=self.now,
            versions=self.versions,
            jobs=tuple(self.jobs.values()),
            carried=tuple(self.carried),
            unread=tuple(self.unread),
            joined=tuple(self.joined),
            keyed=tuple(keyed_job(key, state) for key, state in self.changed.values()),
            postponed=self.postponed,
            cancelled=self.cancelled,
        )

    def decide(self, event: MatchedEvent, before: Mapping[ScheduleId, JobId]) -> None:
        """Add the effects of one event. `before` has the jobs that schedules made of it earlier."""
        verdicts = [self.verdict_of(event, match, before) for match in event.matches]
        self.verdicts[event.stored.seq] = bounded(verdicts)

    def verdict_of(
        self, event: MatchedEvent, match: Match, before: Mapping[ScheduleId, JobId]
    ) -> EventVerdict:
        schedule = match.reaction.schedule
        self.versions[schedule.id] = schedule.version
        # First, so that an event which cancels and makes a job does not cancel its own.
        ended = None if match.cancels is None else self.cancel(event, schedule, match.cancels)
        if schedule.id in before:
            return EventVerdict(schedule.id, before[schedule.id])
        if match.key is None:
            return EventVerdict(schedule.id, None, cut(ended or match.reason))
        inactive = why_inactive(schedule, event.at)
        if inactive is not None:
            return EventVerdict(schedule.id, None, inactive)
        try:
            return self.take(event, match, EventKey(schedule.id, match.key))
        except NoValue as error:
            return EventVerdict(schedule.id, None, cut(str(error)))

    def take(self, event: MatchedEvent, match: Match, key: EventKey) -> EventVerdict:
        """Add the event to a job that gathers, or make one. Raises `NoValue`."""
        schedule = match.reaction.schedule
        gather = schedule.gather
        latest = self.states[key][-1] if gather is not None and self.states.get(key) else None
        if gather is not None and latest is not None:
            if is_throttle(gather) and self.is_within(gather, latest, event.at):
                return self.count(event, key, latest)
            if self.may_join(schedule, gather, latest, event.at):
                return self.join(event, schedule, gather, key, latest)
        return self.open(event, schedule, key if match.reaction.is_keyed else None)

    def is_within(self, gather: Gather, state: KeyedState, at: datetime) -> bool:
        return state.gathered > 0 and at < gathering_end(gather, state.opened_at, self.compile)

    def may_join(self, schedule: Schedule, gather: Gather, state: KeyedState, at: datetime) -> bool:
        if is_throttle(gather) or not state.is_waiting or state.gathered >= gather.most:
            return False
        return at < joined_until(schedule, state.opened_at, state.due_at, self.compile)

    def count(self, event: MatchedEvent, key: EventKey, state: KeyedState) -> EventVerdict:
        state.gathered += 1
        self.changed[state.job_id] = key, state
        self.carried.append(Carried(event.stored.seq, state.job_id, key.schedule_id, reads=False))
        return EventVerdict(key.schedule_id, state.job_id, COUNTED)

    def join(
        self,
        event: MatchedEvent,
        schedule: Schedule,
        gather: Gather,
        key: EventKey,
        state: KeyedState,
    ) -> EventVerdict:
        if gather.quiet is not None:
            due_at = postponed_to(schedule, state.opened_at, event.at, self.compile)
            if due_at > state.due_at:
                self.postpone(state, due_at)
        state.gathered += 1
        self.changed[state.job_id] = key, state
        if not state.is_new:
            self.joined[state.job_id] = None
        self.carry(event, schedule, state.job_id, gather.keep)
        return EventVerdict(schedule.id, state.job_id)

    def postpone(self, state: KeyedState, due_at: datetime) -> None:
        state.due_at = due_at
        if state.is_new:
            self.jobs[state.job_id] = replace(self.jobs[state.job_id], due_at=due_at)
        else:
            self.postponed[state.job_id] = due_at

    def open(self, event: MatchedEvent, schedule: Schedule, key: EventKey | None) -> EventVerdict:
        job = job_for(event, schedule, self.now, self.compile)
        self.jobs[job.id] = job
        self.carry(event, schedule, job.id, Keep.ALL)
        if key is not None:
            opened = KeyedJob(key=key, job_id=job.id, opened_at=event.at, due_at=job.due_at)
            state = KeyedState(opened, is_new=True)
            self.states[key].append(state)
            self.changed[job.id] = key, state
        return EventVerdict(schedule.id, job.id)

    def carry(self, event: MatchedEvent, schedule: Schedule, id: JobId, keep: Keep) -> None:
        """Note the event with the job; of several the target gets those to keep."""
        place = len(self.carried)
        if keep is Keep.LAST:
            earlier = self.reading.get(id)
            if earlier is None:
                self.unread[id] = None
            else:
                self.carried[earlier] = replace(self.carried[earlier], reads=False)
        self.reading[id] = place
        reads = keep is not Keep.FIRST
        self.carried.append(Carried(event.stored.seq, id, schedule.id, reads=reads))

    def cancel(self, event: MatchedEvent, schedule: Schedule, by: str) -> str:
        """End the waiting jobs of a key; returns what was done, in words."""
        key, count = EventKey(schedule.id, by), 0
        reason = f"event {event.stored.event.id}"[:REASON_CHARS_MAX]
        for state in self.states.get(key, ()):
            if state.job_id in self.cancelled or is_later(event, state):
                continue
            self.cancelled[state.job_id] = reason
            count += state.is_waiting
            if state.is_waiting and is_throttle(schedule.gather):
                # Nothing came of it, so that the next event is a first one again.
                self.void(key, state)
            state.is_waiting = False
        return f"cancelled {count} waiting job{'' if count == 1 else 's'}"

    def void(self, key: EventKey, state: KeyedState) -> None:
        state.gathered = 0
        self.changed[state.job_id] = key, state
        if not state.is_new:
            self.joined[state.job_id] = None


def is_later(event: MatchedEvent, state: KeyedState) -> bool:
    """Whether a replay of the event must leave the job alone: it was made after its arrival."""
    return event.is_replayed and state.opened_at > event.stored.received_at


def why_inactive(schedule: Schedule, at: datetime) -> str | None:
    if schedule.status is not ScheduleStatus.ACTIVE:
        return f"schedule is {schedule.status}"
    if schedule.starts_at is not None and at < schedule.starts_at:
        return "schedule has not started: see its starts_at"
    if schedule.ends_at is not None and at > schedule.ends_at:
        return "schedule has ended: see its ends_at"
    return None


def job_for(event: MatchedEvent, schedule: Schedule, now: datetime, compile: Compile) -> Job:
    """The job that an event opens. Raises `NoValue`."""
    stored, jitter = event.stored, jitter_of(schedule, event.stored.received_at)
    when = opening(schedule, event.at, compile)
    expires_at = None
    if schedule.expires_after is not None:
        expires_at = shifted(when.latest, jitter + schedule.expires_after)
    return Job(
        id=job_id(schedule.id, stored.event, stored.received_at),
        created_at=now,
        due_at=opening_at_or_after(schedule.window, shifted(when.due_at, jitter)),
        expires_at=expires_at,
        start_by=expires_at,
        schedule_id=schedule.id,
        cause=EventCause(stored.event.type, depth_of(stored.event)),
        **inherited_fields(schedule),
    )


def job_id(schedule_id: ScheduleId, event: Event, received_at: datetime) -> JobId:
    """The same for the same event, so that no router makes its job twice."""
    key = msgspec.json.encode(["event", schedule_id, event.source, event.id]).decode()
    return JobId(derived_id(key, received_at))


def depth_of(event: Event) -> int:
    """How many of Onbeat's own events led to this one, itself included."""
    depth = event.extensions.get(DEPTH, 0)
    # An event from outside may carry anything; a depth too large is as good as the largest.
    return max(0, min(EVENT_DEPTH_MAX, depth)) if isinstance(depth, int) else 0


def keyed_job(key: EventKey, state: KeyedState) -> KeyedJob:
    return KeyedJob(
        key=key,
        job_id=state.job_id,
        opened_at=state.opened_at,
        due_at=state.due_at,
        gathered=state.gathered,
        is_waiting=state.is_waiting,
    )


def bounded(verdicts: Collection[EventVerdict]) -> tuple[EventVerdict, ...]:
    """All verdicts with a job, and the first of the others; the last tells how many were left."""
    made = [verdict for verdict in verdicts if verdict.job_id is not None]
    others = [verdict for verdict in verdicts if verdict.job_id is None]
    if len(others) <= VERDICTS_MAX:
        return (*made, *others)
    left = len(others) - VERDICTS_MAX
    more = EventVerdict(ScheduleId(""), None, f"and {left} more schedules made no job of it")
    return (*made, *others[:VERDICTS_MAX], more)


def cut(text: str | None) -> str | None:
    return None if text is None else text[:VERDICT_CHARS_MAX]
