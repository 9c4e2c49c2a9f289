"""Log lines of what callers changed: schedules, queues and dead letters, which are few and matter.

Jobs are left out: they come by the thousand, and the engine tells how they end.
"""

from typing import Any, Final

import msgspec

from onbeat.operations.table import Operation
from onbeat.telemetry.lines import Log
from onbeat.wire.requests import Created, LetterById, Put, Triggered

lines = Log("onbeat.api")

EVENTS: Final = {
    "schedule.create": "schedule.created",
    "schedule.put": "schedule.created",
    "schedule.update": "schedule.updated",
    "schedule.pause": "schedule.paused",
    "schedule.resume": "schedule.resumed",
    "schedule.delete": "schedule.deleted",
    "schedule.trigger": "schedule.triggered",
    "schedule.backfill": "schedule.backfilled",
    "queue.pause": "queue.paused",
    "queue.resume": "queue.resumed",
    "queue.limit": "queue.limited",
    "dead.replay": "dead.replayed",
    "dead.delete": "dead.deleted",
}
"""What to say of an operation that was done."""


def tell(operation: Operation[Any, Any], request: msgspec.Struct, answer: object) -> None:
    event = EVENTS.get(operation.name)
    if event is None or is_unchanged(answer):
        return
    if isinstance(answer, Put) and not answer.created:
        event = "schedule.updated"
    lines.info(event, **subject(request), **outcome(answer))


def is_unchanged(answer: object) -> bool:
    return False in {getattr(answer, "changed", True), getattr(answer, "replayed", True)}


def subject(request: msgspec.Struct) -> dict[str, object]:
    """What was changed, by the words that the caller named it with."""
    if isinstance(request, LetterById):
        return {"letter": request.id}
    draft = getattr(request, "schedule", None) or getattr(request, "changes", None)
    said = {
        "schedule": getattr(request, "id", None),
        "queue": getattr(request, "name", None),
        "key": getattr(request, "key", None),
        "name": getattr(draft, "name", None),
    }
    return {name: value for name, value in said.items() if isinstance(value, str)}


def outcome(answer: object) -> dict[str, object]:
    match answer:
        case Created(id=id) | Put(id=id):
            return {"schedule": id}
        case Triggered(job_id=id):
            return {"job": id}
        case _:
            return {}
