"""Queues, and counts over the whole store."""

from typing import Any

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import NO_LIMITS, Limits, Queue
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.queues import ALL_STATES, ALL_STATUSES
from onbeat.stores.sqlite.transaction import Transaction


def queues(transaction: Transaction, now: int) -> list[Queue]:
    """Counted on indexes only, without reading the rows of jobs."""
    sql = """
        WITH
        counts (name, waiting, due, oldest, running) AS (
          SELECT queue, count(*), count(*) FILTER (WHERE due_at <= :now), min(due_at), 0
          FROM onbeat_jobs INDEXED BY onbeat_jobs_due WHERE ready GROUP BY queue
          UNION ALL
          SELECT queue, count(*), count(*) FILTER (WHERE due_at <= :now AND blocked_by = 0),
                 min(due_at) FILTER (WHERE blocked_by = 0), 0
          FROM onbeat_jobs INDEXED BY onbeat_jobs_stuck
          WHERE state = 'waiting' AND NOT ready
          GROUP BY queue
          UNION ALL
          SELECT queue, 0, 0, NULL, count(*)
          FROM onbeat_jobs INDEXED BY onbeat_jobs_running WHERE state = 'running' GROUP BY queue
          UNION ALL
          SELECT name, 0, 0, NULL, 0 FROM onbeat_queues WHERE paused OR limits IS NOT NULL
        )
        SELECT json_group_array(json_array(
                 name, paused, json(limits), waiting, due, running, oldest))
        FROM (
          SELECT name,
                 EXISTS (SELECT 1 FROM onbeat_queues
                         WHERE onbeat_queues.name = counts.name AND paused) AS paused,
                 (SELECT limits FROM onbeat_queues
                  WHERE onbeat_queues.name = counts.name) AS limits,
                 sum(waiting) AS waiting, sum(due) AS due, sum(running) AS running,
                 min(oldest) FILTER (WHERE oldest <= :now) AS oldest
          FROM counts
          GROUP BY name
          ORDER BY name
        )
    """
    return [
        Queue(
            name=name,
            paused=bool(paused),
            limits=NO_LIMITS if limits is None else msgspec.convert(limits, Limits),
            waiting=waiting,
            due=due,
            running=running,
            oldest_due_at=None if oldest is None else instant(oldest),
        )
        for name, paused, limits, waiting, due, running, oldest in transaction.values(
            sql, {"now": now}
        )
    ]


def stats(transaction: Transaction, now: int) -> Stats:
    # The lists of waiting jobs are read once, grouped in the order of their indexes.
    sql = """
        WITH waiting AS MATERIALIZED (
          SELECT lane, count(*) AS jobs, min(due_at) AS due_at
          FROM onbeat_jobs INDEXED BY onbeat_jobs_due
          WHERE ready GROUP BY queue, priority, lane
          UNION ALL
          SELECT lane, count(*), min(due_at) FILTER (WHERE blocked_by = 0)
          FROM onbeat_jobs INDEXED BY onbeat_jobs_stuck
          WHERE state = 'waiting' AND NOT ready GROUP BY queue, lane)
        SELECT json_object(
          'jobs', json((SELECT json_group_object(state, jobs) FROM (
                     SELECT 'waiting' AS state, coalesce(sum(jobs), 0) AS jobs FROM waiting
                     UNION ALL
                     SELECT 'running', count(*) FROM onbeat_jobs INDEXED BY onbeat_jobs_running
                     WHERE state = 'running'
                     UNION ALL
                     SELECT state, count(*) FROM onbeat_finished INDEXED BY onbeat_finished_by_end
                     GROUP BY state))),
          'schedules', json((SELECT json_group_object(status, n) FROM (
                          SELECT status, count(*) AS n FROM onbeat_schedules GROUP BY status))),
          'workers', (SELECT count(*) FROM onbeat_workers),
          'unknown', json((SELECT json_group_object(lane, jobs) FROM (
                        SELECT lane, sum(jobs) AS jobs FROM waiting
                        WHERE lane NOT IN (SELECT lanes.value
                                           FROM onbeat_workers,
                                                json_each(record, '$.lanes') AS lanes)
                        GROUP BY lane))),
          'oldest', (SELECT min(due_at) FROM waiting WHERE due_at <= :now))
    """
    counts: dict[str, Any] = msgspec.json.decode(transaction.value(sql, {"now": now}))
    oldest = counts["oldest"]
    return Stats(
        jobs=ALL_STATES | counts["jobs"],
        schedules=ALL_STATUSES | counts["schedules"],
        workers=counts["workers"],
        oldest_due_seconds=0.0 if oldest is None else (now - oldest) / 1_000_000,
        unknown_tasks=counts["unknown"],
    )
