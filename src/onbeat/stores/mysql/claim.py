"""Giving out due jobs.

`jobs_due` keeps, for each line, the jobs that may be claimed in the order in which they are due. A
claim finds which lines there are by hopping from one to the next, so that it costs nothing that
they are long, and locks the heads of those that it may take: a lock on more, as sorting needs,
would keep other claimants from all that was sorted.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from onbeat.model.job import Job
from onbeat.model.queue import NO_LIMITS, Limits, Queue
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.stores.mysql.admission import take_admitted
from onbeat.stores.mysql.jobs import jobs_by_id
from onbeat.stores.mysql.lines import LINE, Line, find_groups, find_lines, later_heads
from onbeat.stores.mysql.queues import APART, read_rules
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.mysql.site import Site
from onbeat.stores.mysql.starting import (
    STILL_STARTS,
    Bite,
    Wanted,
    candidate_of,
    find_candidates,
    is_ruled,
    lock_candidates,
    start,
    start_admitted,
    started,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros

LAPSED_MAX = 5_000  # set aside by one transaction; more would hold up the others
ROUNDS_MAX = 20


class Sight(msgspec.Struct, frozen=True):
    """What a claim finds before it locks anything. `rules`: of queues paused or limited."""

    lines: Sequence[Line]
    rules: Mapping[str, Queue]

    def may_take(self, line: Line, request: ClaimRequest) -> bool:
        return (
            line.lane in request.lanes
            and (request.queues is None or line.queue in request.queues)
            and not (line.queue in self.rules and self.rules[line.queue].paused)
        )


async def claim(site: Site, request: ClaimRequest) -> Claimed:
    now = micros(request.now)
    sight = await site.ask(look, (now, site.lines))
    site.remember_lines(sight.lines)
    lines = [line for line in sight.lines if sight.may_take(line, request)]
    taken: list[Job] = []
    again: list[datetime] = []
    due = sorted((line for line in lines if line.due_at <= now), key=attrgetter("priority"))
    for _, same in groupby(due, key=attrgetter("priority")):
        part = list(same)
        wanted = Wanted(
            request=request,
            lines=part,
            limit=request.limit - len(taken),
            limited=limits_of(part, sight.rules),
        )
        jobs, again_at = await take_all(site, wanted)
        taken += jobs
        if len(taken) >= request.limit:
            return Claimed(jobs=tuple(taken), next_due_at=None)
        if again_at is not None:
            again.append(again_at)
    following = await site.ask(find_next_due, (lines, now))
    if following is not None:
        again.append(instant(following))
    return Claimed(jobs=tuple(taken), next_due_at=min(again, default=None))


def limits_of(lines: Sequence[Line], rules: Mapping[str, Queue]) -> Mapping[str, Limits]:
    """Those of the queues of these lines that have any."""
    limits = {line.queue: rules[line.queue].limits for line in lines if line.queue in rules}
    return {queue: one for queue, one in limits.items() if one != NO_LIMITS}


async def look(transaction: Transaction, asked: tuple[int, Collection[str]]) -> Sight:
    """Which lines there are, once what has lapsed is out of them."""
    now, known = asked
    lapsed, apart = await transaction.tables((LOOK_FOR_LAPSED, APART), {"now": now})
    if any(lapsed[0]):
        await set_lapsed_aside(transaction, now)
    return Sight(await find_lines(transaction, known), read_rules(apart))


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


async def take_all(site: Site, wanted: Wanted) -> tuple[list[Job], datetime | None]:
    """Start due jobs until the limit or until none is left; says when a rate lets more start."""
    taken: list[Job] = []
    again_at: datetime | None = None
    for _ in range(ROUNDS_MAX):
        bite = await take_some(site, wanted)
        taken += bite.jobs
        again_at = bite.again_at
        if bite.ruled:
            taken += await site.transact(start_admitted, (wanted.request, bite.ruled))
        room = wanted.limit - len(taken)
        if room <= 0 or not (bite.is_cut or bite.ruled):
            break
        wanted = replace(wanted, limit=room, spare=wanted.spare * 4)
    ids = [job.id for job in taken if job.overlap is not Overlap.ALLOW]
    if ids:
        # A later job of a claim may have asked an earlier one to stop.
        now_as = await site.ask(jobs_by_id, ids)
        taken = [now_as.get(job.id, job) for job in taken]
    return sorted(taken, key=attrgetter("due_at", "id")), again_at


async def take_some(site: Site, wanted: Wanted) -> Bite:
    """Nothing is counted where no queue is limited."""
    if not wanted.limited:
        return await site.transact(take, wanted)
    lines = [line for line in wanted.lines if line.grouped and wanted.limits_groups(line.queue)]
    if not lines:
        return await site.transact(take_admitted, wanted)
    groups = await site.ask(find_groups, (lines, site.starts_of(lines)))
    site.remember_starts(lines, groups.starts)
    return await site.transact(take_admitted, replace(wanted, groups=groups.found))


async def take(transaction: Transaction, wanted: Wanted) -> Bite:
    request, limit = wanted.request, wanted.limit
    now = micros(request.now)
    if len(wanted.lines) == 1:
        rows = await lock_heads(transaction, wanted.lines[0], now, limit)
        is_cut = False
    else:
        seen = limit + wanted.spare
        asked = [(line.text, seen) for line in wanted.lines]
        candidates = (await find_candidates(transaction, LINE, asked, now))[:seen]
        rows = await lock_candidates(transaction, [one.id for one in candidates], now, limit)
        is_cut = len(rows) < limit and len(candidates) >= seen
    due = read_jobs(rows)
    free = [job for job in due if not is_ruled(job)]
    await start(transaction, request, [job.id for job in free])
    ruled = [candidate_of(job) for job in due if is_ruled(job)]
    ruled.sort(key=attrgetter("due_at", "id"))
    return Bite(jobs=[started(job, request) for job in free], ruled=ruled, is_cut=is_cut)


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


async def find_next_due(transaction: Transaction, asked: tuple[Sequence[Line], int]) -> int | None:
    """The earliest due time after now in any of the lines."""
    lines, now = asked
    later = [line.due_at for line in lines if line.due_at > now]
    due = [line for line in lines if line.due_at <= now]
    later += [due_at for (due_at,) in await later_heads(transaction, due, now)]
    return min(later, default=None)
