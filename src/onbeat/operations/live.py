"""Tells those who watch what an operation has changed."""

from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.live import LiveEvent, LiveKind, event_of
from onbeat.operations.audit import object_of
from onbeat.operations.context import OperationContext
from onbeat.wire.bulks import BulkCount, BulkInfo
from onbeat.wire.failures import GroupReplayed
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import Triggered
from onbeat.wire.targets import TargetAnswer

DONE: Final = {
    "schedule.create": "created",
    "schedule.put": "changed",
    "schedule.update": "changed",
    "schedule.delete": "deleted",
    "schedule.pause": "paused",
    "schedule.resume": "resumed",
    "schedule.trigger": "triggered",
    "schedule.backfill": "backfilled",
    "queue.pause": "paused",
    "queue.resume": "resumed",
    "queue.limit": "limited",
    "flow.cancel": "cancelled",
    "flow.retry": "retried",
    "job.cancel": "",
    "job.retry": "",
    "job.reschedule": "",
    "job.bulk": "waiting",
    "bulk.stop": "stopped",
    "failure.silence": "silenced",
    "failure.replay": "replayed",
    "failure.note": "noted",
    "alert.silence": "silenced",
    "alert.unsilence": "unsilenced",
}
"""What each operation does to the object that its request names; a job tells its own state."""

CHANGED: Final = {"job.bulk": "created"}
"""The field of an answer that is false where nothing was changed; else it is `changed`."""

KINDS: Final[dict[str, LiveKind]] = {
    "schedule": "schedule",
    "queue": "queue",
    "flow": "flow",
    "failure": "fault",
    "alert": "alert",
}
"""What the operations of each noun change, where the answer does not tell."""


def announce(
    context: OperationContext, action: str, request: msgspec.Struct, answer: object
) -> None:
    """Note the change. Operations that change nothing that is watched are left out."""
    done = DONE.get(action)
    if done is None or getattr(answer, CHANGED.get(action, "changed"), True) is False:
        return
    at = context.clock.now()
    context.live.note(event_for(action, done, request, answer, at))
    if isinstance(answer, JobInfo) and action == "job.retry" and answer.schedule_id is not None:
        event = LiveEvent(kind="schedule", id=answer.schedule_id, at=at, to="retried")
        context.live.note(event)
    if isinstance(answer, Triggered):
        schedule = name_of(action, request)
        context.live.note(
            LiveEvent(kind="job", id=answer.job_id, at=at, to="waiting", schedule_id=schedule)
        )


def event_for(
    action: str, done: str, request: msgspec.Struct, answer: object, at: datetime
) -> LiveEvent:
    match answer:
        case JobInfo():
            return event_of(answer, task_of(answer.target), at, cause=answer.reason)
        case BulkInfo():
            return LiveEvent(kind="bulk", id=answer.id, at=at, to=answer.state, done=answer.done)
        case BulkCount(id=str(id)):
            return LiveEvent(kind="bulk", id=id, at=at, to=done)
        case GroupReplayed():
            name = name_of(action, request)
            return LiveEvent(kind="fault", id=name, at=at, to=done, jobs=answer.done)
        case _:
            made = getattr(answer, "id", None)
            id = made if isinstance(made, str) else name_of(action, request)
            return LiveEvent(kind=KINDS[action.partition(".")[0]], id=id, at=at, to=done)


def name_of(action: str, request: msgspec.Struct) -> str:
    return object_of(action, request).partition("/")[2]


def task_of(target: TargetAnswer) -> str | None:
    return target.task if isinstance(target.task, str) else None
