"""Starts claimed jobs."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, overload

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import ClaimRequest
from onbeat.rules.claim_marks import ListKey
from onbeat.stores.postgres.ready_lists import IN_TIME, READY
from onbeat.stores.postgres.rows import (
    CLAIMED_COLUMNS,
    CLAIMED_COUNT,
    LIVE_COLUMNS,
    read_claimed,
    read_jobs,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.overlap import admit

LAPSED_MAX = 20_000  # flagged by one claim; more would delay the others

BOUNDED = "start_by IS NOT NULL AND NOT running"
# `lapsed IS TRUE`, as a plain `lapsed` would also match the index of stuck jobs.
ANY_MISFILED = f"""
    EXISTS (SELECT 1 FROM jobs WHERE NOT lapsed AND start_by < $2 AND {BOUNDED})
    OR EXISTS (SELECT 1 FROM jobs WHERE lapsed IS TRUE AND start_by >= $2 AND {BOUNDED})
"""  # noqa: S608  no value in it
"""Whether jobs have lapsed at $2 and are not flagged, or are flagged and have not lapsed."""

CHANGES = """
    running = TRUE, worker = $1, token = token + 1, attempt = attempt + 1, started_at = $2,
    progress = NULL, lease_until = $3::bigint, timed = nullif($3 IS NOT NULL, FALSE)
"""
"""The changes to a job that $1 claims at $2, with a lease until $3."""

LOCKED = f"""
      SELECT jobs.ctid AS tid, jobs.xmin AS version, jobs.id, jobs.overlap IS NULL AS is_free
      FROM candidates
      JOIN jobs ON jobs.ctid = candidates.tid
      WHERE {READY} :and_when
      ORDER BY candidates.priority, candidates.due_at, candidates.id
      LIMIT :limit
      FOR UPDATE OF jobs SKIP LOCKED
"""  # noqa: S608  no value in it
"""The first of `candidates` that no other transaction has locked."""

# As text, which it becomes anyhow: the driver takes longer for a UUID than for all other columns.
STARTED_COLUMNS = CLAIMED_COLUMNS.replace("jobs.id,", "jobs.id::text,", 1)

START = f"""
    started AS (
      UPDATE jobs
      SET {CHANGES} :and
      FROM picked
      WHERE jobs.ctid = picked.tid
        AND jobs.xmin = picked.version
        AND picked.is_free
        AND {READY}
      RETURNING {STARTED_COLUMNS}
    )
"""  # noqa: S608  no value in it
"""Start those of `picked` without an overlap rule, unless they have changed since."""

STARTED = f"""
    picked AS MATERIALIZED ({LOCKED.replace(":and_when", "")}),
    {START}
"""
"""Pick the first unlocked `candidates`; start those without an overlap rule."""

PLACE = itemgetter(2, 3, 0)
"""The place of a row of `STARTED_COLUMNS` in its claim: by priority, due time and id."""


class ClaimBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round: `jobs`, in their order.

    `with_overlap`: due jobs with an overlap rule to apply. `is_cut`: there may be more due jobs
    than were read. `has_stale_flags`: some jobs have lapsed and are not flagged, or are flagged and
    have not lapsed. `needs_limits`: some jobs or queues need more than a claim in one statement,
    which then changes nothing. `contended`: another claimant, or another transaction with locks on
    jobs, was met. `lists`: the ready lists that were read, past so many entries that were no
    candidates (`passed`).
    """

    jobs: Sequence[Job] = ()
    with_overlap: Sequence[JobId] = ()
    next_due_at: int | None = None
    is_cut: bool = False
    has_stale_flags: bool = False
    needs_limits: bool = False
    contended: bool = False
    lists: Sequence[ListKey] = ()
    passed: int = 0


class UnreadJobs(Sequence[Job]):
    """The jobs in rows that end in the columns of `START`, or in NULLs for none, in their order.

    They are read when they are first looked at. That takes a third of the time of the statement,
    so the next claim is sent before.
    """

    def __init__(self, rows: Sequence[Any], request: ClaimRequest) -> None:
        started = [row[-CLAIMED_COUNT:] for row in rows if row[-CLAIMED_COUNT] is not None]
        self._rows = sorted(started, key=PLACE)
        self._request = request

    @cached_property
    def _jobs(self) -> list[Job]:
        request = self._request
        worker, now, lease_until = request.worker, request.now, request.lease_until
        return [read_claimed(row, worker, now, lease_until) for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    @overload
    def __getitem__(self, at: int) -> Job: ...
    @overload
    def __getitem__(self, at: slice) -> list[Job]: ...
    def __getitem__(self, at: int | slice) -> Job | list[Job]:
        return self._jobs[at]


def in_order(*parts: Sequence[Job]) -> Sequence[Job]:
    """All these jobs in the order of a claim."""
    filled = [part for part in parts if part]
    if len(filled) == 1 and isinstance(filled[0], UnreadJobs):
        return filled[0]  # unread
    return sorted(chain.from_iterable(filled), key=attrgetter("priority", "due_at", "id"))


def lease_end(request: ClaimRequest) -> int | None:
    """When the leases run out; None if they are not timed."""
    return None if request.lease is None else micros(request.now + request.lease)


async def start_admitted(
    transaction: Transaction, request: ClaimRequest, ids: Sequence[JobId]
) -> list[Job]:
    """Start jobs that their overlap rule admits, after waiting for claims on the same schedules."""
    await lock_schedules(transaction, ids)
    return await start_in_turn(transaction, request, ids)


async def start_in_turn(
    transaction: Transaction, request: ClaimRequest, ids: Sequence[JobId]
) -> list[Job]:
    """Start admitted jobs; each sees earlier ones as running. The caller locks the schedules."""
    now = micros(request.now)
    started: list[JobId] = []
    for id in ids:
        job = await still_ready(transaction, id, now)
        if job is not None and await admit(transaction, job, now):
            await start(transaction, id, request)
            started.append(id)
    # A later job may have requested an earlier one to stop.
    sql = f"SELECT {LIVE_COLUMNS} FROM jobs WHERE id = ANY($1::uuid[])"  # noqa: S608  no value in it
    return read_jobs(await transaction.rows(sql, started)) if started else []


async def lock_schedules(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """One claimant at a time applies a schedule's overlap rule; only this lock has its key."""
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
    """As `lock_schedules`, without waiting; returns the jobs of the schedules that were locked."""
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


async def refresh_flags(transaction: Transaction, now: int) -> int:
    """Flag lapsed jobs, and unflag those that have not lapsed; returns the number unflagged."""
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
