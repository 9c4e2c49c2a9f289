"""Queues, and counts over the whole store."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import Queue
from onbeat.stores.mysql.ready_lists import read_ready_list
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.queues import ALL_STATES, ALL_STATUSES, read_limits
from onbeat.stores.sql.verbs.workers import WORKER

READY = """
    SELECT line, COUNT(*), SUM(due_at <= %(now)s), MIN(due_at)
    FROM jobs FORCE INDEX (jobs_due)
    WHERE line IS NOT NULL
    GROUP BY line
"""
STUCK = """
    SELECT queue, lane, COUNT(*), SUM(due_at <= %(now)s AND blocked_by = 0),
           MIN(IF(blocked_by = 0, due_at, NULL))
    FROM jobs FORCE INDEX (jobs_due)
    WHERE line IS NULL AND running = 0
    GROUP BY queue, lane
"""
RUNNING = """
    SELECT queue, COUNT(*)
    FROM jobs FORCE INDEX (jobs_running)
    WHERE worker IS NOT NULL
    GROUP BY queue
"""
APART = "SELECT name, paused, limits FROM queues FORCE INDEX (queues_apart) WHERE apart = 1"


class Count(msgspec.Struct, frozen=True):
    """Waiting jobs of one queue and lane. `oldest` is the earliest due time of unblocked ones."""

    queue: str
    lane: str
    waiting: int
    due: int
    oldest: int | None


def waiting_counts(ready: Sequence[Row], stuck: Sequence[Row]) -> list[Count]:
    counts = [Count(*row) for row in stuck]
    for text, waiting, due, oldest in ready:
        line = read_ready_list(text, oldest)
        counts.append(Count(line.queue, line.lane, waiting, due, oldest))
    return counts


async def queues(transaction: Transaction, now: int) -> list[Queue]:
    """Counted on an index, mostly without reading the rows of jobs."""
    ready, stuck, running, apart = await transaction.tables(
        (READY, STUCK, RUNNING, APART), {"now": now}
    )
    waiting = waiting_counts(ready, stuck)
    at_work: dict[str, int] = counts(running)
    rules = read_rules(apart)
    names = sorted({one.queue for one in waiting} | at_work.keys() | rules.keys())
    return [
        queue_of(
            rules.get(name, Queue(name=name)),
            [one for one in waiting if one.queue == name],
            now,
            running=at_work.get(name, 0),
        )
        for name in names
    ]


def read_rules(apart: Sequence[Row]) -> dict[str, Queue]:
    """The settings of paused or limited queues, without their counts."""
    return {
        name: Queue(name=name, paused=bool(paused), limits=read_limits(limits))
        for name, paused, limits in apart
    }


def queue_of(rules: Queue, counts: Sequence[Count], now: int, *, running: int) -> Queue:
    oldest = oldest_due(counts, now)
    return msgspec.structs.replace(
        rules,
        waiting=sum(count.waiting for count in counts),
        due=int(sum(count.due for count in counts)),
        running=running,
        oldest_due_at=None if oldest is None else instant(oldest),
    )


def oldest_due(counts: Sequence[Count], now: int) -> int | None:
    return min(
        (count.oldest for count in counts if count.oldest is not None and count.oldest <= now),
        default=None,
    )


ENDED = "SELECT state, COUNT(*) FROM finished FORCE INDEX (finished_by_end) GROUP BY state"
SCHEDULES = "SELECT status, COUNT(*) FROM schedules FORCE INDEX (schedules_due) GROUP BY status"
WORKERS = "SELECT record FROM workers"


async def stats(transaction: Transaction, now: int) -> Stats:
    request = (READY, STUCK, RUNNING, ENDED, SCHEDULES, WORKERS)
    ready, stuck, running, ended, schedules, records = await transaction.tables(
        request, {"now": now}
    )
    known = {lane for (record,) in records for lane in WORKER.decode(record).lanes}
    waiting = waiting_counts(ready, stuck)
    unknown: Counter[str] = Counter()
    for one in waiting:
        if one.lane not in known:
            unknown[one.lane] += one.waiting
    live = {
        "waiting": sum(one.waiting for one in waiting),
        "running": sum(count for _, count in running),
    }
    oldest = oldest_due(waiting, now)
    return Stats(
        jobs=ALL_STATES | live | counts(ended),
        schedules=ALL_STATUSES | counts(schedules),
        workers=len(records),
        oldest_due_seconds=0.0 if oldest is None else (now - oldest) / 1_000_000,
        unknown_tasks=dict(unknown),
    )


def counts(rows: Any) -> dict[str, int]:
    return {name: int(count) for name, count in rows}
