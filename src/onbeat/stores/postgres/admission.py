"""Giving out due jobs where queues have limits, or jobs have groups.

A claim locks the limited queues from which it may take, and so is the only one to count what runs
in them and to draw from their buckets. It never waits for another claimant: a queue that is locked
is left out, and the claimant looks again in a moment. In a queue that limits its groups, or lets
them take turns, it hops from group to group; elsewhere jobs with a group are given out like others.
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
from onbeat.rules.turns import Seat, Turns, depth
from onbeat.stores.postgres.lines import BY_GROUP, GROUPED, IN_TIME, LOOSE, MINE, heads, in_line
from onbeat.stores.postgres.meters import Standing, count, count_all, draw, read_standing
from onbeat.stores.postgres.queues import read_limits
from onbeat.stores.postgres.rows import Row, columns
from onbeat.stores.postgres.starting import (
    ANY_MISFILED,
    STARTED,
    Bite,
    lease_end,
    lock_free_schedules,
    read_started,
    start_in_turn,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.postgres.turns import keep
from onbeat.stores.sql.values import instant, micros, micros_or_none

RIPE_SECONDS: Final = 300
"""How long after a limit was set no claim is under way any more that does not know of it."""
LOOK_AGAIN: Final = timedelta(milliseconds=5)
"""For what another claimant has locked: it has done with it in a few milliseconds."""

# Written with EXISTS, the inner queries would be run once for all queues, and read all jobs.
WANTED = f"""
    SELECT name
    FROM queues
    WHERE limits IS NOT NULL
      AND NOT paused
      AND (:queues::text[] IS NULL OR name = ANY(:queues))
      AND coalesce((SELECT 1 FROM jobs WHERE {LOOSE} AND queue = name LIMIT 1),
                   (SELECT 1 FROM jobs WHERE {GROUPED} AND queue = name LIMIT 1)) = 1
"""  # noqa: S608  no value in it
"""Limited queues among `:queues`, or all, in which anything waits that is not held back."""
GROUPED_ANYWHERE = f"SELECT 1 FROM jobs WHERE {GROUPED}"  # noqa: S608  no value in it
GROUPED_IN = f"""
    SELECT 1
    FROM unnest(:queues) AS mine (queue)
    CROSS JOIN LATERAL (
      SELECT 1 FROM jobs WHERE {GROUPED} AND jobs.queue = mine.queue LIMIT 1
    ) AS one
"""  # noqa: S608  as above
ANY_APART = f"EXISTS ({WANTED}) OR EXISTS (:grouped)"
"""Whether there is anything that a claim in one statement does not know how to give out."""


async def take(transaction: Transaction, asked: tuple[ClaimRequest, int, int]) -> Bite:
    """Start up to so many jobs, having looked at up to so many candidates."""
    request, limit, candidates_max = asked
    gates = await lock_gates(transaction, request)
    lines = await survey(transaction, request, gates)
    turns = turns_of(lines)
    members = {(line.queue, group) for line in lines for group in (None, line.group)}
    await count_all(transaction, gates.ripe)
    standing = await read_standing(transaction, gates.limits, gates.counted, members, request.now)
    first = lines_to_offer(lines, standing, turns, candidates_max)
    offer = Offer(first, limit, candidates_max)
    picked = await pick(transaction, request, standing, offer)
    ruled = await lock_free_schedules(transaction, picked.ruled)
    admitted = await start_in_turn(transaction, request, ruled)
    await count(transaction, [job.id for job in admitted if job.queue in gates.limits])
    standing.note([*picked.jobs, *admitted])
    await draw(transaction, standing)
    give_turns(turns, gates.limits, [*picked.jobs, *admitted])
    await keep(transaction, turns.given)
    times = next_times(lines, standing, picked)
    if gates.busy or len(ruled) < len(picked.ruled):
        times.append(request.now + LOOK_AGAIN)
    return Bite(
        jobs=[*picked.jobs, *admitted],
        next_due_at=micros_or_none(min(times, default=None)),
        is_cut=picked.is_cut or len(admitted) < len(ruled),
        is_misfiled=gates.is_misfiled,
        is_apart=gates.is_apart,
    )


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the queues that are locked for us, and the names of those that others hold.

    `counted`: of ours, those in which all that runs is marked; `ripe`: those in which it can be.
    """

    limits: Mapping[str, Limits]
    counted: Collection[str]
    ripe: Sequence[str]
    busy: Sequence[str]
    is_apart: bool
    is_misfiled: bool


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


def gates_of(grouped: str) -> str:
    return GATES.replace(":grouped", grouped).replace(":queues", "$1")


GATES_OF_ALL, GATES_OF_SOME = gates_of(GROUPED_ANYWHERE), gates_of(GROUPED_IN)


async def lock_gates(transaction: Transaction, request: ClaimRequest) -> Gates:
    """Those of the queues with limits from which the claimant may take, and that hold anything."""
    queues = None if request.queues is None else list(request.queues)
    sql = GATES_OF_ALL if queues is None else GATES_OF_SOME
    rows: Sequence[Any] = await transaction.rows(sql, queues, micros(request.now))
    ours = [(row[2], *row[4:]) for row in rows if row[3]]
    ripe = [name for name, _, _, is_ripe in ours if is_ripe]
    return Gates(
        limits={name: read_limits(limits) for name, limits, _, _ in ours},
        counted=[name for name, _, is_counted, _ in ours if is_counted] + ripe,
        ripe=ripe,
        busy=[row[2] for row in rows if row[2] is not None and not row[3]],
        is_apart=rows[0][0],
        is_misfiled=rows[0][1],
    )


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line, and which job is the first in it and when that is due.

    `kind` is its place in `KINDS`. `group` is None where groups are not told apart. `turn`: when
    the group gave out its last job, None where groups take no turns.
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
    def seat(self) -> Seat | None:
        if self.turn is None:
            return None
        return Seat(self.queue, self.priority, self.group or "")


KINDS = (LOOSE, GROUPED, f"{BY_GROUP} AND jobs.grp = line.grp")


def in_any_line(columns: str, where: str, limit: str) -> str:
    """As `in_line`, for a line of any kind: only one of the parts is run."""
    return " UNION ALL ".join(
        f"({in_line(f'line.kind = {number} AND {kind}', columns, where, limit)})"
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
    """.replace(":loose", heads("loose", LOOSE, mine=OPEN, with_head=True))
    .replace(
        ":grouped",
        heads("grouped", GROUPED, mine=f"{OPEN} AND next.queue <> ALL($3::text[])", with_head=True),
    )
    .replace(
        ":crews",
        heads(
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


async def survey(transaction: Transaction, request: ClaimRequest, gates: Gates) -> list[Line]:
    """The lines from which the claimant may take, but for those in queues that others hold."""
    rows = await transaction.rows(
        SURVEY,
        gates.busy,
        micros(request.now),
        [queue for queue, limits in gates.limits.items() if limits.by_group],
        sorted(request.lanes),
        None if request.queues is None else list(request.queues),
        [queue for queue, limits in gates.limits.items() if limits.fair],
    )
    return [Line(*row) for row in rows]


def turns_of(lines: Sequence[Line]) -> Turns:
    turns = Turns()
    for line in lines:
        if line.seat is not None:
            turns.learn(line.seat, line.turn or 0)
    return turns


def give_turns(turns: Turns, limits: Mapping[str, Limits], started: Sequence[Job]) -> None:
    """In the order in which these jobs would have been given out one by one."""
    fair = [job for job in started if job.queue in limits and limits[job.queue].fair]
    fair.sort(key=attrgetter("priority", "due_at", "id"))
    seats = [Seat(job.queue, job.priority, job.group or "") for job in fair]
    for age in turns.order(seats):
        turns.give(seats[age])


def lines_to_offer(
    lines: Sequence[Line], standing: Standing, turns: Turns, count: int
) -> list[Line]:
    """The first of those that may give out anything; each has a job, so that more do not help.

    Where groups take turns, the oldest job says which place the queue has among others.
    """
    admitted = [
        (line.priority, line.due_at, line.id, line)
        for line in lines
        if line.is_due and standing.admits(line.queue, line.group)
    ]
    by_age = [line for *_, line in sorted(admitted, key=itemgetter(0, 1, 2))]
    if not any(line.seat for line in by_age):
        return by_age[:count]
    order = turns.order([line.seat for line in by_age])
    oldest: dict[tuple[str, int], int] = {}
    for age, line in enumerate(by_age):
        if line.seat is not None:
            oldest.setdefault(line.seat[:2], age)
    return [by_age[age] for age in dict.fromkeys([*order[:count], *oldest.values()])]


class Offer(msgspec.Struct, frozen=True):
    """Lines from which to start up to `limit` jobs, of up to `candidates_max` looked at."""

    lines: Sequence[Line]
    limit: int
    candidates_max: int


class Picked(msgspec.Struct, frozen=True, kw_only=True):
    """What was started, and what an overlap rule has to be asked about.

    `held`: lines in which a limit holds more back. `later`: when lines have the next job that is
    not due yet; nothing where the claim is full. `is_cut`: more may be due than was looked at.
    """

    jobs: Sequence[Job]
    ruled: Sequence[JobId]
    held: Sequence[Line]
    later: Sequence[tuple[Line, datetime]]
    is_cut: bool


# In each line one more than may start is looked at, to know whether a limit holds anything back.
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
# Where the groups of a ring do not fill up a claim together, more is read of those that have more.
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
# As `rules.turns` orders them; the oldest of a job and all behind it says its place, looked at from
# behind, as a frame whose start moves is read anew for each row. What starts is picked in the order
# of `due_at` within a priority: here that is the place of a job in the order over all.
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
    found = ("jobs.ctid AS tid, due_at, id", IN_TIME)
    return (
        PICK.replace(":firsts", firsts)
        .replace(":let_through", order)
        .replace(":first_due", in_any_line(*found, f"least({most}, line.depth)"))
        .replace(":next_in_line", in_any_line(*found, rest))
        .replace(":next_due", in_any_line("due_at", "due_at > $2", "1"))
        .replace(":started", STARTED)
        .replace(":and", ", counted = nullif(jobs.queue = ANY($13::text[]), FALSE)")
        .replace(":limit", "$12")
    )


PICK_BY_AGE = pick_in(IN_LINES, BY_AGE)
PICK_BY_TURNS = pick_in(IN_RINGS, BY_TURNS)


async def pick(
    transaction: Transaction, request: ClaimRequest, standing: Standing, offer: Offer
) -> Picked:
    """Start the first due jobs of these lines that no limit holds back."""
    if not offer.lines:
        return Picked(jobs=(), ruled=(), held=(), later=(), is_cut=False)
    is_fair = any(line.seat for line in offer.lines)
    rows: Sequence[Any] = await transaction.rows(
        PICK_BY_TURNS if is_fair else PICK_BY_AGE,
        request.worker,
        micros(request.now),
        lease_end(request),
        *columns([offered(line, standing) for line in offer.lines]),
        offer.candidates_max,
        offer.limit,
        list(standing.limits),
        *columns(list(in_rings(offer))),
    )
    candidates, ruled = rows[0][:2]
    held: Sequence[int] = rows[0][2]
    later: Sequence[int | None] = rows[0][3]
    return Picked(
        jobs=read_started(rows, request),
        ruled=[JobId(str(id)) for id in ruled],
        held=[offer.lines[place - 1] for place in held],
        later=[
            (line, instant(due_at))
            for line, due_at in zip(offer.lines, later, strict=False)
            if due_at is not None
        ],
        is_cut=candidates >= offer.candidates_max,
    )


def offered(line: Line, standing: Standing) -> Row:
    return (
        line.queue,
        line.group,
        line.priority,
        line.lane,
        line.kind,
        standing.of_queue(line.queue).count,
        standing.of_group(line.queue, line.group).count,
    )


def in_rings(offer: Offer) -> Iterator[Row]:
    """Of each line the numbers of its ring and its seat, its last turn, and how deep to look."""
    rings: dict[tuple[str, int], int] = {}
    seats: dict[Seat, int] = {}
    sizes = Counter(line.seat[:2] for line in offer.lines if line.seat is not None)
    for line in offer.lines:
        seat = line.seat
        if seat is None:
            yield None, None, None, None
            continue
        ring = seat[:2]
        yield (
            rings.setdefault(ring, len(rings)),
            seats.setdefault(seat, len(seats)),
            line.turn,
            depth(offer.candidates_max, sizes[ring], times=1),
        )


def next_times(lines: Sequence[Line], standing: Standing, picked: Picked) -> list[datetime]:
    """When a line has more to give out; nothing where that is when some job ends."""
    later = [(line, instant(line.due_at)) for line in lines if not line.is_due]
    times: list[datetime] = []
    for line, due_at in (*later, *picked.later):
        again_at = standing.again_at(line.queue, line.group)
        times.append(due_at if again_at is None else max(due_at, again_at))
    shut = [line for line in lines if line.is_due and not standing.admits(line.queue, line.group)]
    for line in (*shut, *picked.held):
        again_at = standing.again_at(line.queue, line.group)
        if again_at is not None:
            times.append(again_at)
    return times
