"""Giving out due jobs.

`jobs_due` keeps, for each queue, priority and lane, the jobs that may be claimed in the order in
which they are due. A claim hops from one such group to the next, past what the claimant may not
take, so that it costs nothing how many or how long those are, and takes the heads of those that it
may. It is one statement, and so one transaction; only jobs with an overlap rule need another.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.stores.postgres.overlap import admit
from onbeat.stores.postgres.rows import (
    CLAIMED_COLUMNS,
    LIVE_COLUMNS,
    instant,
    micros,
    read_claimed,
    read_jobs,
)
from onbeat.stores.postgres.site import Site
from onbeat.stores.postgres.transaction import Transaction

LAPSED_MAX = 20_000  # set aside by one claim; more would hold up the others
SPARE_MIN = 50  # candidates beyond the limit, for those that another claimant has just locked
ROUNDS_MAX = 20

READY = "NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed"
BOUNDED = "start_by IS NOT NULL AND NOT running AND token = 0"

# The order of the index ends in (due_at, id): with the greatest due time a hop goes behind a group,
# with the smallest to its head. A lane beyond all lanes ends a priority, and with the last priority
# a queue.
HEADS = """
    heads (queue, priority, lane, mine) AS (
      (SELECT queue, priority, lane,
              ($5::text[] IS NULL OR queue = ANY($5)) AND queue <> ALL(ARRAY(TABLE paused))
       FROM jobs WHERE :ready
       ORDER BY queue, priority, lane, due_at, id LIMIT 1)
      UNION ALL
      SELECT next.queue, next.priority, next.lane,
             ($5::text[] IS NULL OR next.queue = ANY($5)) AND next.queue <> ALL(ARRAY(TABLE paused))
      FROM heads AS here
      CROSS JOIN LATERAL (
        SELECT CASE WHEN here.mine THEN here.priority ELSE 32767::smallint END AS priority,
               CASE WHEN NOT here.mine THEN chr(1114111)
                    WHEN here.lane = ANY($4::text[]) THEN here.lane
                    ELSE coalesce((SELECT min(known.lane COLLATE "C")
                                   FROM unnest($4) AS known (lane)
                                   WHERE known.lane COLLATE "C" > here.lane), chr(1114111))
               END AS lane,
               CASE WHEN here.mine AND here.lane <> ALL($4) THEN -9223372036854775808
                    ELSE 9223372036854775807
               END AS due_at
      ) AS seek
      CROSS JOIN LATERAL (
        SELECT queue, priority, lane
        FROM jobs
        WHERE :ready
          AND (queue, priority, lane, due_at)
              > (here.queue, seek.priority, seek.lane COLLATE "C", seek.due_at)
        ORDER BY queue, priority, lane, due_at, id
        LIMIT 1
      ) AS next
    )
"""

CLAIM = (
    """
    WITH RECURSIVE
    paused AS MATERIALIZED (SELECT name FROM queues WHERE paused),
    :heads,
    groups AS MATERIALIZED (
      SELECT queue, priority, lane FROM heads WHERE mine AND lane = ANY($4)
    ),
    late AS MATERIALIZED (
      SELECT id FROM jobs
      WHERE NOT lapsed AND start_by < $2 AND :bounded
      ORDER BY start_by LIMIT $7 FOR UPDATE SKIP LOCKED
    ),
    early AS MATERIALIZED (
      SELECT id FROM jobs
      WHERE lapsed AND start_by >= $2 AND :bounded
      ORDER BY start_by LIMIT $7 FOR UPDATE SKIP LOCKED
    ),
    aside AS (
      UPDATE jobs
      SET lapsed = start_by < $2
      FROM (TABLE late UNION ALL TABLE early) AS changed
      WHERE jobs.id = changed.id
        AND :bounded
      RETURNING jobs.lapsed
    ),
    candidates AS MATERIALIZED (
      SELECT due.tid, due.due_at, due.id, groups.priority
      FROM groups
      CROSS JOIN LATERAL (
        SELECT jobs.ctid AS tid, due_at, id
        FROM jobs
        WHERE :ready
          AND jobs.queue = groups.queue
          AND jobs.priority = groups.priority
          AND jobs.lane = groups.lane
          AND due_at <= $2
          AND (start_by IS NULL OR start_by >= $2 OR token > 0)
        ORDER BY due_at, id
        LIMIT $6
      ) AS due
      ORDER BY groups.priority, due.due_at, due.id
      LIMIT $6
    ),
    picked AS MATERIALIZED (
      SELECT jobs.ctid AS tid, jobs.id, jobs.overlap IS NULL AS is_free
      FROM candidates
      JOIN jobs ON jobs.ctid = candidates.tid
      WHERE :ready
      ORDER BY candidates.priority, candidates.due_at, candidates.id
      LIMIT $3
      FOR UPDATE OF jobs SKIP LOCKED
    ),
    started AS (
      UPDATE jobs
      SET running = TRUE, worker = $1, token = token + 1, attempt = attempt + 1,
          started_at = $2, progress = NULL
      FROM picked
      WHERE jobs.ctid = picked.tid
        AND picked.is_free
        AND :ready
      RETURNING :columns
    ),
    counts AS MATERIALIZED (
      SELECT
        (SELECT min(later.due_at)
         FROM groups
         CROSS JOIN LATERAL (
           SELECT due_at FROM jobs
           WHERE :ready
             AND jobs.queue = groups.queue
             AND jobs.priority = groups.priority
             AND jobs.lane = groups.lane
             AND due_at > $2
           ORDER BY due_at, id LIMIT 1
         ) AS later) AS next_due_at,
        (SELECT count(*) FROM candidates) AS candidates,
        ARRAY(SELECT id FROM picked WHERE NOT is_free) AS ruled,
        (SELECT count(*) FROM aside WHERE NOT lapsed) AS returned
    )
    SELECT counts.*, started.*
    FROM counts
    LEFT JOIN started ON TRUE
    """.replace(":heads", HEADS)
    .replace(":ready", READY)
    .replace(":bounded", BOUNDED)
    .replace(":columns", CLAIMED_COLUMNS)
)


class Bite(msgspec.Struct, frozen=True):
    """What one statement brought. `ruled`: due, but an overlap rule has to be asked.

    `is_cut`: there may be more that is due than was looked at.
    """

    jobs: Sequence[Job]
    ruled: Sequence[JobId]
    next_due_at: int | None
    is_cut: bool


async def claim(site: Site, request: ClaimRequest) -> Claimed:
    """Most claims are one round; others follow where rules or other claimants left places free."""
    jobs: list[Job] = []
    spare = SPARE_MIN
    next_due_at: datetime | None = None
    for _ in range(ROUNDS_MAX):
        left = request.limit - len(jobs)
        bite = await site.ask(take, (request, left, left + spare))
        jobs += bite.jobs
        if bite.ruled:
            jobs += await site.transact(start_admitted, (request, bite.ruled))
        next_due_at = None if bite.next_due_at is None else instant(bite.next_due_at)
        if len(jobs) >= request.limit or not (bite.is_cut or bite.ruled):
            break
        spare *= 4
    jobs.sort(key=attrgetter("priority", "due_at", "id"))
    return Claimed(jobs=tuple(jobs), next_due_at=next_due_at)


async def take(transaction: Transaction, asked: tuple[ClaimRequest, int, int]) -> Bite:
    request, limit, candidates_max = asked
    if limit <= 0 or not request.lanes:
        return Bite((), (), None, is_cut=False)
    now = micros(request.now)
    rows: Sequence[Any] = await transaction.rows(
        CLAIM,
        request.worker,
        now,
        limit,
        sorted(request.lanes),
        None if request.queues is None else list(request.queues),
        candidates_max,
        LAPSED_MAX,
    )
    next_due_at, candidates, ruled, returned = rows[0][:4]
    return Bite(
        [read_claimed(row[4:], request.worker, now) for row in rows if row[4] is not None],
        [JobId(str(id)) for id in ruled],
        next_due_at,
        is_cut=candidates >= candidates_max or returned > 0,
    )


async def start_admitted(
    transaction: Transaction, asked: tuple[ClaimRequest, Sequence[JobId]]
) -> list[Job]:
    """Start what no overlap rule holds back; each sees those before it running."""
    request, ids = asked
    now = micros(request.now)
    await lock_schedules(transaction, ids)
    started: list[JobId] = []
    for id in ids:
        job = await still_ready(transaction, id, now)
        if job is not None and await admit(transaction, job, now):
            await start(transaction, id, request)
            started.append(id)
    # A later one may have asked an earlier one to stop.
    sql = f"SELECT {LIVE_COLUMNS} FROM jobs WHERE id = ANY($1::uuid[])"  # noqa: S608  no value in it
    return read_jobs(await transaction.rows(sql, started)) if started else []


async def lock_schedules(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """One claimant at a time decides about a schedule; its key is that of nothing else."""
    await transaction.rows(
        """
        SELECT pg_advisory_xact_lock(key)
        FROM (
          SELECT DISTINCT hashtextextended(current_schema() || schedule_id::text, 0) AS key
          FROM jobs
          WHERE id = ANY($1::uuid[])
            AND schedule_id IS NOT NULL
          ORDER BY key
          OFFSET 0
        ) AS keys
        """,
        list(ids),
    )


async def still_ready(transaction: Transaction, id: JobId, now: int) -> Job | None:
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs
        WHERE id = $1
          AND {READY}
          AND due_at <= $2
          AND (start_by IS NULL OR start_by >= $2 OR token > 0)
        FOR UPDATE
    """  # noqa: S608  no value in it
    return next(iter(read_jobs(await transaction.rows(sql, id, now))), None)


async def start(transaction: Transaction, id: JobId, request: ClaimRequest) -> None:
    await transaction.run(
        """
        UPDATE jobs
        SET running = TRUE, worker = $2, token = token + 1, attempt = attempt + 1,
            started_at = $3, progress = NULL
        WHERE id = $1
        """,
        id,
        request.worker,
        micros(request.now),
    )
