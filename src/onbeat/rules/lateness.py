"""Which queues are late, and Onbeat's own events about them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.event import OWN_SOURCE, Event
from onbeat.model.queue import LatenessChange, WatchedQueue
from onbeat.rules.job_events import DEPTH, EPOCH, MICROSECOND

TYPE: Final = "onbeat.queue.late"


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event. `job` is the oldest due job; spans are in seconds."""

    queue: str
    paused: bool
    job: str
    due_at: datetime
    waited: float
    late_after: float


def lateness_changes(watched: Sequence[WatchedQueue], now: datetime) -> Sequence[LatenessChange]:
    """What has changed since the queues were last judged."""
    changes: list[LatenessChange] = []
    for queue in watched:
        if is_late(queue, now) and queue.late_since is None:
            changes.append(LatenessChange(queue=queue.name, event=late_event(queue, now)))
        elif not is_late(queue, now) and queue.late_since is not None:
            changes.append(LatenessChange(queue=queue.name, event=None))
    return changes


def is_late(queue: WatchedQueue, now: datetime) -> bool:
    return queue.oldest_due_at is not None and now - queue.oldest_due_at > queue.late_after


def late_event(queue: WatchedQueue, now: datetime) -> Event:
    """The event, whose id says since when the queue is late."""
    assert queue.oldest is not None, "the queue is late"
    assert queue.oldest_due_at is not None, "the queue is late"
    data = Lateness(
        queue=queue.name,
        paused=queue.paused,
        job=queue.oldest,
        due_at=queue.oldest_due_at,
        waited=(now - queue.oldest_due_at).total_seconds(),
        late_after=queue.late_after.total_seconds(),
    )
    return Event(
        id=f"{queue.name}/{(now - EPOCH) // MICROSECOND}",
        source=OWN_SOURCE,
        type=TYPE,
        time=now,
        subject=queue.name,
        data=msgspec.Raw(msgspec.json.encode(data)),
        extensions={DEPTH: 1},
    )
