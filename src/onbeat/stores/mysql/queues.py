"""Queues, and counts over the whole store."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import NO_LIMITS, Limits, Queue
from onbeat.ports.store import Hint
from onbeat.stores.mysql.lines import read_line
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.mysql.workers import WORKER
from onbeat.stores.sql.values import instant, to_json

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

LIMITS = msgspec.json.Decoder(Limits)


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
    """What was laid down for queues that are paused or limited, without their counts."""
    return {
        name: Queue(name=name, paused=bool(paused), limits=read_limits(limits))
        for name, paused, limits in apart
    }


def read_limits(text: str | None) -> Limits:
    return NO_LIMITS if text is None else LIMITS.decode(text)


def queue_of(rules: Queue, counts: Sequence[Count], now: int, *, running: int) -> Queue:
    oldest = oldest_due(counts, now)
    return msgspec.structs.replace(
        rules,
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


class Limit(msgspec.Struct, frozen=True):
    name: str
    limits: Limits


async def limit_queue(transaction: Transaction, request: Limit) -> None:
    """Buckets of a rate that stays are kept as they are; those of another begin full."""
    named = {"name": request.name}
    await name_queues(transaction, [request.name])
    sql = "SELECT limits FROM queues WHERE name = %(name)s FOR UPDATE"
    stored = read_limits(await transaction.value(sql, named))
    text = None if request.limits == NO_LIMITS else to_json(request.limits)
    await transaction.run(
        "UPDATE queues SET limits = %(limits)s WHERE name = %(name)s", {**named, "limits": text}
    )
    if stored.rate != request.limits.rate:
        await transaction.run("DELETE FROM meters WHERE queue = %(name)s AND grp = ''", named)
    if stored.group_rate != request.limits.group_rate:
        await transaction.run("DELETE FROM meters WHERE queue = %(name)s AND grp > ''", named)
    if not request.limits.fair:
        await transaction.run("DELETE FROM turns WHERE queue = %(name)s", named)
    transaction.hints.add(Hint.JOBS)


async def name_queues(transaction: Transaction, names: Collection[str]) -> None:
    """Those that have their name already are only read, which waits for nobody."""
    if not names:
        return
    known = await transaction.column("SELECT name FROM queues WHERE name IN %s", (tuple(names),))
    await transaction.insert(
        "INSERT INTO queues (name, paused) VALUES (%s, 0) ON DUPLICATE KEY UPDATE name = name",
        [(name,) for name in sorted(set(names).difference(known))],
    )


async def queue_names(transaction: Transaction, _: None) -> list[str]:
    return await transaction.column("SELECT name FROM queues ORDER BY name")


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
