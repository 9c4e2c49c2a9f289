"""Claims from limited queues, within the limits of queues and groups.

A claim from a limited queue locks the queue's row, so that one claimant at a time counts its
running jobs and draws on its buckets. A queue that another claimant has locked is skipped and tried
again a moment later.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import msgspec

from onbeat.model.job import Job
from onbeat.model.queue import Limits
from onbeat.ports.store import ClaimRequest
from onbeat.rules.claims import as_claimed
from onbeat.rules.fairness import KEPT, GroupKey, depth, should_prune_turns
from onbeat.rules.limits import Admission, LimitKey
from onbeat.stores.mysql.ready_lists import GROUP, LINE, ReadyList, WaitingGroup, select_each
from onbeat.stores.mysql.rows import read_jobs
from onbeat.stores.mysql.start import (
    Candidate,
    ClaimBatch,
    ClaimTarget,
    candidate_of,
    find_candidates,
    lock_candidates,
    start,
    start_admitted,
)
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sql.verbs.queues import read_limits, store_buckets

BUSY: Final = timedelta(milliseconds=5)  # about as long as another claim takes


class Admissible(msgspec.Struct, frozen=True):
    """Due jobs that may start, in order, and the queues that may have more."""

    candidates: list[Candidate]
    cut: Collection[str]


async def take_admitted(transaction: Transaction, wanted: ClaimTarget) -> ClaimBatch:
    """As `claim.take`, within the limits of the queues; also applies overlap rules."""
    admission = await open_admission(transaction, wanted)
    result = await find_admissible(transaction, wanted, admission)
    left = result.candidates
    jobs: list[Job] = []
    while chosen := admission.choose(left, wanted.priority, wanted.limit - len(jobs)):
        begun = await start_chosen(transaction, wanted.request, chosen)
        held = admission.confirm(chosen, wanted.priority, {job.id for job in begun})
        if not all(one.with_overlap for one in held):
            admission.look_again(wanted.request.now + BUSY)  # locked by another claimant now
        jobs += begun
        tried = {one.id for one in chosen}
        left = [one for one in left if one.id not in tried]
    await store_buckets(transaction, admission.drawn_buckets())
    await keep_turns(transaction, admission)
    is_cut = len(jobs) < wanted.limit and any(map(admission.is_open, result.cut))
    return ClaimBatch(jobs=jobs, is_cut=is_cut, again_at=admission.again_at)


async def open_admission(transaction: Transaction, wanted: ClaimTarget) -> Admission:
    now = wanted.request.now
    limits = await lock_limits(transaction, wanted.limited)
    running = await count_running(transaction, limits)
    full = await read_meters(transaction, limits, wanted.groups, micros(now))
    admission = Admission(limits, running, full, now)
    await read_turns(transaction, admission, wanted)
    if len(limits) < len(wanted.limited):
        admission.look_again(now + BUSY)
    return admission


async def lock_limits(transaction: Transaction, queues: Collection[str]) -> dict[str, Limits]:
    """Lock those of the queues that no other claimant has locked and that are not paused."""
    sql = """
        SELECT name, limits
        FROM queues FORCE INDEX (PRIMARY)
        WHERE name IN %s AND limits IS NOT NULL AND paused = 0
        ORDER BY name
        FOR UPDATE SKIP LOCKED
    """
    rows = await transaction.rows(sql, (tuple(queues),))
    return {name: read_limits(limits) for name, limits in rows}


async def count_running(
    transaction: Transaction, limits: Mapping[str, Limits]
) -> Counter[LimitKey]:
    """Reads one index entry for each running job, in any queue."""
    queues = [
        queue
        for queue, one in limits.items()
        if one.concurrency is not None or one.group_concurrency is not None
    ]
    running: Counter[LimitKey] = Counter()
    if not queues:
        return running
    sql = """
        SELECT queue, grp, COUNT(*)
        FROM jobs FORCE INDEX (jobs_running)
        WHERE worker IS NOT NULL AND queue IN %s
        GROUP BY queue, grp
    """
    for queue, group, count in await transaction.rows(sql, (tuple(queues),)):
        running[queue, ""] += count
        if group is not None:
            running[queue, group] += count
    return running


async def read_meters(
    transaction: Transaction,
    limits: Mapping[str, Limits],
    groups: Collection[WaitingGroup],
    now: int,
) -> dict[LimitKey, datetime]:
    """The buckets that are not full, of the queues and of groups with waiting jobs."""
    sql = """
        (SELECT queue, grp, full_at FROM meters WHERE queue = %s AND grp IN %s AND full_at > %s)
    """
    names = {queue: [""] for queue, one in limits.items() if one.rate or one.group_rate}
    for group in groups:
        if group.line.queue in names:
            names[group.line.queue].append(group.name)
    request = [(queue, tuple(of), now) for queue, of in names.items()]
    rows = await select_each(transaction, sql, request)
    return {(queue, group): instant(full_at) for queue, group, full_at in rows}


async def read_turns(transaction: Transaction, admission: Admission, wanted: ClaimTarget) -> None:
    """The last turns of groups with waiting jobs, for fair queues."""
    names = {queue: [""] for queue, one in admission.limits.items() if one.fair}
    for group in wanted.groups:
        if group.line.queue in names:
            names[group.line.queue].append(group.name)
    sql = """
        (SELECT queue, grp, turn FROM turns WHERE queue = %s AND priority = %s AND grp IN %s)
    """
    request = [(queue, wanted.priority, tuple(of)) for queue, of in names.items()]
    for queue, group, turn in await select_each(transaction, sql, request):
        admission.turns.learn(GroupKey(queue, wanted.priority, group), turn)


async def find_admissible(
    transaction: Transaction, wanted: ClaimTarget, admission: Admission
) -> Admissible:
    """Find jobs that may start; the first due job of each group gives the order of groups.

    At most as many groups as jobs are wanted can take part, so the others are not read.
    """
    now = micros(wanted.request.now)
    seen = wanted.limit + wanted.spare
    lines = [line for line in wanted.ready_lists if is_plain(line, wanted, admission)]
    groups = [
        group
        for group in wanted.groups
        if group.due_at <= now
        and group.line.queue in admission.limits
        and admission.is_open(group.line.queue, group.name)
    ]
    groups.sort(key=attrgetter("due_at", "first"))
    plain = await find_candidates(transaction, LINE, [(line.text, seen) for line in lines], now)
    first, others = in_turn(groups, admission, seen)
    grouped = await heads_of_groups(transaction, wanted, admission, first)
    counts = Counter(one.queue for one in plain)
    cut = {queue for queue, count in counts.items() if count >= seen}
    cut |= {group.line.queue for group in others}
    return Admissible(sorted(plain + grouped, key=attrgetter("due_at", "id")), cut)


def in_turn(
    groups: Sequence[WaitingGroup], admission: Admission, count: int
) -> tuple[Sequence[WaitingGroup], Sequence[WaitingGroup]]:
    """The first groups to serve, and the others; the input is in the order of age.

    If groups take turns, the oldest job decides the queue's place among others.
    """
    group_keys = [
        admission.seat(group.line.queue, group.line.priority, group.name) for group in groups
    ]
    if not any(group_keys):
        return groups[:count], groups[count:]
    order = admission.turns.order_of(group_keys)
    oldest: dict[str, int] = {}
    for age, group_key in enumerate(group_keys):
        if group_key is not None:
            oldest.setdefault(group_key.queue, age)
    first = dict.fromkeys([*order[:count], *oldest.values()])
    return (
        [groups[age] for age in first],
        [group for age, group in enumerate(groups) if age not in first],
    )


async def heads_of_groups(
    transaction: Transaction,
    wanted: ClaimTarget,
    admission: Admission,
    groups: Sequence[WaitingGroup],
) -> list[Candidate]:
    """The first jobs of each group: as many as may start, and one more to show if any are left.

    If groups take turns, fewer are read at first; more only if these do not fill the claim.
    """
    now, limit = micros(wanted.request.now), wanted.limit
    rings = Counter(group.line.queue for group in groups)
    rooms = [admission.room(group.line.queue, group.name, limit) for group in groups]
    looks = [
        min(room, depth(limit, rings[group.line.queue]))
        if admission.seat(group.line.queue, group.line.priority, group.name)
        else room
        for group, room in zip(groups, rooms, strict=True)
    ]
    request = [(group.text, 1 + look) for group, look in zip(groups, looks, strict=True)]
    result = await find_candidates(transaction, GROUP, request, now)
    places = Counter((one.queue, one.group or "") for one in result)
    filled: Counter[str] = Counter()
    for (queue, group), count in places.items():
        filled[queue] += admission.room(queue, group, count)
    more = [
        (group.text, 1 + room)
        for group, room, look in zip(groups, rooms, looks, strict=True)
        if look < room and filled[group.line.queue] < admission.room(group.line.queue, None, limit)
    ]
    if not more:
        return result
    deeper = await find_candidates(transaction, GROUP, more, now)
    known = {one.id for one in deeper}
    return deeper + [one for one in result if one.id not in known]


def is_plain(ready_list: ReadyList, wanted: ClaimTarget, admission: Admission) -> bool:
    """Whether jobs of the list may start, and are not limited by group."""
    if ready_list.queue not in wanted.limited:
        return True
    limits = admission.limits.get(ready_list.queue)
    if limits is None or not admission.is_open(ready_list.queue):
        return False
    return not (ready_list.grouped and limits.by_group)


async def start_chosen(
    transaction: Transaction, request: ClaimRequest, chosen: Sequence[Candidate]
) -> list[Job]:
    """Start those of the chosen that have not changed and that no other claimant has locked."""
    ruled = [one for one in chosen if one.with_overlap]
    jobs = await start_admitted(transaction, request, ruled) if ruled else []
    free = {one.id: one for one in chosen if not one.with_overlap}
    rows = await lock_candidates(transaction, list(free), micros(request.now), len(free))
    ready = [job for job in read_jobs(rows) if candidate_of(job) == free[job.id]]
    await start(transaction, request, [job.id for job in ready])
    return [
        *jobs,
        *(as_claimed(job, request.worker, request.now, request.lease_until) for job in ready),
    ]


async def keep_turns(transaction: Transaction, admission: Admission) -> None:
    """Store the turns of groups that gave out jobs, and now and then delete old turns."""
    given = admission.turns.given
    if not given:
        return
    newest = await newest_turns(transaction, sorted({group_key.queue for group_key in given}))
    await transaction.insert(
        """
        INSERT INTO turns (queue, priority, grp, turn)
        VALUES (%s, %s, %s, %s)
        ON DUPLICATE KEY UPDATE turn = VALUES(turn)
        """,
        [(*group_key, newest.get(group_key.queue, 0) + dsn) for group_key, dsn in given.items()],
    )
    count = max(given.values())
    for queue, turn in newest.items():
        if should_prune_turns(turn + count, count):
            await transaction.run(
                "DELETE FROM turns WHERE queue = %s AND turn <= %s", (queue, turn - KEPT)
            )


async def newest_turns(transaction: Transaction, queues: Sequence[str]) -> dict[str, int]:
    sql = """
        (SELECT queue, turn FROM turns FORCE INDEX (turns_in_order)
         WHERE queue = %s ORDER BY queue DESC, turn DESC LIMIT 1)
    """
    return dict(await select_each(transaction, sql, [(queue,) for queue in queues]))
