"""Queues, and counts over the whole store."""

from collections.abc import Collection

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import NO_LIMITS, Limits, Queue
from onbeat.ports.store import Hint
from onbeat.stores.postgres.lines import GROUPED, LOOSE
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, to_json

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
    """Counted over the indexes, so that the jobs themselves need mostly not be read."""
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


class Pause(msgspec.Struct, frozen=True):
    name: str
    paused: bool


async def pause_queue(transaction: Transaction, request: Pause) -> None:
    await transaction.run(
        """
        INSERT INTO queues (name, paused) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
        """,
        request.name,
        request.paused,
    )
    transaction.hints.add(Hint.JOBS)


class Limiting(msgspec.Struct, frozen=True):
    name: str
    limits: Limits


async def limit_queue(transaction: Transaction, request: Limiting) -> None:
    """What was drawn under another rate says nothing about this one: such buckets go."""
    name, limits = request.name, request.limits
    await name_queues(transaction, [name])
    sql = "SELECT limits FROM queues WHERE name = $1 FOR NO KEY UPDATE"
    before = read_limits(await transaction.value(sql, name))
    text = None if limits == NO_LIMITS else to_json(limits)
    await transaction.run(
        """
        UPDATE queues
        SET limits = $2::text,
            limited_at = CASE WHEN $2 IS NOT NULL THEN coalesce(limited_at, now()) END,
            is_counted = is_counted AND $2 IS NOT NULL
        WHERE name = $1
        """,
        name,
        text,
    )
    await transaction.run(
        "DELETE FROM meters WHERE queue = $1 AND CASE grp WHEN '' THEN $2::boolean ELSE $3 END",
        name,
        before.rate != limits.rate,
        before.group_rate != limits.group_rate,
    )
    if not limits.fair:
        await transaction.run("DELETE FROM turns WHERE queue = $1", name)
    transaction.hints.add(Hint.JOBS)


LIMITS = msgspec.json.Decoder(Limits)


def read_limits(text: str | None) -> Limits:
    return NO_LIMITS if text is None else LIMITS.decode(text)


async def name_queues(transaction: Transaction, names: Collection[str]) -> None:
    """Where all are known it writes nothing."""
    await transaction.run(
        """
        INSERT INTO queues (name, paused)
        SELECT name, FALSE
        FROM unnest($1::text[]) AS named (name)
        WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.name = named.name)
        ORDER BY name
        ON CONFLICT DO NOTHING
        """,
        list(names),
    )


async def queue_names(transaction: Transaction, _: None) -> list[str]:
    return await transaction.column("SELECT name FROM queues ORDER BY name")


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
ALL_STATES = dict.fromkeys(("waiting", "running", "succeeded", "failed", "cancelled"), 0)
ALL_STATUSES = dict.fromkeys(("active", "paused", "finished"), 0)


async def stats(transaction: Transaction, now: int) -> Stats:
    # The one question that no index answers: what has ended is counted by reading it.
    await transaction.db.execute("SET LOCAL enable_seqscan = on")
    ((jobs, schedules, workers, unknown, oldest),) = await transaction.rows(STATS, now)
    return Stats(
        jobs=ALL_STATES | COUNTS.decode(jobs),
        schedules=ALL_STATUSES | (COUNTS.decode(schedules) if schedules else {}),
        workers=workers,
        oldest_due_seconds=0.0 if oldest is None else (now - oldest) / 1_000_000,
        unknown_tasks=COUNTS.decode(unknown) if unknown else {},
    )
