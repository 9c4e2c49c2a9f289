"""Conditions: the facts that their texts may name, and what follows from their values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from onbeat.model.condition import Condition, Read
from onbeat.model.errors import Invalid
from onbeat.model.event import Event
from onbeat.model.flow import SENT, Awaited
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed
from onbeat.rules.facts import JOB_FACTS, event_facts, job_facts, no_such_fact
from onbeat.rules.flows import looks_like_id

NAMES: Final = ("job", "event", "events", "occurrence", "now", "after", "answer")
"""What a text may name."""

GUARDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "event": ("events", None),
    "occurrence": ("job", "schedule_id"),
}
"""What a text that is used for several kinds of jobs asks before it reads the name."""

FAILED: Final = "condition failed"
FALSE: Final = "condition is false"
CLOSED: Final = "its window is closed"
PREDICATES: Final = "@if:"
"""The prefix of the lane of a predicate, a Python function that is registered by name."""


class Known(msgspec.Struct, frozen=True):
    """Which facts the jobs of a condition may have; `after` is None where that is not known."""

    event: bool = True
    occurrence: bool = True
    after: Collection[str] | None = None


ANY_JOB: Final = Known()
"""For a condition that several kinds of jobs share, such as that of a task."""


def known_of_schedule(*, reacts: bool) -> Known:
    """For the jobs of a schedule on events, or of one by time."""
    return Known(event=reacts, occurrence=not reacts, after=())


def known_of_sent(awaited: Iterable[Awaited]) -> Known:
    """For a job that is sent, after the others."""
    names = [one.job for one in awaited]
    after = None if any(map(looks_like_id, names)) else frozenset(names) - {SENT}
    return Known(event=False, occurrence=False, after=after)


def check_reads(condition: Condition, reads: Sequence[Read], known: Known, field: str) -> None:
    """Raises `Invalid` for a text that reads what its jobs can never have."""
    for read in reads:
        why = why_missing(read, reads, known, asks=condition.ask is not None)
        if why is not None:
            raise Invalid(f"{field}: {read.place}: {why}", field)


def why_missing(read: Read, reads: Sequence[Read], known: Known, *, asks: bool) -> str | None:
    match read.name, read.member:
        case "answer", _ if not asks:
            return "there is no answer without ask"
        case "job", str(member) if member not in JOB_FACTS:
            return no_such_fact(member)
        case ("event" | "occurrence") as name, _ if not getattr(known, name):
            guard = GUARDS[name]
            if not any((other.name, other.member) == guard for other in reads):
                return f"such jobs have no {name}"
        case "after", str(member) if known.after is not None and not read.is_test:
            if member not in known.after and not any(is_whole(other, "after") for other in reads):
                return f"the job comes after none of the name {member!r}"
        case _:
            pass
    return None


def is_whole(read: Read, name: str) -> bool:
    return read.name == name and read.member is None


def is_to_be_judged(job: Job) -> bool:
    """Whether the condition of a job that starts now has not held yet.

    It is judged again where judging it was what failed, and where the first attempt was lost.
    """
    is_first = job.attempt - job.lost <= 1
    return job.condition is not None and (is_first or (job.error or "").startswith(FAILED))


def facts_of(
    job: Job,
    now: datetime,
    *,
    answer: object = None,
    events: Sequence[Event] = (),
    after: Mapping[JobId, Job] | None = None,
) -> dict[str, object]:
    """The facts for the condition of a job; there is no `event` without events.

    `now` and `occurrence` are datetimes, times inside of the others are texts. `after` are the jobs
    that it came after and that are still stored.
    """
    facts: dict[str, object] = {
        "job": job_facts(job),
        "occurrence": job.occurrence,
        "now": now,
        "answer": answer,
        "after": predecessor_facts(job, after or {}),
        "events": [event_facts(event) for event in events],
    }
    if events:
        facts["event"] = event_facts(events[0])
    return facts


def predecessor_facts(job: Job, stored: Mapping[JobId, Job]) -> dict[str, object]:
    """By name, or by id where one has no name; of several with one name the first has it."""
    facts: dict[str, object] = {}
    for other in (stored[id] for id in job.after if id in stored):
        key = other.id if other.name is None or other.name in facts else other.name
        result = None if other.result is None else msgspec.json.decode(other.result)
        facts[key] = {"state": other.state, "result": result, "error": other.error}
    return facts


def answer_fact(result: msgspec.Raw | None, *, is_http: bool) -> object:
    """What a condition reads as `answer`. The body of a response is read as JSON where it is."""
    value: Any = None if result is None else msgspec.json.decode(result)
    if not is_http:
        return value
    try:
        return {"status": value["status"], "body": msgspec.json.decode(value["body"])}
    except msgspec.DecodeError:
        return {"status": value["status"], "body": value["body"]}


def words_of(condition: Condition) -> str:
    """The condition as users know it."""
    return condition.text or condition.predicate or ""


def verdict_of(condition: Condition, value: object) -> Outcome | None:
    """What becomes of the job; None where the condition holds."""
    if value is True:
        return None
    if value is not False:
        return failed(condition, f"its value is {shown(value)}, which is not true or false")
    reason = f"{FALSE}: {words_of(condition)}"
    if condition.postpone is None:
        return Cancelled(reason, unstarted=True)
    return Snoozed(condition.postpone, reason, unstarted=True)


def failed(condition: Condition, fault: str) -> Failed:
    return Failed(f"{FAILED}: {words_of(condition)}: {fault}")


def shown(value: object) -> str:
    """The kind of a value. Not the value itself, which may be secret."""
    match value:
        case None:
            return "null"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case _:
            return "a list or an object"
