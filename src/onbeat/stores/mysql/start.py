"""Starts claimed jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.queue import Limits
from onbeat.ports.store import ClaimRequest
from onbeat.rules.claims import as_claimed
from onbeat.rules.overlap import has_overlap_rule
from onbeat.stores.mysql.ready_lists import Kind, ReadyList, WaitingGroup, select_each
from onbeat.stores.mysql.rows import LIVE_COLUMNS, group_key, read_jobs
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import micros, micros_or_none
from onbeat.stores.sql.verbs.overlap import admit
from onbeat.stores.sql.verbs.schedules import lock_watermarks

SPARE_MIN = 50  # extra candidates, in place of those that others have just locked

STILL_STARTS = "(start_by IS NULL OR start_by >= %(now)s)"


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A due job that is not locked yet. `with_overlap`: it has an overlap rule to apply."""

    due_at: int
    id: JobId
    queue: str
    group: str | None
    with_overlap: bool


class ClaimTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target of one transaction of a claim: jobs of these ready lists, all of one priority.

    `limited`: the known limits of their queues; `groups`: groups with waiting jobs, for queues that
    limit groups; `spare`: extra candidates, in place of those that others have just locked.
    """

    request: ClaimRequest
    ready_lists: Sequence[ReadyList]
    limit: int
    spare: int = SPARE_MIN
    limited: Mapping[str, Limits] = {}
    groups: Sequence[WaitingGroup] = ()

    @property
    def priority(self) -> int:
        return self.ready_lists[0].priority

    def limits_groups(self, queue: str) -> bool:
        return queue in self.limited and self.limited[queue].by_group


class ClaimBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The taken jobs. `with_overlap`: due jobs whose overlap rule needs another transaction.

    `is_cut`: there may be more due jobs than were read. `again_at`: when more may start.
    """

    jobs: Sequence[Job]
    with_overlap: Sequence[Candidate] = ()
    is_cut: bool = False
    again_at: datetime | None = None


def candidate_of(job: Job) -> Candidate:
    group = group_key(job.group)
    return Candidate(micros(job.due_at), job.id, job.queue, group, has_overlap_rule(job))


async def find_candidates(
    transaction: Transaction, kind: Kind, request: Sequence[tuple[str, int]], now: int
) -> list[Candidate]:
    """The first due jobs of these lists or groups, each up to its limit, in one overall order."""
    column, index = kind
    sql = f"""
        (SELECT due_at, id, queue, grp, overlap IS NOT NULL AND schedule_id IS NOT NULL
         FROM jobs FORCE INDEX ({index})
         WHERE {column} = %s AND due_at <= %s
           AND (start_by IS NULL OR start_by >= %s)
         ORDER BY due_at, id
         LIMIT %s)
    """  # noqa: S608  values are bound
    rows = await select_each(transaction, sql, [(text, now, now, limit) for text, limit in request])
    return [
        Candidate(due_at, id, queue, group, bool(ruled))
        for due_at, id, queue, group, ruled in sorted(rows, key=lambda row: row[:2])
    ]


async def lock_candidates(
    transaction: Transaction, ids: Sequence[JobId], now: int, limit: int
) -> list[Row]:
    """Lock the candidates that no other claimant has taken, up to the limit."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %(ids)s AND line IS NOT NULL AND due_at <= %(now)s AND {STILL_STARTS}
        FOR UPDATE SKIP LOCKED
    """  # noqa: S608  values are bound
    rows: list[Row] = []
    dsn = 0
    while len(rows) < limit and dsn < len(ids):
        part = tuple(ids[dsn : dsn + limit - len(rows)])
        rows += await transaction.rows(sql, {"ids": part, "now": now})
        dsn += len(part)
    return rows


async def start_admitted(
    transaction: Transaction, request: ClaimRequest, candidates: Sequence[Candidate]
) -> list[Job]:
    """Start jobs that their overlap rule admits; each sees the ones before it as running."""
    await lock_schedules_of(transaction, [candidate.id for candidate in candidates])
    now = micros(request.now)
    admitted: list[Job] = []
    for candidate in candidates:
        job = await still_ready(transaction, candidate, now)
        if job is not None and await admit(transaction, job, now):
            await start(transaction, request, [candidate.id])
            admitted.append(job)
    return [as_claimed(job, request.worker, request.now, request.lease_until) for job in admitted]


async def lock_schedules_of(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """One claimant at a time applies a schedule's overlap rule, also that of a deleted one."""
    sql = "SELECT DISTINCT schedule_id FROM jobs WHERE id IN %s AND schedule_id IS NOT NULL"
    request: set[ScheduleId] = set(await transaction.column(sql, (tuple(ids),)))
    if request - (await lock_watermarks(transaction, request)).keys():
        await transaction.run("SELECT 1 FROM marks WHERE name = 'gone' FOR UPDATE")


async def still_ready(transaction: Transaction, candidate: Candidate, now: int) -> Job | None:
    """The job under lock, if it may still start: a schedule's edit may have changed its queue."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id = %(id)s AND queue = %(queue)s AND line IS NOT NULL AND due_at <= %(now)s
          AND {STILL_STARTS}
        FOR UPDATE
    """  # noqa: S608  values are bound
    request = {"id": candidate.id, "queue": candidate.queue, "now": now}
    return next(iter(read_jobs(await transaction.rows(sql, request))), None)


async def start(transaction: Transaction, request: ClaimRequest, ids: Sequence[JobId]) -> None:
    if ids:
        await transaction.run(
            """
            UPDATE jobs FORCE INDEX (PRIMARY)
            SET running = 1, worker = %s, token = token + 1, attempt = attempt + 1,
                started_at = %s, lease_until = %s, progress = NULL
            WHERE id IN %s
            """,
            (
                request.worker,
                micros(request.now),
                micros_or_none(request.lease_until),
                tuple(ids),
            ),
        )
