"""Queues, and counts over the whole store."""

from collections import Counter
from typing import Any

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import Queue
from onbeat.ports.store import Hint
from onbeat.stores.mysql.rows import instant
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.mysql.workers import WORKER


async def queues(transaction: Transaction, now: int) -> list[Queue]:
    """Counted over an index, so that of most jobs the rows need not be read."""
    sql = """
        SELECT name,
               EXISTS (SELECT 1 FROM queues WHERE queues.name = counts.name AND paused = 1),
               SUM(waiting), SUM(due), SUM(running), MIN(oldest)
        FROM (
          SELECT queue AS name, COUNT(*) AS waiting, SUM(due_at <= %(now)s) AS due, 0 AS running,
                 MIN(IF(due_at <= %(now)s, due_at, NULL)) AS oldest
          FROM jobs FORCE INDEX (jobs_due)
          WHERE ready = 1
          GROUP BY queue
          UNION ALL
          SELECT queue, COUNT(*), SUM(due_at <= %(now)s AND blocked_by = 0), 0,
                 MIN(IF(due_at <= %(now)s AND blocked_by = 0, due_at, NULL))
          FROM jobs FORCE INDEX (jobs_due)
          WHERE ready IS NULL AND running = 0
          GROUP BY queue
          UNION ALL
          SELECT queue, 0, 0, COUNT(*), NULL
          FROM jobs FORCE INDEX (jobs_running)
          WHERE worker IS NOT NULL
          GROUP BY queue
          UNION ALL
          SELECT name, 0, 0, 0, NULL FROM queues WHERE paused = 1
        ) AS counts
        GROUP BY name
        ORDER BY name
    """
    return [
        Queue(
            name=name,
            paused=bool(paused),
            waiting=int(waiting),
            due=int(due),
            running=int(running),
            oldest_due_at=None if oldest is None else instant(oldest),
        )
        for name, paused, waiting, due, running, oldest in await transaction.rows(sql, {"now": now})
    ]


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


LANES = """
    SELECT lane, COUNT(*), MIN(IF(due_at <= %(now)s, due_at, NULL))
    FROM jobs FORCE INDEX (jobs_due)
    WHERE ready = 1
    GROUP BY lane
    UNION ALL
    SELECT lane, COUNT(*), MIN(IF(due_at <= %(now)s AND blocked_by = 0, due_at, NULL))
    FROM jobs FORCE INDEX (jobs_due)
    WHERE ready IS NULL AND running = 0
    GROUP BY lane
"""
RUNNING = "SELECT COUNT(*) FROM jobs FORCE INDEX (jobs_running) WHERE worker IS NOT NULL"
ENDED = "SELECT state, COUNT(*) FROM finished FORCE INDEX (finished_by_end) GROUP BY state"
SCHEDULES = "SELECT status, COUNT(*) FROM schedules FORCE INDEX (schedules_due) GROUP BY status"
WORKERS = "SELECT record FROM workers"


async def stats(transaction: Transaction, now: int) -> Stats:
    asked = (LANES, RUNNING, ENDED, SCHEDULES, WORKERS)
    lanes, running, ended, schedules, records = await transaction.tables(asked, {"now": now})
    known = {lane for (record,) in records for lane in WORKER.decode(record).lanes}
    waiting: Counter[str] = Counter()
    for lane, count, _ in lanes:
        waiting[lane] += count
    live = {"waiting": waiting.total(), "running": running[0][0]}
    oldest = min((due_at for *_, due_at in lanes if due_at is not None), default=now)
    return Stats(
        jobs=ALL_STATES | live | counts(ended),
        schedules=ALL_STATUSES | counts(schedules),
        workers=len(records),
        oldest_due_seconds=(now - oldest) / 1_000_000,
        unknown_tasks={lane: count for lane, count in waiting.items() if lane not in known},
    )


def counts(rows: Any) -> dict[str, int]:
    return dict(rows)


ALL_STATES = dict.fromkeys(("waiting", "running", "succeeded", "failed", "cancelled"), 0)
ALL_STATUSES = dict.fromkeys(("active", "paused", "finished"), 0)
