"""Giving out due jobs.

A claim is one statement, and so one transaction. Jobs with an overlap rule need another, and where
there are groups of jobs, or limits, `admission` does the work instead.

Claimants that meet others lock jobs before they change them, and leave out what others have locked.
One that is alone spares the server these locks. It only takes itself to be alone: where it was
wrong it waits for a moment at most, and starts over with locks.
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
from onbeat.stores.postgres import admission
from onbeat.stores.postgres.admission import ANY_APART, GROUPED_ANYWHERE, GROUPED_IN
from onbeat.stores.postgres.lines import IN_TIME, LOOSE, MINE, heads, in_line
from onbeat.stores.postgres.site import Site
from onbeat.stores.postgres.starting import (
    ANY_MISFILED,
    CLAIMED_COUNT,
    LOCKED,
    START,
    Bite,
    file_anew,
    lease_end,
    read_started,
    start_admitted,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros

SPARE_MIN = 50  # candidates beyond the limit, for those that another claimant has just locked
ROUNDS_MAX = 20
CROWDED_CLAIMS = 100  # with locks, after others were met
PATIENCE_MILLISECONDS = 20  # with which one that is alone waits for a job that is locked

# Where the planner tried the lock more than once, that would do no harm: it is ours already.
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
"""Whether the claimant shall be alone ($8), and no other is that now."""

COUNTS = 7  # columns of the row that tells of all jobs; each of the others tells of one


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
    .replace(":heads", heads("heads", LOOSE, mine=MINE, when="NOT (SELECT is_so FROM apart)"))
    .replace(":first_due", in_line(LOOSE, FIRST, IN_TIME, "$6"))
    .replace(":next_due", in_line(LOOSE, "due_at", "due_at > $2", "1"))
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


async def claim(site: Site, request: ClaimRequest) -> Claimed:
    """Most claims are one round; others follow where rules or other claimants left places free."""
    jobs: list[Job] = []
    spare = SPARE_MIN
    next_due_at: datetime | None = None
    for _ in range(ROUNDS_MAX):
        left = request.limit - len(jobs)
        bite = await take_some(site, request, left, left + spare)
        jobs += bite.jobs
        if bite.ruled:
            jobs += await site.transact(start_admitted, (request, bite.ruled))
        returned = await site.ask(file_anew, micros(request.now)) if bite.is_misfiled else 0
        next_due_at = None if bite.next_due_at is None else instant(bite.next_due_at)
        if len(jobs) >= request.limit or not (bite.is_cut or bite.ruled or returned):
            break
        spare *= 4
    jobs.sort(key=attrgetter("priority", "due_at", "id"))
    return Claimed(jobs=tuple(jobs), next_due_at=next_due_at)


async def take_some(site: Site, request: ClaimRequest, limit: int, candidates_max: int) -> Bite:
    """In one statement, unless the last claim from here has found that it takes more."""
    if not site.is_apart:
        site.crowded_claims = max(0, site.crowded_claims - 1)
        bite = await site.ask(take, (request, limit, candidates_max, not site.crowded_claims))
        if bite.is_crowded:
            site.crowded_claims = CROWDED_CLAIMS
        if not bite.is_apart:
            return bite
    bite = await site.transact(admission.take, (request, limit, candidates_max))
    site.is_apart = bite.is_apart
    return bite


Asked = tuple[ClaimRequest, int, int, bool]
"""Up to so many jobs, of up to so many candidates; and whether the claimant may take no locks."""


async def take(transaction: Transaction, asked: Asked) -> Bite:
    try:
        return await take_as_asked(transaction, asked)
    except asyncpg.LockNotAvailableError:
        request, limit, candidates_max, may_be_alone = asked
        if not may_be_alone:
            raise
    bite = await take_as_asked(transaction, (request, limit, candidates_max, False))
    return msgspec.structs.replace(bite, is_crowded=True)


async def take_as_asked(transaction: Transaction, asked: Asked) -> Bite:
    request, limit, candidates_max, may_be_alone = asked
    if limit <= 0 or not request.lanes:
        return Bite()
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
    # Others had taken what was picked without locks.
    is_robbed = len(jobs) < picked
    return Bite(
        jobs=jobs,
        ruled=[JobId(str(id)) for id in ruled],
        next_due_at=next_due_at,
        is_cut=is_robbed or candidates >= candidates_max,
        is_misfiled=is_misfiled,
        is_apart=is_apart,
        is_crowded=is_robbed or (may_be_alone and not is_alone),
    )
