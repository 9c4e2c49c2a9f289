"""Schedules with `on`, their events, and a router that keeps what it decides."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace

from onbeat.model.event import Event, EventVerdict, StoredEvent
from onbeat.model.ids import EventSeq
from onbeat.model.job import Job
from onbeat.model.reaction import EventPattern, Gather
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.route import KeyedJob, Routing
from onbeat.model.schedule import Schedule
from onbeat.recurrence import compile_spec
from onbeat.rules.event_patterns import NoValue, ReactionIndex, match_events
from onbeat.rules.plans import Compile
from onbeat.rules.reactions import Compilers, compile_reaction
from onbeat.rules.routes import keys_of, route
from onbeat.testing.build import NOW, SECOND, a_schedule

numbers = count(1)
PATH = re.compile(r"event\.([\w.]+)(?: == '(.*)')?")


def read(text: str, field: str) -> Callable[[Mapping[str, object]], object]:
    """A tiny language in place of CEL: a path of the event, or whether it is a text."""
    match = PATH.fullmatch(text)
    assert match, f"{field}: {text}"
    path, wanted = match.groups()

    def value(facts: Mapping[str, object]) -> object:
        found: Any = facts["event"]
        for name in path.split("."):
            if not isinstance(found, dict) or name not in found:
                raise NoValue(f"no such key: {name}")
            found = found[name]
        return found if wanted is None else found == wanted

    return value


COMPILERS = Compilers(read, read)


def on(type: str = "paid", **fields: Any) -> EventPattern:
    return EventPattern(type, **fields)


def a_reaction(*patterns: EventPattern, **fields: Any) -> Schedule:
    patterns = patterns or (on(),)
    text = ", ".join(pattern.type for pattern in patterns)
    rule = RecurrenceSpec("event", text)
    return a_schedule(name=text, recurrence=rule, plan_at=None, on=patterns, **fields)


def an_event(
    type: str = "paid", after: timedelta = timedelta(), data: object = None, **fields: Any
) -> StoredEvent:
    """An event that arrived so long after `NOW`."""
    seq = next(numbers)
    packed = None if data is None else msgspec.Raw(msgspec.json.encode(data))
    event = Event(id=f"e{seq}", source="/shop", type=type, time=NOW, data=packed)
    event = replace(event, **fields)
    return StoredEvent(seq=EventSeq(seq), event=event, received_at=NOW + after)


class Routed:
    """What routers made of events: the durable part of a store."""

    def __init__(self, *schedules: Schedule) -> None:
        self.index = ReactionIndex(compile_reaction(one, COMPILERS) for one in schedules)
        self.jobs: dict[str, Job] = {}
        self.keyed: dict[str, KeyedJob] = {}
        self.reads: dict[str, list[EventSeq]] = {}
        self.verdicts: dict[EventSeq, tuple[EventVerdict, ...]] = {}
        self.cancelled: dict[str, str] = {}

    def take(
        self,
        events: Sequence[StoredEvent],
        *,
        now: datetime = NOW,
        made: Mapping[EventSeq, Sequence[EventVerdict]] | None = None,
        most: int = 10_000,
        compile: Compile = compile_spec,
    ) -> Routing:
        """Route one batch."""
        matched = match_events(events, made or {}, self.index, now, most)
        keys = keys_of(matched)
        keyed = [job for job in self.keyed.values() if job.key in keys]
        routing = route(matched, keyed, made or {}, now, compile)
        self.apply(routing)
        return routing

    def apply(self, routing: Routing) -> None:
        for job in routing.jobs:
            self.jobs.setdefault(job.id, job)
        for id in routing.unread:
            self.reads[id] = []
        for carried in routing.carried:
            if carried.reads:
                self.reads.setdefault(carried.job_id, []).append(carried.seq)
        self.keyed |= {job.job_id: job for job in routing.keyed}
        for id, due_at in routing.postponed.items():
            self.jobs[id] = replace(self.jobs[id], due_at=due_at)
            self.keyed[id] = replace(self.keyed[id], due_at=due_at)
        for id, reason in routing.cancelled.items():
            self.cancelled.setdefault(id, reason)
            self.keyed[id] = replace(self.keyed[id], is_waiting=False)
        self.verdicts |= routing.verdicts

    def start(self, id: str) -> None:
        """A worker takes the job."""
        self.keyed[id] = replace(self.keyed[id], is_waiting=False)

    def reason(self, event: StoredEvent) -> str | None:
        (verdict,) = self.verdicts[event.seq]
        return verdict.reason

    def job_of(self, event: StoredEvent) -> Job:
        (verdict,) = self.verdicts[event.seq]
        assert verdict.job_id is not None, verdict.reason
        return self.jobs[verdict.job_id]


def gather(seconds: float | None = None, quiet: float | None = None, **fields: Any) -> Gather:
    return Gather(
        span=None if seconds is None else seconds * SECOND,
        quiet=None if quiet is None else quiet * SECOND,
        **fields,
    )
