"""Queues, and counts over the whole store."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import Queue
from onbeat.ports.store import Hint
from onbeat.stores.mysql.lines import read_line
from onbeat.stores.mysql.rows import instant
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.mysql.workers import WORKER

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
PAUSED = "SELECT name FROM queues WHERE paused = 1"


class Count(msgspec.Struct, frozen=True):
    """Waiting jobs of one queue and lane. `oldest` is the first due time of those not blocked."""

    queue: str
    lane: str
    waiting: int
    due: int
    oldest: int | None


def waiting_counts(ready: Sequence[Row], stuck: Sequence[Row]) -> list[Count]:
    counts = [Count(*row) for row in stuck]
    for text, waiting, due, oldest in ready:
        line = read_line(text, oldest)
        counts.append(Count(line.queue, line.lane, waiting, due, oldest))
    return counts


async def queues(transaction: Transaction, now: int) -> list[Queue]:
    """Counted over an index, so that of most jobs the rows need not be read."""
    ready, stuck, running, paused = await transaction.tables(
        (READY, STUCK, RUNNING, PAUSED), {"now": now}
    )
    waiting = waiting_counts(ready, stuck)
    at_work: dict[str, int] = counts(running)
    closed = {name for (name,) in paused}
    names = sorted({one.queue for one in waiting} | at_work.keys() | closed)
    return [
        queue_of(
            name,
            [one for one in waiting if one.queue == name],
            now,
            running=at_work.get(name, 0),
            paused=name in closed,
        )
        for name in names
    ]


def queue_of(name: str, counts: Sequence[Count], now: int, *, running: int, paused: bool) -> Queue:
    oldest = oldest_due(counts, now)
    return Queue(
        name=name,
        paused=paused,
        waiting=sum(one.waiting for one in counts),
        due=int(sum(one.due for one in counts)),
        running=running,
        oldest_due_at=None if oldest is None else instant(oldest),
    )


def oldest_due(counts: Sequence[Count], now: int) -> int | None:
    return min(
        (one.oldest for one in counts if one.oldest is not None and one.oldest <= now),
        default=None,
    )


class Pause(msgspec.Struct, frozen=True):
    name: str
    paused: bool


async def pause_queue(transaction: Transaction, request: Pause) -> None:
    await transaction.run(
        """
        INSERT INTO queues (name, paused) VALUES (%(name)s, %(paused)s)
        ON DUPLICATE KEY UPDATE paused = %(paused)s
        """,
        {"name": request.name, "paused": request.paused},
    )
    transaction.hints.add(Hint.JOBS)


ENDED = "SELECT state, COUNT(*) FROM finished FORCE INDEX (finished_by_end) GROUP BY state"
SCHEDULES = "SELECT status, COUNT(*) FROM schedules FORCE INDEX (schedules_due) GROUP BY status"
WORKERS = "SELECT record FROM workers"


async def stats(transaction: Transaction, now: int) -> Stats:
    asked = (READY, STUCK, RUNNING, ENDED, SCHEDULES, WORKERS)
    ready, stuck, running, ended, schedules, records = await transaction.tables(asked, {"now": now})
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


ALL_STATES = dict.fromkeys(("waiting", "running", "succeeded", "failed", "cancelled"), 0)
ALL_STATUSES = dict.fromkeys(("active", "paused", "finished"), 0)
