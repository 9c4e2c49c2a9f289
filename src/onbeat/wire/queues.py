"""Wire records of queues."""

from datetime import datetime

import msgspec

from onbeat.model.queue import Queue
from onbeat.wire.limits import LimitsAnswer, limits_answer


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool
    waiting: int
    due: int
    running: int
    oldest_due_at: datetime | None
    limits: LimitsAnswer


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool


class QueuesAnswer(msgspec.Struct, frozen=True):
    """By name; `total` counts the queues of all pages."""

    queues: tuple[QueueAnswer, ...]
    page: int
    limit: int
    total: int


def queue_answer(queue: Queue) -> QueueAnswer:
    return QueueAnswer(
        name=queue.name,
        paused=queue.paused,
        waiting=queue.waiting,
        due=queue.due,
        running=queue.running,
        oldest_due_at=queue.oldest_due_at,
        limits=limits_answer(queue.limits),
    )
