"""Queues that are watched for lateness."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.queue import LatenessChange, WatchedQueue
from onbeat.rules.lateness import TYPE
from onbeat.stores.memory.stored_events import announce, own_types
from onbeat.stores.memory.tables import Tables


def watched_queues(tables: Tables, now: datetime) -> Sequence[WatchedQueue]:
    return [
        watched_queue(tables, name, now)
        for name, limits in sorted(tables.limits.items())
        if limits.late_after is not None
    ]


def watched_queue(tables: Tables, name: str, now: datetime) -> WatchedQueue:
    late_after = tables.limits[name].late_after
    assert late_after is not None, "it is watched"
    heads = (keys.first() for line, keys in tables.ready_lists.items() if line.queue == name)
    due = (head for head in heads if head is not None and head[0] <= now)
    due_at, oldest = min(due, default=(None, None))
    return WatchedQueue(
        name=name,
        paused=name in tables.paused_queues,
        late_after=late_after,
        late_since=tables.watch.late_since.get(name),
        oldest=oldest,
        oldest_due_at=due_at,
    )


def note_lateness(tables: Tables, changes: Sequence[LatenessChange], now: datetime) -> int:
    is_wanted = TYPE in own_types(tables)
    noted = 0
    for change in changes:
        if change.event is None:
            noted += tables.watch.late_since.pop(change.queue, None) is not None
        elif is_wanted and may_become_late(tables, change.queue):
            noted += 1
            tables.watch.late_since[change.queue] = now
            announce(tables, change.event)
    return noted


def may_become_late(tables: Tables, queue: str) -> bool:
    limits = tables.limits.get(queue)
    is_watched = limits is not None and limits.late_after is not None
    return is_watched and queue not in tables.watch.late_since
