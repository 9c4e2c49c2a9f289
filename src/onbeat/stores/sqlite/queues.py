"""Queues, and counts over the whole store."""

from collections.abc import Collection
from typing import Any

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import NO_LIMITS, Limits, Queue
from onbeat.ports.store import Hint
from onbeat.stores.sql.values import instant, to_json
from onbeat.stores.sqlite.transaction import Transaction, listed


def queues(transaction: Transaction, now: int) -> list[Queue]:
    """Counted over indexes only, so that the jobs themselves need not be read."""
    sql = """
        WITH
        counts (name, waiting, due, oldest, running) AS (
          SELECT queue, count(*), count(*) FILTER (WHERE due_at <= :now), min(due_at), 0
          FROM jobs INDEXED BY jobs_due WHERE ready GROUP BY queue
          UNION ALL
          SELECT queue, count(*), count(*) FILTER (WHERE due_at <= :now AND blocked_by = 0),
                 min(due_at) FILTER (WHERE blocked_by = 0), 0
          FROM jobs INDEXED BY jobs_stuck WHERE state = 'waiting' AND NOT ready GROUP BY queue
          UNION ALL
          SELECT queue, 0, 0, NULL, count(*)
          FROM jobs INDEXED BY jobs_running WHERE state = 'running' GROUP BY queue
          UNION ALL
          SELECT name, 0, 0, NULL, 0 FROM queues WHERE paused OR limits IS NOT NULL
        )
        SELECT json_group_array(json_array(
                 name, paused, json(limits), waiting, due, running, oldest))
        FROM (
          SELECT name,
                 EXISTS (SELECT 1 FROM queues
                         WHERE queues.name = counts.name AND paused) AS paused,
                 (SELECT limits FROM queues WHERE queues.name = counts.name) AS limits,
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


def name_queues(transaction: Transaction, names: Collection[str]) -> None:
    transaction.run(
        "INSERT OR IGNORE INTO queues (name, paused) SELECT value, 0 FROM json_each(?)",
        (listed(names),),
    )


def are_named(transaction: Transaction, names: Collection[str]) -> bool:
    """Whether there is nothing to do for `name_queues`, which is asked for often."""
    sql = "SELECT count(*) FROM queues WHERE name IN (SELECT value FROM json_each(?))"
    return bool(transaction.value(sql, (listed(names),)) == len(set(names)))


def queue_names(transaction: Transaction, _: None) -> list[str]:
    return transaction.values("SELECT json_group_array(name ORDER BY name) FROM queues")


class Pause(msgspec.Struct, frozen=True):
    name: str
    paused: bool


def pause_queue(transaction: Transaction, request: Pause) -> None:
    transaction.run(
        """
        INSERT INTO queues (name, paused) VALUES (?, ?)
        ON CONFLICT DO UPDATE SET paused = excluded.paused
        """,
        (request.name, request.paused),
    )
    transaction.hints.add(Hint.JOBS)


class Limit(msgspec.Struct, frozen=True):
    name: str
    limits: Limits


def limit_queue(transaction: Transaction, request: Limit) -> None:
    """A rate that is not as before begins with a full bucket."""
    found = transaction.value("SELECT limits FROM queues WHERE name = ?", (request.name,))
    before = msgspec.json.decode(found, type=Limits) if found else NO_LIMITS
    if before.rate != request.limits.rate:
        transaction.run("DELETE FROM meters WHERE queue = ? AND grp = ''", (request.name,))
    if before.group_rate != request.limits.group_rate:
        transaction.run("DELETE FROM meters WHERE queue = ? AND grp <> ''", (request.name,))
    if not request.limits.fair:
        transaction.run("DELETE FROM turns WHERE queue = ?", (request.name,))
    transaction.run(
        """
        INSERT INTO queues (name, paused, limits) VALUES (?, 0, ?)
        ON CONFLICT DO UPDATE SET limits = excluded.limits
        """,
        (request.name, None if request.limits == NO_LIMITS else to_json(request.limits)),
    )
    transaction.hints.add(Hint.JOBS)


def stats(transaction: Transaction, now: int) -> Stats:
    sql = """
        SELECT json_object(
          'jobs', json((SELECT json_group_object(state, jobs) FROM (
                     SELECT 'waiting' AS state, sum(n) AS jobs FROM (
                       SELECT count(*) AS n FROM jobs INDEXED BY jobs_due WHERE ready
                       UNION ALL
                       SELECT count(*) FROM jobs INDEXED BY jobs_stuck
                       WHERE state = 'waiting' AND NOT ready)
                     UNION ALL
                     SELECT 'running', count(*) FROM jobs INDEXED BY jobs_running
                     WHERE state = 'running'
                     UNION ALL
                     SELECT state, count(*) FROM finished INDEXED BY finished_by_end
                     GROUP BY state))),
          'schedules', json((SELECT json_group_object(status, n) FROM (
                          SELECT status, count(*) AS n FROM schedules GROUP BY status))),
          'workers', (SELECT count(*) FROM workers),
          'unknown', json((SELECT json_group_object(lane, n) FROM (
                        SELECT lane, count(*) AS n FROM (
                          SELECT lane FROM jobs INDEXED BY jobs_due WHERE ready
                          UNION ALL
                          SELECT lane FROM jobs INDEXED BY jobs_stuck
                          WHERE state = 'waiting' AND NOT ready)
                        WHERE lane NOT IN (SELECT lanes.value
                                           FROM workers, json_each(record, '$.lanes') AS lanes)
                        GROUP BY lane))),
          'oldest', (SELECT min(due_at) FROM (
                       SELECT due_at FROM jobs INDEXED BY jobs_due WHERE ready
                       UNION ALL
                       SELECT due_at FROM jobs INDEXED BY jobs_stuck
                       WHERE state = 'waiting' AND NOT ready AND blocked_by = 0)
                     WHERE due_at <= :now))
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


ALL_STATES = dict.fromkeys(("waiting", "running", "succeeded", "failed", "cancelled"), 0)
ALL_STATUSES = dict.fromkeys(("active", "paused", "finished"), 0)
