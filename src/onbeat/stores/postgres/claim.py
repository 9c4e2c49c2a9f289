"""Claims of due jobs.

A claim is one statement, and so one transaction. Jobs with an overlap rule need another one. With
groups of jobs, or limits, `limited_claim` does the work instead.

Concurrent claimants lock jobs before they change them, and skip locked ones. A claimant that is
probably alone saves the server these locks. If it was not alone, it waits for a few milliseconds at
most and starts over with locks.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import asyncpg
import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.stores.postgres import limited_claim
from onbeat.stores.postgres.limited_claim import ANY_APART, GROUPED_ANYWHERE, GROUPED_IN
from onbeat.stores.postgres.loop_connections import LoopConnections
from onbeat.stores.postgres.ready_lists import IN_TIME, LOOSE, MINE, in_ready_list, list_heads
from onbeat.stores.postgres.rows import CLAIMED_COUNT
from onbeat.stores.postgres.start import (
    ANY_MISFILED,
    LOCKED,
    START,
    ClaimBatch,
    lease_end,
    read_started,
    refresh_flags,
    start_admitted,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros

SPARE_MIN = 50  # extra candidates, in place of those that others have just locked
ROUNDS_MAX = 20
CROWDED_CLAIMS = 100  # claims with locks, after a contended one
PATIENCE_MILLISECONDS = 20  # the lock timeout of a claimant that is alone

# The query planner may try the lock more than once; that is harmless, since it is ours already.
ALONE = f"""
    alone AS MATERIALIZED (
      SELECT CASE
        WHEN NOT $8 THEN FALSE
        WHEN pg_try_advisory_xact_lock(
               hashtextextended('onbeat claim ' || current_schema(), 0))
        THEN set_config('lock_timeout', '{PATIENCE_MILLISECONDS}ms', TRUE) IS NOT NULL
        ELSE FALSE
      END AS is_so
    )
"""
"""Whether the claimant may go without locks ($8), and no other does so now."""

COUNTS = 7  # columns of the summary row; each other row is one job


def nulls(count: int) -> str:
    return ", ".join(["NULL"] * count)


FIRST = "jobs.ctid AS tid, jobs.xmin AS version, due_at, id, overlap IS NULL AS is_free"
CLAIM = (
    """
    WITH RECURSIVE
    paused AS MATERIALIZED (SELECT name FROM queues WHERE paused),
    apart AS MATERIALIZED (SELECT :any_apart AS is_so),
    :heads,
    lines AS MATERIALIZED (
      SELECT queue, priority, lane FROM heads WHERE mine AND lane = ANY($4)
    ),
    candidates AS MATERIALIZED (
      SELECT due.tid, due.version, due.due_at, due.id, line.priority, due.is_free
      FROM lines AS line
      CROSS JOIN LATERAL (:first_due) AS due
      ORDER BY line.priority, due.due_at, due.id
      LIMIT $6
    ),
    :alone,
    locked AS MATERIALIZED (:locked),
    picked AS MATERIALIZED (
      TABLE locked
      UNION ALL
      (SELECT tid, version, id, is_free
       FROM candidates
       WHERE (SELECT is_so FROM alone)
       ORDER BY priority, due_at, id
       LIMIT $7)
    ),
    :start,
    counts AS MATERIALIZED (
      SELECT
        (SELECT is_so FROM apart),
        (SELECT is_so FROM alone) AS is_alone,
        (SELECT count(*) FROM picked WHERE is_free) AS picked,
        (SELECT min(later.due_at)
         FROM lines AS line
         CROSS JOIN LATERAL (:next_due) AS later) AS next_due_at,
        :any_misfiled AS misfiled,
        (SELECT count(*) FROM candidates) AS candidates,
        ARRAY(SELECT id FROM picked WHERE NOT is_free) AS ruled
    )
    SELECT counts.*, :no_job FROM counts
    UNION ALL
    SELECT :no_counts, started.* FROM started
    """.replace(":no_job", nulls(CLAIMED_COUNT))
    .replace(":no_counts", nulls(COUNTS))
    .replace(":heads", list_heads("heads", LOOSE, mine=MINE, when="NOT (SELECT is_so FROM apart)"))
    .replace(":first_due", in_ready_list(LOOSE, FIRST, IN_TIME, "$6"))
    .replace(":next_due", in_ready_list(LOOSE, "due_at", "due_at > $2", "1"))
    .replace(":alone", ALONE)
    .replace(":locked", LOCKED)
    .replace(":start", START)
    .replace(":and_when", "AND NOT (SELECT is_so FROM alone)")
    .replace(":limit", "$7")
    .replace(":and", "")
    .replace(":any_apart", ANY_APART)
    .replace(":any_misfiled", ANY_MISFILED)
    .replace(":queues", "$5")
)
CLAIM_FROM_ALL = CLAIM.replace(":grouped", GROUPED_ANYWHERE)
CLAIM_FROM_SOME = CLAIM.replace(":grouped", GROUPED_IN.replace(":queues", "$5"))


async def claim(connections: LoopConnections, request: ClaimRequest) -> Claimed:
    """Most claims take one round; more follow if overlap rules or other claimants left room."""
    jobs: list[Job] = []
    spare = SPARE_MIN
    next_due_at: datetime | None = None
    for _ in range(ROUNDS_MAX):
        left = request.limit - len(jobs)
        batch = await take_some(connections, request, left, left + spare)
        jobs += batch.jobs
        if batch.with_overlap:
            jobs += await connections.transact(start_admitted, request, batch.with_overlap)
        returned = (
            await connections.run(refresh_flags, micros(request.now))
            if batch.has_stale_flags
            else 0
        )
        next_due_at = None if batch.next_due_at is None else instant(batch.next_due_at)
        if len(jobs) >= request.limit or not (batch.is_cut or batch.with_overlap or returned):
            break
        spare *= 4
    jobs.sort(key=attrgetter("priority", "due_at", "id"))
    return Claimed(jobs=tuple(jobs), next_due_at=next_due_at)


async def take_some(
    connections: LoopConnections, request: ClaimRequest, limit: int, candidates_max: int
) -> ClaimBatch:
    """In one statement, unless the last claim of this loop has found limits or groups."""
    if not connections.needs_limits:
        connections.contended_claims = max(0, connections.contended_claims - 1)
        batch = await connections.run(
            take, request, limit, candidates_max, may_be_alone=not connections.contended_claims
        )
        if batch.contended:
            connections.contended_claims = CROWDED_CLAIMS
        if not batch.needs_limits:
            return batch
    batch = await connections.transact(limited_claim.take, request, limit, candidates_max)
    connections.needs_limits = batch.needs_limits
    return batch


async def take(
    transaction: Transaction,
    request: ClaimRequest,
    limit: int,
    candidates_max: int,
    *,
    may_be_alone: bool,
) -> ClaimBatch:
    """Take up to `limit` jobs of up to `candidates_max` candidates.

    With `may_be_alone` the first try takes no locks; if it meets other claimants, the next one
    does.
    """
    try:
        return await take_once(
            transaction, request, limit, candidates_max, may_be_alone=may_be_alone
        )
    except asyncpg.LockNotAvailableError:
        if not may_be_alone:
            raise
    batch = await take_once(transaction, request, limit, candidates_max, may_be_alone=False)
    return msgspec.structs.replace(batch, contended=True)


async def take_once(
    transaction: Transaction,
    request: ClaimRequest,
    limit: int,
    candidates_max: int,
    *,
    may_be_alone: bool,
) -> ClaimBatch:
    if limit <= 0 or not request.lanes:
        return ClaimBatch()
    now, lease_until = micros(request.now), lease_end(request)
    rows: Sequence[Any] = await transaction.rows(
        CLAIM_FROM_ALL if request.queues is None else CLAIM_FROM_SOME,
        request.worker,
        now,
        lease_until,
        sorted(request.lanes),
        None if request.queues is None else list(request.queues),
        candidates_max,
        limit,
        may_be_alone,
    )
    is_apart, is_alone, picked, next_due_at, is_misfiled, candidates, ruled = rows[0][:COUNTS]
    jobs = read_started(rows, request)
    # Others had taken some of the jobs picked without locks.
    is_robbed = len(jobs) < picked
    return ClaimBatch(
        jobs=jobs,
        with_overlap=[JobId(str(id)) for id in ruled],
        next_due_at=next_due_at,
        is_cut=is_robbed or candidates >= candidates_max,
        has_stale_flags=is_misfiled,
        needs_limits=is_apart,
        contended=is_robbed or (may_be_alone and not is_alone),
    )
