"""Log lines for changes by callers: schedules, queues and dead letters, which are few.

Jobs are left out: they come by the thousand, and the engine logs their ends.
"""

from typing import Any, Final

import msgspec

from onbeat.model.principal import Principal
from onbeat.operations.tables.operation import Operation
from onbeat.telemetry.structured_log import Log
from onbeat.wire.access import CreateKey, KeyByName
from onbeat.wire.events import EventById
from onbeat.wire.requests import Created, DeadLetterById, PutResult, Triggered

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
    "event.replay": "event.replayed",
    "dead.replay": "dead.replayed",
    "dead.delete": "dead.deleted",
    "key.create": "key.created",
    "key.revoke": "key.revoked",
}
"""The log events of completed operations."""


def log_change(
    operation: Operation[Any, Any], request: msgspec.Struct, answer: object, by: Principal
) -> None:
    event = EVENTS.get(operation.name)
    if event is None or is_unchanged(answer):
        return
    if isinstance(answer, PutResult) and not answer.created:
        event = "schedule.updated"
    lines.info(event, **changed_object(request), **outcome_fields(answer), by=by.name)


def is_unchanged(answer: object) -> bool:
    return False in {getattr(answer, "changed", True), getattr(answer, "replayed", True)}


def changed_object(request: msgspec.Struct) -> dict[str, object]:
    """The changed object, identified as in the caller's request."""
    if isinstance(request, DeadLetterById):
        return {"letter": request.id}
    if isinstance(request, EventById):
        return {"id": request.id, "source": request.source}
    if isinstance(request, CreateKey | KeyByName):
        return {"key": request.key.name if isinstance(request, CreateKey) else request.name}
    draft = getattr(request, "schedule", None) or getattr(request, "changes", None)
    fields = {
        "schedule": getattr(request, "id", None),
        "queue": getattr(request, "name", None),
        "key": getattr(request, "key", None),
        "name": getattr(draft, "name", None),
    }
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def outcome_fields(answer: object) -> dict[str, object]:
    match answer:
        case Created(id=id) | PutResult(id=id):
            return {"schedule": id}
        case Triggered(job_id=id):
            return {"job": id}
        case _:
            return {}
