"""Claims of due jobs.

A claim is one statement, and so one transaction. Jobs with an overlap rule need another one. With
groups of jobs, or limits, `limited_claim` does the work instead.

Concurrent claimants lock jobs before they change them, and skip locked ones. A claimant that is
probably alone saves the server these locks. If it was not alone, it waits for a few milliseconds at
most and starts over with locks.

Where the server has to keep what was claimed for an old snapshot, claims begin behind their marks
(`rules.claim_marks`).
"""

import time
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.rules.claim_marks import ClaimMarks, ListKey, Position
from onbeat.rules.lone_jobs import LastLook
from onbeat.stores.postgres import limited_claim, lone_claim
from onbeat.stores.postgres.limited_claim import ANY_APART, GROUPED_ANYWHERE, GROUPED_IN
from onbeat.stores.postgres.loop_connections import LoopConnections
from onbeat.stores.postgres.ready_lists import IN_TIME, LOOSE, MINE, in_ready_list, list_heads
from onbeat.stores.postgres.rows import CLAIMED_COUNT, columns
from onbeat.stores.postgres.start import (
    ANY_MISFILED,
    LOCKED,
    START,
    ClaimBatch,
    UnreadJobs,
    in_order,
    lease_end,
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

COUNTS = 11  # columns of the summary row; each other row is one job
ENTRIES_READ = "pg_stat_get_xact_tuples_returned('jobs_due'::regclass)"
"""How many entries of the index this session has read. The server sets it to 0 once in a while, but
not within a statement."""
START_OF_LIST = (-(2**63), "00000000-0000-0000-0000-000000000000")

LINES = """
    :heads,
    lines AS MATERIALIZED (
      SELECT queue, priority, lane FROM heads WHERE mine AND lane = ANY($4)
    )
"""
"""The ready lists of the claimant, as they are found from the start of each list."""
MARKED_LINES = """
    lines AS MATERIALIZED (
      SELECT queue, priority, lane, due_at, id
      FROM unnest($9::text[], $10::smallint[], $11::text[], $12::bigint[], $13::uuid[])
           AS line (queue, priority, lane, due_at, id)
      WHERE lane = ANY($4)
        AND queue <> ALL(ARRAY(TABLE paused))
        AND NOT (SELECT is_so FROM apart)
    )
"""
"""Known lists of the claimant, with the mark of each."""
BEHIND_MARK = f"{IN_TIME} AND (jobs.due_at, jobs.id) > (line.due_at, line.id)"


def nulls(count: int) -> str:
    return ", ".join(["NULL"] * count)


FIRST = "jobs.ctid AS tid, jobs.xmin AS version, due_at, id, overlap IS NULL AS is_free"
CLAIM = (
    """
    WITH RECURSIVE
    paused AS MATERIALIZED (SELECT name FROM queues WHERE paused),
    apart AS MATERIALIZED (SELECT :any_apart AS is_so, :entries AS entries_before),
    :lines,
    candidates AS MATERIALIZED (
      SELECT due.tid, due.version, due.due_at, due.id, line.priority, due.is_free
      FROM lines AS line
      CROSS JOIN LATERAL (:first_due) AS due
      ORDER BY line.priority, due.due_at, due.id
      LIMIT $6
    ),
    reading AS MATERIALIZED (
      SELECT candidates,
             :entries - (SELECT entries_before FROM apart) - candidates AS passed
      FROM (SELECT count(*) AS candidates FROM candidates) AS counted
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
        reading.candidates,
        ARRAY(SELECT id FROM picked WHERE NOT is_free) AS ruled,
        reading.passed,
        ARRAY(SELECT queue FROM lines) AS queues,
        ARRAY(SELECT priority FROM lines) AS priorities,
        ARRAY(SELECT lane FROM lines) AS lanes
      FROM reading
    )
    SELECT counts.*, :no_job FROM counts
    UNION ALL
    SELECT :no_counts, started.* FROM started
    """.replace(":no_job", nulls(CLAIMED_COUNT))
    .replace(":no_counts", nulls(COUNTS))
    .replace(":next_due", in_ready_list(LOOSE, "due_at", "due_at > $2", "1"))
    .replace(":alone", ALONE)
    .replace(":locked", LOCKED)
    .replace(":start", START)
    .replace(":and_when", "AND NOT (SELECT is_so FROM alone)")
    .replace(":limit", "$7")
    .replace(":and", "")
    .replace(":any_apart", ANY_APART)
    .replace(":entries", ENTRIES_READ)
    .replace(":any_misfiled", ANY_MISFILED)
    .replace(":queues", "$5")
)


def claim_sql(lines: str, in_time: str, grouped: str) -> str:
    return (
        CLAIM.replace(":lines", lines.strip())
        .replace(
            ":heads", list_heads("heads", LOOSE, mine=MINE, when="NOT (SELECT is_so FROM apart)")
        )
        .replace(":first_due", in_ready_list(LOOSE, FIRST, in_time, "$6"))
        .replace(":grouped", grouped.replace(":queues", "$5"))
    )


STATEMENTS = {
    (True, True): claim_sql(LINES, IN_TIME, GROUPED_ANYWHERE),
    (True, False): claim_sql(MARKED_LINES, BEHIND_MARK, GROUPED_ANYWHERE),
    (False, True): claim_sql(LINES, IN_TIME, GROUPED_IN),
    (False, False): claim_sql(MARKED_LINES, BEHIND_MARK, GROUPED_IN),
}
"""The claim by whether it is from all queues, and whether from the start of each list."""


Marks = Mapping[ListKey, Position | None]


async def claim(connections: LoopConnections, request: ClaimRequest) -> Claimed:
    """Where a single job was announced shortly after a look has left none, that job is taken."""
    claimant, scope = connections.claimant(request.worker), (request.lanes, request.queues)
    began, look, job = time.monotonic(), claimant.last_look, connections.announced_job()
    if request.limit and job and look and look.is_good(scope, began, request.now):
        jobs, must_look = await connections.run(lone_claim.take, request, job)
        if not must_look:
            return Claimed(jobs=jobs, next_due_at=look.next_due_at)
    claimant.last_look = None
    claimed = await look_and_claim(connections, request, claimant.marks)
    if len(claimed.jobs) < request.limit:
        claimant.last_look = LastLook(scope, began, claimed.next_due_at)
    return claimed


async def look_and_claim(
    connections: LoopConnections, request: ClaimRequest, marks: ClaimMarks
) -> Claimed:
    """Most claims take one round; more follow if overlap rules or other claimants left room."""
    scope = (request.lanes, request.queues)
    jobs: Sequence[Job] = ()
    spare, batch = SPARE_MIN, ClaimBatch()
    lists = marks.lists(scope, time.monotonic())
    for _ in range(ROUNDS_MAX):
        left = request.limit - len(jobs)
        batch = await take_some(connections, request, left, left + spare, lists)
        jobs = in_order(jobs, batch.jobs)
        filled = len(batch.jobs) + len(batch.with_overlap) >= left
        note(marks, scope, batch, from_start=lists is None, filled=filled)
        if batch.with_overlap:
            admitted = await connections.transact(start_admitted, request, batch.with_overlap)
            jobs = in_order(jobs, admitted)
        returned = (
            await connections.run(refresh_flags, micros(request.now))
            if batch.has_stale_flags
            else 0
        )
        if returned:  # they may be ready before a mark
            marks.forget()
            lists = None
        if len(jobs) >= request.limit:
            break
        if not (batch.is_cut or batch.with_overlap or returned):
            if lists is None or time.monotonic() < marks.short_until:
                break
            lists = None
        spare *= 4
    next_due_at = next_due(batch, request, marks if lists is not None else None)
    return Claimed(jobs=jobs, next_due_at=next_due_at)


def note(
    marks: ClaimMarks, scope: Hashable, batch: ClaimBatch, *, from_start: bool, filled: bool
) -> None:
    """Remember how far this round has read, unless limits held jobs back on its way."""
    if batch.needs_limits:
        marks.forget()
    elif from_start:
        marks.note_read(scope, batch.lists, batch.passed, time.monotonic())
    marks.note_claimed(batch.jobs, from_start=from_start, filled=filled)


def next_due(batch: ClaimBatch, request: ClaimRequest, marks: ClaimMarks | None) -> datetime | None:
    """When the next job could be due; with marks, no later than the next read from the start."""
    due_at = None if batch.next_due_at is None else instant(batch.next_due_at)
    if marks is None:
        return due_at
    wait = max(0.0, marks.short_until - time.monotonic())
    look_at = request.now + timedelta(seconds=wait)
    return look_at if due_at is None else min(due_at, look_at)


async def take_some(
    connections: LoopConnections,
    request: ClaimRequest,
    limit: int,
    candidates_max: int,
    lists: Marks | None,
) -> ClaimBatch:
    """In one statement, unless the last claim of this loop has found limits or groups."""
    if not connections.needs_limits:
        connections.contended_claims = max(0, connections.contended_claims - 1)
        batch = await connections.run(
            take,
            request,
            limit,
            candidates_max,
            lists,
            may_be_alone=not connections.contended_claims,
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
    lists: Marks | None = None,
    *,
    may_be_alone: bool,
) -> ClaimBatch:
    """Take up to `limit` jobs of up to `candidates_max` candidates.

    With `lists` only these are read, each behind its mark. With `may_be_alone` the first try takes
    no locks; if it meets other claimants, the next one does.
    """
    try:
        return await take_once(
            transaction, request, limit, candidates_max, lists, may_be_alone=may_be_alone
        )
    except asyncpg.LockNotAvailableError:
        if not may_be_alone:
            raise
    batch = await take_once(transaction, request, limit, candidates_max, lists, may_be_alone=False)
    return msgspec.structs.replace(batch, contended=True)


async def take_once(
    transaction: Transaction,
    request: ClaimRequest,
    limit: int,
    candidates_max: int,
    lists: Marks | None,
    *,
    may_be_alone: bool,
) -> ClaimBatch:
    if limit <= 0 or not request.lanes:
        return ClaimBatch()
    sql = STATEMENTS[request.queues is None, lists is None]
    rows: Sequence[Any] = await transaction.rows(
        sql,
        request.worker,
        micros(request.now),
        lease_end(request),
        sorted(request.lanes),
        None if request.queues is None else list(request.queues),
        candidates_max,
        limit,
        may_be_alone,
        *([] if lists is None else mark_columns(lists)),
    )
    is_apart, is_alone, picked, next_due_at, is_misfiled, candidates, ruled, passed, *found = rows[
        0
    ][:COUNTS]
    jobs = UnreadJobs(rows, request)
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
        lists=list(zip(*found, strict=True)),
        passed=passed,
    )


def mark_columns(lists: Marks) -> list[tuple[Any, ...]]:
    """The lists and their marks, one array for each parameter."""
    return columns([(*key, *place_of(mark)) for key, mark in lists.items()])


def place_of(mark: Position | None) -> tuple[int, str]:
    return START_OF_LIST if mark is None else (micros(mark[0]), mark[1])
