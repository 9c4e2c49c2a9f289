"""Starting what a claim has chosen."""

from collections.abc import Sequence
from typing import Any

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import ClaimRequest
from onbeat.stores.postgres.lines import IN_TIME, READY
from onbeat.stores.postgres.overlap import Neighbours
from onbeat.stores.postgres.rows import (
    CLAIMED_COLUMNS,
    LIVE_COLUMNS,
    read_claimed,
    read_jobs,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.overlap import admit
from onbeat.stores.sql.values import micros

LAPSED_MAX = 20_000  # set aside by one claim; more would hold up the others
CLAIMED_COUNT = 21  # columns of CLAIMED_COLUMNS

BOUNDED = "start_by IS NOT NULL AND NOT running"
# Where it says plainly that a job has lapsed, the index of all that is stuck would answer as well.
ANY_MISFILED = f"""
    EXISTS (SELECT 1 FROM jobs WHERE NOT lapsed AND start_by < $2 AND {BOUNDED})
    OR EXISTS (SELECT 1 FROM jobs WHERE lapsed IS TRUE AND start_by >= $2 AND {BOUNDED})
"""  # noqa: S608  no value in it
"""Whether jobs have lapsed at $2 and are not set aside, or are set aside and have not lapsed."""

CHANGES = """
    running = TRUE, worker = $1, token = token + 1, attempt = attempt + 1, started_at = $2,
    progress = NULL, lease_until = $3::bigint, timed = nullif($3 IS NOT NULL, FALSE)
"""
"""What a claim by $1 at $2 makes of a job, with a lease until $3."""

LOCKED = f"""
      SELECT jobs.ctid AS tid, jobs.xmin AS version, jobs.id, jobs.overlap IS NULL AS is_free
      FROM candidates
      JOIN jobs ON jobs.ctid = candidates.tid
      WHERE {READY} :and_when
      ORDER BY candidates.priority, candidates.due_at, candidates.id
      LIMIT :limit
      FOR UPDATE OF jobs SKIP LOCKED
"""  # noqa: S608  no value in it
"""The first of `candidates` that nobody else has locked."""

START = f"""
    started AS (
      UPDATE jobs
      SET {CHANGES} :and
      FROM picked
      WHERE jobs.ctid = picked.tid
        AND jobs.xmin = picked.version
        AND picked.is_free
        AND {READY}
      RETURNING {CLAIMED_COLUMNS}
    )
"""  # noqa: S608  no value in it
"""Those of `picked` without an overlap rule start, unless they have been changed since."""

STARTED = f"""
    picked AS MATERIALIZED ({LOCKED.replace(":and_when", "")}),
    {START}
"""
"""The first of `candidates` that nobody else has locked; those without an overlap rule start."""


class Bite(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at the jobs brought. `ruled`: due, but an overlap rule has to be asked.

    `is_cut`: there may be more that is due than was looked at. `is_misfiled`: some jobs have lapsed
    and are not set aside, or are set aside and have not lapsed. `is_apart`: some jobs or queues are
    not for a claim in one statement; where it found that, it left everything as it was.
    `is_crowded`: another claimant was met, or somebody who held jobs locked.
    """

    jobs: Sequence[Job] = ()
    ruled: Sequence[JobId] = ()
    next_due_at: int | None = None
    is_cut: bool = False
    is_misfiled: bool = False
    is_apart: bool = False
    is_crowded: bool = False


def read_started(rows: Sequence[Any], request: ClaimRequest) -> list[Job]:
    """From rows that end in what `STARTED` gives, or in nothing of it."""
    now, lease_until = micros(request.now), lease_end(request)
    return [
        read_claimed(row[-CLAIMED_COUNT:], request.worker, now, lease_until)
        for row in rows
        if row[-CLAIMED_COUNT] is not None
    ]


def lease_end(request: ClaimRequest) -> int | None:
    """When the leases run out; None where they are not timed."""
    return None if request.lease is None else micros(request.now + request.lease)


async def start_admitted(
    transaction: Transaction, asked: tuple[ClaimRequest, Sequence[JobId]]
) -> list[Job]:
    """Start what no overlap rule holds back, having waited for others that decide about it."""
    request, ids = asked
    await lock_schedules(transaction, ids)
    return await start_in_turn(transaction, request, ids)


async def start_in_turn(
    transaction: Transaction, request: ClaimRequest, ids: Sequence[JobId]
) -> list[Job]:
    """Each sees those before it running. The caller holds the locks of their schedules."""
    now = micros(request.now)
    started: list[JobId] = []
    for id in ids:
        job = await still_ready(transaction, id, now)
        if job is not None and await admit(Neighbours(transaction, now), job):
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


async def lock_free_schedules(transaction: Transaction, ids: Sequence[JobId]) -> list[JobId]:
    """As `lock_schedules`, without waiting; answers with the jobs of those that it got."""
    sql = """
        SELECT id
        FROM jobs
        WHERE id = ANY($1::uuid[])
          AND (schedule_id IS NULL
               OR pg_try_advisory_xact_lock(
                    hashtextextended(current_schema() || schedule_id::text, 0)))
    """
    locked = {JobId(str(id)) for id in await transaction.column(sql, list(ids))}
    return [id for id in ids if id in locked]


async def still_ready(transaction: Transaction, id: JobId, now: int) -> Job | None:
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs
        WHERE id = $1
          AND {READY}
          AND {IN_TIME}
        FOR UPDATE
    """  # noqa: S608  no value in it
    return next(iter(read_jobs(await transaction.rows(sql, id, now))), None)


async def start(transaction: Transaction, id: JobId, request: ClaimRequest) -> None:
    await transaction.run(
        f"UPDATE jobs SET {CHANGES} WHERE id = $4",  # noqa: S608  no value in it
        request.worker,
        micros(request.now),
        lease_end(request),
        id,
    )


async def file_anew(transaction: Transaction, now: int) -> int:
    """Set aside what has lapsed, and take back what has not; answers with how many were that."""
    sql = f"""
        WITH
        late AS MATERIALIZED (
          SELECT id FROM jobs
          WHERE NOT lapsed AND start_by < $1 AND {BOUNDED}
          ORDER BY start_by LIMIT $2 FOR UPDATE SKIP LOCKED
        ),
        early AS MATERIALIZED (
          SELECT id FROM jobs
          WHERE lapsed IS TRUE AND start_by >= $1 AND {BOUNDED}
          ORDER BY start_by LIMIT $2 FOR UPDATE SKIP LOCKED
        ),
        filed AS (
          UPDATE jobs
          SET lapsed = start_by < $1
          FROM (TABLE late UNION ALL TABLE early) AS changed
          WHERE jobs.id = changed.id
            AND {BOUNDED}
          RETURNING jobs.lapsed
        )
        SELECT count(*) FROM filed WHERE NOT lapsed
    """  # noqa: S608  no value in it
    return int(await transaction.value(sql, now, LAPSED_MAX))
