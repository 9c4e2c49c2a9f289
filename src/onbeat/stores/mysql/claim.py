"""Claims of due jobs.

The index `jobs_due` holds, for each ready list, the claimable jobs in the order of their due times.
A claim skips from list to list, so its cost does not depend on their length, and locks only the
first jobs of those it may take: sorting would lock all sorted jobs against other claimants.
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
from onbeat.rules.claims import as_claimed
from onbeat.rules.overlap import has_overlap_rule
from onbeat.stores.mysql.limits import take_admitted
from onbeat.stores.mysql.loop_connections import LoopConnections
from onbeat.stores.mysql.ready_lists import (
    LINE,
    ReadyList,
    find_groups,
    find_ready_lists,
    later_list_heads,
)
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.mysql.start import (
    STILL_STARTS,
    ClaimBatch,
    ClaimTarget,
    candidate_of,
    find_candidates,
    lock_candidates,
    start,
    start_admitted,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sql.verbs.counts import read_rules
from onbeat.stores.sql.verbs.jobs import jobs_by_id

LAPSED_MAX = 5_000  # flagged by one transaction; more would delay the others
ROUNDS_MAX = 20


class ClaimSurvey(msgspec.Struct, frozen=True):
    """What a claim finds before it locks anything. `rules`: of paused or limited queues."""

    ready_lists: Sequence[ReadyList]
    rules: Mapping[str, Queue]

    def may_take(self, ready_list: ReadyList, request: ClaimRequest) -> bool:
        return (
            ready_list.lane in request.lanes
            and (request.queues is None or ready_list.queue in request.queues)
            and not (ready_list.queue in self.rules and self.rules[ready_list.queue].paused)
        )


async def claim(connections: LoopConnections, request: ClaimRequest) -> Claimed:
    now = micros(request.now)
    sight = await connections.run(survey, now, connections.ready_lists)
    connections.remember_ready_lists(sight.ready_lists)
    lines = [line for line in sight.ready_lists if sight.may_take(line, request)]
    taken: list[Job] = []
    again: list[datetime] = []
    due = sorted((line for line in lines if line.due_at <= now), key=attrgetter("priority"))
    for _, same in groupby(due, key=attrgetter("priority")):
        part = list(same)
        wanted = ClaimTarget(
            request=request,
            ready_lists=part,
            limit=request.limit - len(taken),
            limited=limits_of_lists(part, sight.rules),
        )
        jobs, again_at = await take_all(connections, wanted)
        taken += jobs
        if len(taken) >= request.limit:
            return Claimed(jobs=tuple(taken), next_due_at=None)
        if again_at is not None:
            again.append(again_at)
    following = await connections.run(find_next_due, lines, now)
    if following is not None:
        again.append(instant(following))
    return Claimed(jobs=tuple(taken), next_due_at=min(again, default=None))


def limits_of_lists(
    ready_lists: Sequence[ReadyList], rules: Mapping[str, Queue]
) -> Mapping[str, Limits]:
    """The limits of the queues of these ready lists, where they have any."""
    limits = {line.queue: rules[line.queue].limits for line in ready_lists if line.queue in rules}
    return {queue: one for queue, one in limits.items() if one != NO_LIMITS}


async def survey(transaction: Transaction, now: int, known: Collection[str]) -> ClaimSurvey:
    """The ready lists, after lapsed jobs are removed from them."""
    lapsed, apart = await transaction.tables((LOOK_FOR_LAPSED, APART), {"now": now})
    if any(lapsed[0]):
        await flag_overdue(transaction, now)
    return ClaimSurvey(await find_ready_lists(transaction, known), read_rules(apart))


APART = "SELECT name, paused, limits FROM queues FORCE INDEX (queues_apart) WHERE apart = 1"
LOOK_FOR_LAPSED = """
    SELECT
      EXISTS (SELECT 1 FROM jobs FORCE INDEX (jobs_bounded)
              WHERE lapsed = 0 AND bound_by < %(now)s),
      EXISTS (SELECT 1 FROM jobs FORCE INDEX (jobs_bounded)
              WHERE lapsed = 1 AND bound_by >= %(now)s)
"""


async def flag_overdue(transaction: Transaction, now: int) -> None:
    """Remove jobs that may no longer start from the index, so that claims see each only once.

    Clocks can be set back: jobs that have not lapsed by this clock return. Other claimants may do
    the same work: each statement checks its rows again.
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
    connections: LoopConnections, wanted: ClaimTarget
) -> tuple[list[Job], datetime | None]:
    """Start due jobs up to the limit; also returns when a rate limit lets more start."""
    taken: list[Job] = []
    again_at: datetime | None = None
    for _ in range(ROUNDS_MAX):
        batch = await take_some(connections, wanted)
        taken += batch.jobs
        again_at = batch.again_at
        if batch.with_overlap:
            taken += await connections.transact(start_admitted, wanted.request, batch.with_overlap)
        room = wanted.limit - len(taken)
        if room <= 0 or not (batch.is_cut or batch.with_overlap):
            break
        wanted = replace(wanted, limit=room, spare=wanted.spare * 4)
    ids = [job.id for job in taken if job.overlap is not Overlap.ALLOW]
    if ids:
        # A later job of a claim may have requested an earlier one to stop.
        now_as = await connections.run(jobs_by_id, ids)
        taken = [now_as.get(job.id, job) for job in taken]
    return sorted(taken, key=attrgetter("due_at", "id")), again_at


async def take_some(connections: LoopConnections, wanted: ClaimTarget) -> ClaimBatch:
    """Running jobs are counted only if a queue is limited."""
    if not wanted.limited:
        return await connections.transact(take, wanted)
    lines = [
        line for line in wanted.ready_lists if line.grouped and wanted.limits_groups(line.queue)
    ]
    if not lines:
        return await connections.transact(take_admitted, wanted)
    groups = await connections.run(find_groups, lines, connections.starts_of(lines))
    connections.remember_starts(lines, groups.starts)
    return await connections.transact(take_admitted, replace(wanted, groups=groups.found))


async def take(transaction: Transaction, wanted: ClaimTarget) -> ClaimBatch:
    request, limit = wanted.request, wanted.limit
    now = micros(request.now)
    if len(wanted.ready_lists) == 1:
        rows = await lock_first_jobs(transaction, wanted.ready_lists[0], now, limit)
        is_cut = False
    else:
        seen = limit + wanted.spare
        params = [(line.text, seen) for line in wanted.ready_lists]
        candidates = (await find_candidates(transaction, LINE, params, now))[:seen]
        rows = await lock_candidates(
            transaction, [candidate.id for candidate in candidates], now, limit
        )
        is_cut = len(rows) < limit and len(candidates) >= seen
    due = read_jobs(rows)
    free = [job for job in due if not has_overlap_rule(job)]
    await start(transaction, request, [job.id for job in free])
    ruled = [candidate_of(job) for job in due if has_overlap_rule(job)]
    ruled.sort(key=attrgetter("due_at", "id"))
    return ClaimBatch(
        jobs=[as_claimed(job, request.worker, request.now, request.lease_until) for job in free],
        with_overlap=ruled,
        is_cut=is_cut,
    )


async def lock_first_jobs(
    transaction: Transaction, ready_list: ReadyList, now: int, limit: int
) -> Sequence[Row]:
    """The case of most claims: one ready list, in index order."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (jobs_due)
        WHERE line = %(line)s AND due_at <= %(now)s AND {STILL_STARTS}
        ORDER BY due_at, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    """  # noqa: S608  values are bound
    return await transaction.rows(sql, {"line": ready_list.text, "now": now, "limit": limit})


async def find_next_due(
    transaction: Transaction, ready_lists: Sequence[ReadyList], now: int
) -> int | None:
    """The earliest due time after now in any of the ready lists."""
    later = [line.due_at for line in ready_lists if line.due_at > now]
    due = [line for line in ready_lists if line.due_at <= now]
    later += [due_at for (due_at,) in await later_list_heads(transaction, due, now)]
    return min(later, default=None)
