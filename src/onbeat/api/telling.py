"""Log lines of what callers changed: schedules and queues, whose changes are few and matter.

Jobs are left out: they come by the thousand, and the engine tells how they end.
"""

from typing import Any, Final

import msgspec

from onbeat.operations.table import Operation
from onbeat.telemetry.lines import Log
from onbeat.wire.requests import Created, Put, Triggered

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
}
"""What to say of an operation that was done."""


def tell(operation: Operation[Any, Any], request: msgspec.Struct, answer: object) -> None:
    event = EVENTS.get(operation.name)
    if event is None or getattr(answer, "changed", True) is False:
        return
    if isinstance(answer, Put) and not answer.created:
        event = "schedule.updated"
    lines.info(event, **subject(request), **outcome(answer))


def subject(request: msgspec.Struct) -> dict[str, object]:
    """What was changed, by the words that the caller named it with."""
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
