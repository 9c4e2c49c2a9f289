"""Queues, and counts over the whole store."""

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import Queue
from onbeat.stores.postgres.ready_lists import GROUPED, LOOSE
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.queues import ALL_STATES, ALL_STATUSES, read_limits

STUCK = "NOT running AND (blocked_by <> 0 OR held OR lapsed)"

QUEUES = (
    """
    WITH
    counts (name, waiting, due, oldest, running) AS (
      SELECT queue, count(*), count(*) FILTER (WHERE due_at <= $1), min(due_at), 0
      FROM jobs WHERE :loose GROUP BY queue
      UNION ALL
      SELECT queue, count(*), count(*) FILTER (WHERE due_at <= $1), min(due_at), 0
      FROM jobs WHERE :grouped GROUP BY queue
      UNION ALL
      SELECT queue, count(*), count(*) FILTER (WHERE due_at <= $1 AND blocked_by = 0),
             min(due_at) FILTER (WHERE blocked_by = 0), 0
      FROM jobs WHERE :stuck GROUP BY queue
      UNION ALL
      SELECT queue, 0, 0, NULL, count(*)
      FROM jobs WHERE running GROUP BY queue
      UNION ALL
      SELECT name, 0, 0, NULL, 0 FROM queues WHERE paused OR limits IS NOT NULL
    )
    SELECT name,
           EXISTS (SELECT 1 FROM queues WHERE queues.name = counts.name AND paused),
           (SELECT limits FROM queues WHERE queues.name = counts.name),
           sum(waiting)::bigint, sum(due)::bigint, sum(running)::bigint,
           min(oldest) FILTER (WHERE oldest <= $1)
    FROM counts
    GROUP BY name
    ORDER BY name
""".replace(":loose", LOOSE)
    .replace(":grouped", GROUPED)
    .replace(":stuck", STUCK)
)


async def queues(transaction: Transaction, now: int) -> list[Queue]:
    """Counted on indexes, mostly without reading the rows of jobs."""
    return [
        Queue(
            name=name,
            paused=paused,
            limits=read_limits(limits),
            waiting=waiting,
            due=due,
            running=running,
            oldest_due_at=None if oldest is None else instant(oldest),
        )
        for name, paused, limits, waiting, due, running, oldest in await transaction.rows(
            QUEUES, now
        )
    ]


STATS = (
    """
    SELECT
      (SELECT json_object_agg(state, n) FROM (
         SELECT 'waiting' AS state, (SELECT count(*) FROM jobs WHERE :loose)
                                    + (SELECT count(*) FROM jobs WHERE :grouped)
                                    + (SELECT count(*) FROM jobs WHERE :stuck) AS n
         UNION ALL
         SELECT 'running', count(*) FROM jobs WHERE running
         UNION ALL
         SELECT state, count(*) FROM finished GROUP BY state) AS counts) AS jobs,
      (SELECT json_object_agg(status, n) FROM (
         SELECT status, count(*) AS n FROM schedules GROUP BY status) AS counts) AS schedules,
      (SELECT count(*) FROM workers) AS workers,
      (SELECT json_object_agg(lane, n) FROM (
         SELECT lane, count(*) AS n
         FROM (SELECT lane FROM jobs WHERE :loose
               UNION ALL
               SELECT lane FROM jobs WHERE :grouped
               UNION ALL
               SELECT lane FROM jobs WHERE :stuck) AS waiting
         WHERE lane <> ALL(ARRAY(
           SELECT json_array_elements_text(record::json -> 'lanes') FROM workers))
         GROUP BY lane) AS counts) AS unknown,
      (SELECT min(due_at) FROM (
         SELECT due_at FROM jobs WHERE :loose
         UNION ALL
         SELECT due_at FROM jobs WHERE :grouped
         UNION ALL
         SELECT due_at FROM jobs WHERE :stuck AND blocked_by = 0) AS waiting
       WHERE due_at <= $1) AS oldest
""".replace(":loose", LOOSE)
    .replace(":grouped", GROUPED)
    .replace(":stuck", STUCK)
)

COUNTS = msgspec.json.Decoder(dict[str, int])


async def stats(transaction: Transaction, now: int) -> Stats:
    # The one query without an index: ended jobs are counted by reading them.
    await transaction.db.execute("SET LOCAL enable_seqscan = on")
    ((jobs, schedules, workers, unknown, oldest),) = await transaction.rows(STATS, now)
    return Stats(
        jobs=ALL_STATES | COUNTS.decode(jobs),
        schedules=ALL_STATUSES | (COUNTS.decode(schedules) if schedules else {}),
        workers=workers,
        oldest_due_seconds=0.0 if oldest is None else (now - oldest) / 1_000_000,
        unknown_tasks=COUNTS.decode(unknown) if unknown else {},
    )
