"""Starting jobs that a claim has chosen."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.queue import Limits
from onbeat.model.schedule import Overlap
from onbeat.ports.store import ClaimRequest
from onbeat.stores.mysql.lines import Group, Kind, Line, each
from onbeat.stores.mysql.overlap import Neighbours
from onbeat.stores.mysql.planning import lock_schedules
from onbeat.stores.mysql.rows import LIVE_COLUMNS, group_key, read_jobs
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.overlap import admit
from onbeat.stores.sql.values import micros, micros_or_none

SPARE_MIN = 50  # candidates beyond the limit, for those that another claimant has just locked

STILL_STARTS = "(start_by IS NULL OR start_by >= %(now)s)"


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A due job that is not locked yet. `ruled`: an overlap rule has to be asked."""

    due_at: int
    id: JobId
    queue: str
    group: str | None
    ruled: bool


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction of a claim shall take: jobs of these lines, all of one priority.

    `limited`: what is known of limits of their queues; `groups`: where jobs wait in lines of those
    that limit groups; `spare`: how many more to look at, for those that others have just locked.
    """

    request: ClaimRequest
    lines: Sequence[Line]
    limit: int
    spare: int = SPARE_MIN
    limited: Mapping[str, Limits] = {}
    groups: Sequence[Group] = ()

    def limits_groups(self, queue: str) -> bool:
        return queue in self.limited and self.limited[queue].by_group


class Bite(msgspec.Struct, frozen=True, kw_only=True):
    """What it took. `ruled`: due, but an overlap rule has to be asked, in another transaction.

    `is_cut`: there may be more that is due than was looked at. `again_at`: when more may start.
    """

    jobs: Sequence[Job]
    ruled: Sequence[Candidate] = ()
    is_cut: bool = False
    again_at: datetime | None = None


def is_ruled(job: Job) -> bool:
    return job.overlap is not Overlap.ALLOW and job.schedule_id is not None


def candidate_of(job: Job) -> Candidate:
    group = group_key(job.group)
    return Candidate(micros(job.due_at), job.id, job.queue, group, is_ruled(job))


async def find_candidates(
    transaction: Transaction, kind: Kind, asked: Sequence[tuple[str, int]], now: int
) -> list[Candidate]:
    """Of each of these lines or groups so many of the first due jobs, in order over all."""
    column, index = kind
    sql = f"""
        (SELECT due_at, id, queue, grp, overlap IS NOT NULL AND schedule_id IS NOT NULL
         FROM jobs FORCE INDEX ({index})
         WHERE {column} = %s AND due_at <= %s
           AND (start_by IS NULL OR start_by >= %s)
         ORDER BY due_at, id
         LIMIT %s)
    """  # noqa: S608  values are bound
    rows = await each(transaction, sql, [(text, now, now, limit) for text, limit in asked])
    return [
        Candidate(due_at, id, queue, group, bool(ruled))
        for due_at, id, queue, group, ruled in sorted(rows, key=lambda row: row[:2])
    ]


async def lock_candidates(
    transaction: Transaction, ids: Sequence[JobId], now: int, limit: int
) -> list[Row]:
    """Those that nobody else has taken, as many as the limit leaves room for in each go."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %(ids)s AND line IS NOT NULL AND due_at <= %(now)s AND {STILL_STARTS}
        FOR UPDATE SKIP LOCKED
    """  # noqa: S608  values are bound
    rows: list[Row] = []
    place = 0
    while len(rows) < limit and place < len(ids):
        part = tuple(ids[place : place + limit - len(rows)])
        rows += await transaction.rows(sql, {"ids": part, "now": now})
        place += len(part)
    return rows


async def start_admitted(
    transaction: Transaction, asked: tuple[ClaimRequest, Sequence[Candidate]]
) -> list[Job]:
    """Start what no overlap rule holds back; each sees those before it running."""
    request, candidates = asked
    await lock_schedules_of(transaction, [one.id for one in candidates])
    neighbours = Neighbours(transaction, micros(request.now))
    admitted: list[Job] = []
    for one in candidates:
        job = await still_ready(transaction, one, micros(request.now))
        if job is not None and await admit(neighbours, job):
            await start(transaction, request, [one.id])
            admitted.append(job)
    return [started(job, request) for job in admitted]


async def lock_schedules_of(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """One claimant at a time decides about a schedule, also about one that is gone."""
    sql = "SELECT DISTINCT schedule_id FROM jobs WHERE id IN %s AND schedule_id IS NOT NULL"
    asked: set[ScheduleId] = set(await transaction.column(sql, (tuple(ids),)))
    if asked - (await lock_schedules(transaction, asked)).keys():
        await transaction.run("SELECT 1 FROM marks WHERE name = 'gone' FOR UPDATE")


async def still_ready(transaction: Transaction, one: Candidate, now: int) -> Job | None:
    """An edit of its schedule may have taken it to another queue since."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id = %(id)s AND queue = %(queue)s AND line IS NOT NULL AND due_at <= %(now)s
          AND {STILL_STARTS}
        FOR UPDATE
    """  # noqa: S608  values are bound
    asked = {"id": one.id, "queue": one.queue, "now": now}
    return next(iter(read_jobs(await transaction.rows(sql, asked))), None)


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
                micros_or_none(lease_until(request)),
                tuple(ids),
            ),
        )


def started(job: Job, request: ClaimRequest) -> Job:
    return replace(
        job,
        state=JobState.RUNNING,
        worker=request.worker,
        token=Token(job.token + 1),
        attempt=job.attempt + 1,
        started_at=request.now,
        lease_until=lease_until(request),
        progress=None,
    )


def lease_until(request: ClaimRequest) -> datetime | None:
    return None if request.lease is None else request.now + request.lease
