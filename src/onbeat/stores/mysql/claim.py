"""Giving out due jobs.

`jobs_due` keeps, for each line, the jobs that may be claimed in the order in which they are due. A
claim finds which lines there are by hopping from one to the next, so that it costs nothing that
they are long, and locks the heads of those that it may take: a lock on more, as sorting needs,
would keep other claimants from all that was sorted.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.stores.mysql.jobs import jobs_by_id
from onbeat.stores.mysql.lines import Line, each, find_lines, later_heads
from onbeat.stores.mysql.overlap import admit
from onbeat.stores.mysql.planning import lock_schedules
from onbeat.stores.mysql.rows import LIVE_COLUMNS, instant, micros, read_jobs
from onbeat.stores.mysql.site import Site
from onbeat.stores.mysql.transaction import Row, Transaction

LAPSED_MAX = 5_000  # set aside by one transaction; more would hold up the others
ROUNDS_MAX = 20
SPARE_MIN = 50  # candidates beyond the limit, for those that another claimant has just locked

STILL_STARTS = "(start_by IS NULL OR start_by >= %(now)s OR token > 0)"


class Sight(msgspec.Struct, frozen=True):
    """What a claim finds before it locks anything."""

    lines: Sequence[Line]
    paused: Collection[str]


class Bite(msgspec.Struct, frozen=True):
    """What one transaction took. `ruled`: due, but an overlap rule has to be asked.

    `is_cut`: there may be more that is due than was looked at.
    """

    jobs: Sequence[Job]
    ruled: Sequence[JobId]
    is_cut: bool


async def claim(site: Site, request: ClaimRequest) -> Claimed:
    now = micros(request.now)
    sight = await site.ask(look, (now, site.lines))
    site.lines = frozenset(line.text for line in sight.lines)
    lines = [line for line in sight.lines if may_take(line, request, sight.paused)]
    taken: list[Job] = []
    due = sorted((line for line in lines if line.due_at <= now), key=attrgetter("priority"))
    for _, same in groupby(due, key=attrgetter("priority")):
        taken += await take_all(site, request, list(same), request.limit - len(taken))
        if len(taken) >= request.limit:
            return Claimed(jobs=tuple(taken), next_due_at=None)
    following = await site.ask(find_next_due, (lines, now))
    return Claimed(jobs=tuple(taken), next_due_at=None if following is None else instant(following))


def may_take(line: Line, request: ClaimRequest, paused: Collection[str]) -> bool:
    return (
        line.lane in request.lanes
        and line.queue not in paused
        and (request.queues is None or line.queue in request.queues)
    )


async def look(transaction: Transaction, asked: tuple[int, Collection[str]]) -> Sight:
    """Which lines there are, once what has lapsed is out of them."""
    now, known = asked
    lapsed, paused = await transaction.tables(
        (LOOK_FOR_LAPSED, "SELECT name FROM queues WHERE paused = 1"), {"now": now}
    )
    if any(lapsed[0]):
        await set_lapsed_aside(transaction, now)
    return Sight(await find_lines(transaction, known), frozenset(name for (name,) in paused))


LOOK_FOR_LAPSED = """
    SELECT
      EXISTS (SELECT 1 FROM jobs FORCE INDEX (jobs_bounded)
              WHERE lapsed = 0 AND bound_by < %(now)s),
      EXISTS (SELECT 1 FROM jobs FORCE INDEX (jobs_bounded)
              WHERE lapsed = 1 AND bound_by >= %(now)s)
"""


async def set_lapsed_aside(transaction: Transaction, now: int) -> None:
    """Keep jobs that may no longer start out of the index, so that each is met once.

    Clocks can be set back: what lapsed by a later present than this returns. Another claimant may
    be at it too: each statement looks again at what it changes.
    """
    for was, condition in ((0, "bound_by < %(now)s"), (1, "bound_by >= %(now)s")):
        sql = f"""
            SELECT id
            FROM jobs FORCE INDEX (jobs_bounded)
            WHERE lapsed = {was} AND {condition}
            ORDER BY bound_by, id
            LIMIT %(limit)s
        """  # noqa: S608  values are bound
        ids = await transaction.column(sql, {"now": now, "limit": LAPSED_MAX})
        if ids:
            update = f"""
                UPDATE jobs FORCE INDEX (PRIMARY)
                SET lapsed = 1 - lapsed
                WHERE id IN %(ids)s AND lapsed = {was} AND {condition}
                ORDER BY id
            """  # noqa: S608  values are bound
            await transaction.run(update, {"ids": tuple(ids), "now": now})


async def take_all(
    site: Site, request: ClaimRequest, lines: Sequence[Line], limit: int
) -> list[Job]:
    """Start due jobs of lines of one priority until the limit or until none is left."""
    taken: list[Job] = []
    spare = SPARE_MIN
    for _ in range(ROUNDS_MAX):
        bite = await site.transact(take, (request, lines, limit - len(taken), spare))
        taken += bite.jobs
        if bite.ruled:
            taken += await site.transact(start_admitted, (request, bite.ruled))
        if len(taken) >= limit or not (bite.is_cut or bite.ruled):
            break
        spare *= 4
    ids = [job.id for job in taken if job.overlap is not Overlap.ALLOW]
    if ids:
        # A later job of a claim may have asked an earlier one to stop.
        now_as = await site.ask(jobs_by_id, ids)
        taken = [now_as.get(job.id, job) for job in taken]
    return sorted(taken, key=attrgetter("due_at", "id"))


async def take(
    transaction: Transaction, asked: tuple[ClaimRequest, Sequence[Line], int, int]
) -> Bite:
    request, lines, limit, spare = asked
    now = micros(request.now)
    if len(lines) == 1:
        rows = await lock_heads(transaction, lines[0], now, limit)
        is_cut = False
    else:
        candidates = await find_candidates(transaction, lines, now, limit + spare)
        rows = await lock_candidates(transaction, candidates, now, limit)
        is_cut = len(rows) < limit and len(candidates) >= limit + spare
    due = read_jobs(rows)
    free = [job for job in due if job.overlap is Overlap.ALLOW or job.schedule_id is None]
    await start(transaction, request, [job.id for job in free])
    ruled = sorted((job for job in due if job not in free), key=attrgetter("due_at", "id"))
    return Bite([started(job, request) for job in free], [job.id for job in ruled], is_cut)


async def lock_heads(transaction: Transaction, line: Line, now: int, limit: int) -> Sequence[Row]:
    """Most claims find one line, which has its jobs in order already."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (jobs_due)
        WHERE line = %(line)s AND due_at <= %(now)s AND {STILL_STARTS}
        ORDER BY due_at, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    """  # noqa: S608  values are bound
    return await transaction.rows(sql, {"line": line.text, "now": now, "limit": limit})


async def find_candidates(
    transaction: Transaction, lines: Sequence[Line], now: int, limit: int
) -> list[JobId]:
    """The first due jobs of several lines, in order, not locked yet."""
    sql = """
        (SELECT id, due_at
         FROM jobs FORCE INDEX (jobs_due)
         WHERE line = %s AND due_at <= %s AND (start_by IS NULL OR start_by >= %s OR token > 0)
         ORDER BY due_at, id
         LIMIT %s)
    """
    found = await each(transaction, sql, [(line.text, now, now, limit) for line in lines])
    return [id for id, _ in sorted(found, key=lambda row: (row[1], row[0]))[:limit]]


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
    transaction: Transaction, asked: tuple[ClaimRequest, Sequence[JobId]]
) -> list[Job]:
    """Start what no overlap rule holds back; each sees those before it running."""
    request, ids = asked
    await lock_schedules_of(transaction, ids)
    admitted: list[Job] = []
    for id in ids:
        job = await still_ready(transaction, id, micros(request.now))
        if job is not None and await admit(transaction, job, micros(request.now)):
            await start(transaction, request, [id])
            admitted.append(job)
    return [started(job, request) for job in admitted]


async def lock_schedules_of(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """One claimant at a time decides about a schedule, also about one that is gone."""
    sql = "SELECT DISTINCT schedule_id FROM jobs WHERE id IN %s AND schedule_id IS NOT NULL"
    asked: set[ScheduleId] = set(await transaction.column(sql, (tuple(ids),)))
    if asked - (await lock_schedules(transaction, asked)).keys():
        await transaction.run("SELECT 1 FROM marks WHERE name = 'gone' FOR UPDATE")


async def still_ready(transaction: Transaction, id: JobId, now: int) -> Job | None:
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id = %(id)s AND line IS NOT NULL AND due_at <= %(now)s AND {STILL_STARTS}
        FOR UPDATE
    """  # noqa: S608  values are bound
    return next(iter(read_jobs(await transaction.rows(sql, {"id": id, "now": now}))), None)


async def start(transaction: Transaction, request: ClaimRequest, ids: Sequence[JobId]) -> None:
    if ids:
        await transaction.run(
            """
            UPDATE jobs FORCE INDEX (PRIMARY)
            SET running = 1, worker = %s, token = token + 1, attempt = attempt + 1,
                started_at = %s, progress = NULL
            WHERE id IN %s
            """,
            (request.worker, micros(request.now), tuple(ids)),
        )


def started(job: Job, request: ClaimRequest) -> Job:
    return replace(
        job,
        state=JobState.RUNNING,
        worker=request.worker,
        token=Token(job.token + 1),
        attempt=job.attempt + 1,
        started_at=request.now,
        progress=None,
    )


async def find_next_due(transaction: Transaction, asked: tuple[Sequence[Line], int]) -> int | None:
    """The earliest due time after now in any of the lines."""
    lines, now = asked
    later = [line.due_at for line in lines if line.due_at > now]
    due = [line for line in lines if line.due_at <= now]
    later += [due_at for (due_at,) in await later_heads(transaction, due, now)]
    return min(later, default=None)
