"""Conditions: the facts that their texts may name, and what follows from their values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from onbeat.model.condition import Condition
from onbeat.model.event import Event
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed
from onbeat.rules.facts import event_facts, job_facts

NAMES: Final = ("job", "event", "events", "occurrence", "now", "after", "answer")
"""What a text may name."""

FAILED: Final = "condition failed"
FALSE: Final = "condition is false"
CLOSED: Final = "its window is closed"
PREDICATES: Final = "@if:"
"""The prefix of the lane of a predicate, a Python function that is registered by name."""


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
        return Cancelled(reason)
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
