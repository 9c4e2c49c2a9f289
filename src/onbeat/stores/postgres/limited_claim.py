"""Claims where queues have limits or jobs have groups.

A claim locks the limited queues from which it may take, so that only it counts their running jobs
and draws on their buckets. It never waits for another claimant: a locked queue is skipped and tried
again a moment later. In a queue that limits its groups, or is fair, it skips from group to group;
elsewhere jobs with a group are claimed like others.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.queue import Limits
from onbeat.ports.store import ClaimRequest
from onbeat.rules.fairness import FairOrder, GroupKey, depth
from onbeat.stores.postgres.limits import (
    LimitUsage,
    count,
    count_all,
    read_usage,
    store_turns,
)
from onbeat.stores.postgres.ready_lists import (
    BY_GROUP,
    GROUPED,
    IN_TIME,
    LOOSE,
    MINE,
    in_ready_list,
    list_heads,
)
from onbeat.stores.postgres.rows import Row, columns
from onbeat.stores.postgres.start import (
    ANY_MISFILED,
    STARTED,
    ClaimBatch,
    UnreadJobs,
    in_order,
    lease_end,
    lock_free_schedules,
    start_in_turn,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros, micros_or_none
from onbeat.stores.sql.verbs.queues import read_limits, store_buckets

RIPE_SECONDS: Final = 300
"""The time after which no running claim can be unaware of a new limit."""
LOOK_AGAIN: Final = timedelta(milliseconds=5)
"""The retry delay for locked queues: another claim takes a few milliseconds."""

# With EXISTS, the inner queries would run once for all queues and read all jobs.
WANTED = f"""
    SELECT name
    FROM queues
    WHERE limits IS NOT NULL
      AND NOT paused
      AND (:queues::text[] IS NULL OR name = ANY(:queues))
      AND coalesce((SELECT 1 FROM jobs WHERE {LOOSE} AND queue = name LIMIT 1),
                   (SELECT 1 FROM jobs WHERE {GROUPED} AND queue = name LIMIT 1)) = 1
"""  # noqa: S608  no value in it
"""Limited queues among `:queues`, or all, with ready jobs."""
GROUPED_ANYWHERE = f"SELECT 1 FROM jobs WHERE {GROUPED}"  # noqa: S608  no value in it
GROUPED_IN = f"""
    SELECT 1
    FROM unnest(:queues) AS mine (queue)
    CROSS JOIN LATERAL (
      SELECT 1 FROM jobs WHERE {GROUPED} AND jobs.queue = mine.queue LIMIT 1
    ) AS one
"""  # noqa: S608  as above
ANY_APART = f"EXISTS ({WANTED}) OR EXISTS (:grouped)"
"""Whether there are ready jobs that a claim in one statement cannot take."""


async def take(
    transaction: Transaction, request: ClaimRequest, limit: int, candidates_max: int
) -> ClaimBatch:
    """Start up to `limit` jobs, of up to `candidates_max` candidates."""
    gates = await lock_limits(transaction, request)
    lines = await survey(transaction, request, gates)
    turns = turns_of(lines)
    members = {(line.queue, group) for line in lines for group in (None, line.group)}
    await count_all(transaction, gates.countable)
    standing = await read_usage(transaction, gates.limits, gates.tracked, members, request.now)
    first = lists_to_offer(lines, standing, turns, candidates_max)
    offer = ClaimOffer(first, limit, candidates_max)
    picked = await pick(transaction, request, standing, offer)
    ruled = await lock_free_schedules(transaction, picked.with_overlap)
    admitted = await start_in_turn(transaction, request, ruled)
    await count(transaction, [job.id for job in admitted if job.queue in gates.limits])
    standing.note([*picked.jobs, *admitted])
    await store_buckets(transaction, standing.drawn_buckets())
    give_turns(turns, gates.limits, [*picked.jobs, *admitted])
    await store_turns(transaction, turns.given)
    times = next_times(lines, standing, picked)
    if gates.contended or len(ruled) < len(picked.with_overlap):
        times.append(request.now + LOOK_AGAIN)
    return ClaimBatch(
        jobs=in_order(picked.jobs, admitted),
        next_due_at=micros_or_none(min(times, default=None)),
        is_cut=picked.is_cut or len(admitted) < len(ruled),
        has_stale_flags=gates.has_stale_flags,
        needs_limits=gates.needs_limits,
    )


class LimitLocks(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of queues that this claim has locked, and the names of those that others hold.

    `tracked`: our queues whose running jobs are, or can now be, all marked as counted; `countable`:
    those of them still to be marked.
    """

    limits: Mapping[str, Limits]
    tracked: Collection[str]
    countable: Sequence[str]
    contended: Sequence[str]
    needs_limits: bool
    has_stale_flags: bool


GATES = f"""
    WITH
    wanted AS MATERIALIZED ({WANTED}),
    locked AS MATERIALIZED (
      SELECT queues.name, limits, is_counted,
             NOT is_counted AND limited_at < now() - interval '{RIPE_SECONDS} s' AS is_ripe
      FROM wanted
      JOIN queues ON queues.name = wanted.name
      WHERE NOT queues.paused
      ORDER BY wanted.name
      FOR NO KEY UPDATE OF queues SKIP LOCKED
    )
    SELECT {ANY_APART},
           {ANY_MISFILED}, wanted.name,
           locked.name IS NOT NULL, limits, is_counted, is_ripe
    FROM (SELECT 1) AS always
    LEFT JOIN wanted ON TRUE
    LEFT JOIN locked ON locked.name = wanted.name
"""  # noqa: S608  no value in it


def limits_sql(grouped: str) -> str:
    return GATES.replace(":grouped", grouped).replace(":queues", "$1")


GATES_OF_ALL, GATES_OF_SOME = limits_sql(GROUPED_ANYWHERE), limits_sql(GROUPED_IN)


async def lock_limits(transaction: Transaction, request: ClaimRequest) -> LimitLocks:
    """Lock the limited queues from which the claimant may take and that have ready jobs."""
    queues = None if request.queues is None else list(request.queues)
    sql = GATES_OF_ALL if queues is None else GATES_OF_SOME
    rows: Sequence[Any] = await transaction.rows(sql, queues, micros(request.now))
    ours = [(row[2], *row[4:]) for row in rows if row[3]]
    ripe = [name for name, _, _, is_ripe in ours if is_ripe]
    return LimitLocks(
        limits={name: read_limits(limits) for name, limits, _, _ in ours},
        tracked=[name for name, _, is_counted, _ in ours if is_counted] + ripe,
        countable=ripe,
        contended=[row[2] for row in rows if row[2] is not None and not row[3]],
        needs_limits=rows[0][0],
        has_stale_flags=rows[0][1],
    )


class ReadyList(msgspec.Struct, frozen=True, gc=False):
    """A ready list with its first job and that job's due time.

    `kind` is its index in `KINDS`. `group` is None if groups are not separate. `turn` is that of
    the group's last job, None if groups take no turns.
    """

    queue: str
    group: str | None
    priority: int
    lane: str
    kind: int
    due_at: int
    id: str
    is_due: bool
    turn: int | None

    @property
    def seat(self) -> GroupKey | None:
        if self.turn is None:
            return None
        return GroupKey(self.queue, self.priority, self.group or "")


KINDS = (LOOSE, GROUPED, f"{BY_GROUP} AND jobs.grp = line.grp")


def in_any_list(columns: str, where: str, limit: str) -> str:
    """As `in_ready_list`, for a list of any kind: only one of the parts is run."""
    return " UNION ALL ".join(
        f"({in_ready_list(f'line.kind = {number} AND {kind}', columns, where, limit)})"
        for number, kind in enumerate(KINDS)
    )


OPEN = f"{MINE} AND next.queue <> ALL($1::text[])"
LAST_TURN = """
    CASE WHEN queue = ANY($6::text[])
         THEN coalesce((SELECT turn FROM turns
                        WHERE turns.queue = :line.queue AND turns.priority = :line.priority
                          AND turns.grp = :group), 0)
    END
"""
SURVEY = (
    """
    WITH RECURSIVE
    paused AS MATERIALIZED (SELECT name FROM queues WHERE paused),
    :loose,
    :grouped,
    :crews
    SELECT queue, NULL::text, priority, lane, 0, due_at, id::text, due_at <= $2, :turn_of_loose
    FROM loose WHERE mine AND lane = ANY($4)
    UNION ALL
    SELECT queue, NULL, priority, lane, 1, due_at, id::text, due_at <= $2, NULL
    FROM grouped WHERE mine AND lane = ANY($4)
    UNION ALL
    SELECT queue, grp, priority, lane, 2, due_at, id::text, due_at <= $2, :turn_of_crew
    FROM crews WHERE mine AND lane = ANY($4)
    """.replace(":loose", list_heads("loose", LOOSE, mine=OPEN, with_head=True))
    .replace(
        ":grouped",
        list_heads(
            "grouped", GROUPED, mine=f"{OPEN} AND next.queue <> ALL($3::text[])", with_head=True
        ),
    )
    .replace(
        ":crews",
        list_heads(
            "crews",
            BY_GROUP,
            mine="next.queue = ANY($3)",
            when="cardinality($3) > 0",
            with_head=True,
        ),
    )
    .replace(":turn_of_loose", LAST_TURN.replace(":line", "loose").replace(":group", "''"))
    .replace(":turn_of_crew", LAST_TURN.replace(":line", "crews").replace(":group", "crews.grp"))
)


async def survey(
    transaction: Transaction, request: ClaimRequest, gates: LimitLocks
) -> list[ReadyList]:
    """The ready lists that the claimant may take from, except in queues that others hold."""
    rows = await transaction.rows(
        SURVEY,
        gates.contended,
        micros(request.now),
        [queue for queue, limits in gates.limits.items() if limits.by_group],
        sorted(request.lanes),
        None if request.queues is None else list(request.queues),
        [queue for queue, limits in gates.limits.items() if limits.fair],
    )
    return [ReadyList(*row) for row in rows]


def turns_of(ready_lists: Sequence[ReadyList]) -> FairOrder:
    turns = FairOrder()
    for line in ready_lists:
        if line.seat is not None:
            turns.learn(line.seat, line.turn or 0)
    return turns


def give_turns(turns: FairOrder, limits: Mapping[str, Limits], started: Sequence[Job]) -> None:
    """Give turns in the order in which the jobs would have been claimed one by one."""
    fair = [job for job in started if job.queue in limits and limits[job.queue].fair]
    fair.sort(key=attrgetter("priority", "due_at", "id"))
    group_keys = [GroupKey(job.queue, job.priority, job.group or "") for job in fair]
    for age in turns.order_of(group_keys):
        turns.give(group_keys[age])


def lists_to_offer(
    ready_lists: Sequence[ReadyList], standing: LimitUsage, turns: FairOrder, count: int
) -> list[ReadyList]:
    """The first `count` lists that may give out jobs; more are not needed, since each has a job.

    If groups take turns, the oldest job decides the queue's place among others.
    """
    admitted = [
        (line.priority, line.due_at, line.id, line)
        for line in ready_lists
        if line.is_due and standing.admits(line.queue, line.group)
    ]
    by_age = [line for *_, line in sorted(admitted, key=itemgetter(0, 1, 2))]
    if not any(line.seat for line in by_age):
        return by_age[:count]
    order = turns.order_of([line.seat for line in by_age])
    oldest: dict[tuple[str, int], int] = {}
    for age, line in enumerate(by_age):
        if line.seat is not None:
            oldest.setdefault(line.seat[:2], age)
    return [by_age[age] for age in dict.fromkeys([*order[:count], *oldest.values()])]


class ClaimOffer(msgspec.Struct, frozen=True):
    """Ready lists from which to start up to `limit` jobs, of up to `candidates_max` candidates."""

    lines: Sequence[ReadyList]
    limit: int
    candidates_max: int


class PickedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The started jobs, and those with an overlap rule to apply.

    `held`: lists in which a limit holds jobs back. `later`: due times of the next jobs of lists;
    empty if the claim is full. `is_cut`: there may be more due jobs than candidates.
    """

    jobs: Sequence[Job]
    with_overlap: Sequence[JobId]
    held: Sequence[ReadyList]
    later: Sequence[tuple[ReadyList, datetime]]
    is_cut: bool


# In each list one job more than may start is read, to show whether a limit holds jobs back.
PICK = """
    WITH
    lines AS MATERIALIZED (
      SELECT *
      FROM unnest($4::text[], $5::text[], $6::smallint[], $7::text[], $8::smallint[],
                  $9::integer[], $10::integer[], $14::integer[], $15::integer[], $16::bigint[],
                  $17::integer[]) WITH ORDINALITY
           AS line (queue, grp, priority, lane, kind, queue_max, group_max,
                    ring, seat, turn, depth, place)
    ),
    :firsts,
    :let_through,
    :started,
    counts AS MATERIALIZED (
      SELECT (SELECT count(*) FROM candidates) AS candidates,
             ARRAY(SELECT id FROM picked WHERE NOT is_free) AS ruled,
             ARRAY(SELECT place FROM firsts WHERE in_group > group_max
                   UNION
                   SELECT place FROM let_through WHERE in_queue > queue_max) AS held,
             ARRAY(SELECT (SELECT min(next.due_at) FROM (:next_due) AS next)
                   FROM lines AS line
                   WHERE (SELECT count(*) FROM candidates) < $12
                   ORDER BY place) AS later
    )
    SELECT counts.*, started.*
    FROM counts
    LEFT JOIN started ON TRUE
"""
IN_LINES = """
    firsts AS MATERIALIZED (
      SELECT due.*, line.queue, line.priority, line.place, queue_max, group_max,
             row_number() OVER (PARTITION BY line.queue, line.grp
                                ORDER BY line.priority, due.due_at, due.id) AS in_group
      FROM lines AS line
      CROSS JOIN LATERAL (:first_due) AS due
    )
"""
# If the groups of a ring do not fill the claim, more is read of those that have more.
IN_RINGS = """
    shallow AS MATERIALIZED (
      SELECT due.*, line.* FROM lines AS line CROSS JOIN LATERAL (:first_due) AS due
    ),
    found AS MATERIALIZED (
      SELECT place, ring, seat, depth, min(group_max) AS group_max, count(*) AS count
      FROM shallow
      WHERE depth < $11
      GROUP BY place, ring, seat, depth
    ),
    short AS MATERIALIZED (
      SELECT ring
      FROM (
        SELECT ring, least(sum(count), min(group_max)) AS count
        FROM found
        GROUP BY ring, seat
      ) AS groups
      GROUP BY ring
      HAVING sum(count) < $11
    ),
    firsts AS MATERIALIZED (
      SELECT *, row_number() OVER (PARTITION BY queue, grp
                                   ORDER BY priority, due_at, id) AS in_group
      FROM (
        TABLE shallow
        UNION ALL
        SELECT due.*, line.*
        FROM short
        JOIN found ON found.ring = short.ring AND found.count = found.depth
        JOIN lines AS line ON line.place = found.place
        CROSS JOIN LATERAL (:next_in_line) AS due
      ) AS due
    )
"""
BY_AGE = """
    let_through AS MATERIALIZED (
      SELECT *, row_number() OVER (PARTITION BY queue ORDER BY priority, due_at, id) AS in_queue
      FROM firsts
      WHERE group_max IS NULL OR in_group <= group_max
    ),
    candidates AS MATERIALIZED (
      SELECT tid, due_at, id, priority
      FROM let_through
      WHERE queue_max IS NULL OR in_queue <= queue_max
      ORDER BY priority, due_at, id
      LIMIT $11
    )
"""
# The order of `rules.fairness`. A job's slot is the lowest age of it and all jobs behind it,
# computed from the back, since a frame with a moving start is read again for each row. `START`
# picks in the order of `due_at` within a priority, so `due_at` is here the place in the overall
# order.
BY_TURNS = """
    aged AS MATERIALIZED (
      SELECT *, row_number() OVER (ORDER BY priority, due_at, id) AS age
      FROM firsts
      WHERE group_max IS NULL OR in_group <= group_max
    ),
    in_rounds AS MATERIALIZED (
      SELECT *,
             row_number() OVER (PARTITION BY seat ORDER BY age) AS round,
             min(age) OVER (PARTITION BY seat ORDER BY age) AS first_age
      FROM aged
    ),
    placed AS MATERIALIZED (
      SELECT *,
             CASE WHEN ring IS NULL THEN age
                  ELSE min(age) OVER (PARTITION BY ring
                                      ORDER BY round DESC, turn DESC, first_age DESC
                                      ROWS UNBOUNDED PRECEDING)
             END AS slot
      FROM in_rounds
    ),
    let_through AS MATERIALIZED (
      SELECT *,
             row_number() OVER (PARTITION BY queue
                                ORDER BY slot, round, turn, first_age) AS in_queue
      FROM placed
    ),
    candidates AS MATERIALIZED (
      SELECT tid, row_number() OVER (ORDER BY slot, round, turn, first_age) AS due_at,
             id, priority
      FROM let_through
      WHERE queue_max IS NULL OR in_queue <= queue_max
      ORDER BY due_at
      LIMIT $11
    )
"""


def pick_in(firsts: str, order: str) -> str:
    most = "least($11, line.queue_max + 1, line.group_max + 1)"
    rest = f"greatest(0, {most} - line.depth) OFFSET line.depth"
    result = ("jobs.ctid AS tid, due_at, id", IN_TIME)
    return (
        PICK.replace(":firsts", firsts)
        .replace(":let_through", order)
        .replace(":first_due", in_any_list(*result, f"least({most}, line.depth)"))
        .replace(":next_in_line", in_any_list(*result, rest))
        .replace(":next_due", in_any_list("due_at", "due_at > $2", "1"))
        .replace(":started", STARTED)
        .replace(":and", ", counted = nullif(jobs.queue = ANY($13::text[]), FALSE)")
        .replace(":limit", "$12")
    )


PICK_BY_AGE = pick_in(IN_LINES, BY_AGE)
PICK_BY_TURNS = pick_in(IN_RINGS, BY_TURNS)


async def pick(
    transaction: Transaction, request: ClaimRequest, standing: LimitUsage, offer: ClaimOffer
) -> PickedJobs:
    """Start the first due jobs of these lists that no limit holds back."""
    if not offer.lines:
        return PickedJobs(jobs=(), with_overlap=(), held=(), later=(), is_cut=False)
    is_fair = any(line.seat for line in offer.lines)
    rows: Sequence[Any] = await transaction.rows(
        PICK_BY_TURNS if is_fair else PICK_BY_AGE,
        request.worker,
        micros(request.now),
        lease_end(request),
        *columns([offer_row(line, standing) for line in offer.lines]),
        offer.candidates_max,
        offer.limit,
        list(standing.limits),
        *columns(list(in_rings(offer))),
    )
    candidates, ruled = rows[0][:2]
    held: Sequence[int] = rows[0][2]
    later: Sequence[int | None] = rows[0][3]
    return PickedJobs(
        jobs=UnreadJobs(rows, request),
        with_overlap=[JobId(str(id)) for id in ruled],
        held=[offer.lines[dsn - 1] for dsn in held],
        later=[
            (line, instant(due_at))
            for line, due_at in zip(offer.lines, later, strict=False)
            if due_at is not None
        ],
        is_cut=candidates >= offer.candidates_max,
    )


def offer_row(ready_list: ReadyList, standing: LimitUsage) -> Row:
    return (
        ready_list.queue,
        ready_list.group,
        ready_list.priority,
        ready_list.lane,
        ready_list.kind,
        standing.of_queue(ready_list.queue).count,
        standing.of_group(ready_list.queue, ready_list.group).count,
    )


def in_rings(offer: ClaimOffer) -> Iterator[Row]:
    """For each list the numbers of its ring and seat, its last turn, and how many jobs to read."""
    rings: dict[tuple[str, int], int] = {}
    group_keys: dict[GroupKey, int] = {}
    sizes = Counter(line.seat[:2] for line in offer.lines if line.seat is not None)
    for line in offer.lines:
        group_key = line.seat
        if group_key is None:
            yield None, None, None, None
            continue
        ring = group_key[:2]
        yield (
            rings.setdefault(ring, len(rings)),
            group_keys.setdefault(group_key, len(group_keys)),
            line.turn,
            depth(offer.candidates_max, sizes[ring], times=1),
        )


def next_times(
    ready_lists: Sequence[ReadyList], standing: LimitUsage, picked: PickedJobs
) -> list[datetime]:
    """When lists have more jobs to start; nothing for lists that wait for a running job to end."""
    later = [(line, instant(line.due_at)) for line in ready_lists if not line.is_due]
    times: list[datetime] = []
    for line, due_at in (*later, *picked.later):
        again_at = standing.again_at(line.queue, line.group)
        times.append(due_at if again_at is None else max(due_at, again_at))
    shut = [
        line for line in ready_lists if line.is_due and not standing.admits(line.queue, line.group)
    ]
    for line in (*shut, *picked.held):
        again_at = standing.again_at(line.queue, line.group)
        if again_at is not None:
            times.append(again_at)
    return times
