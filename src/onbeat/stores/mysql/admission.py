"""Giving out jobs of limited queues, as many as may start now.

Whoever claims from a limited queue locks its row, so that one claimant at a time counts what runs
in it and draws on its buckets. A queue that another has locked is left out until a moment later.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.queue import Limits, Rate
from onbeat.ports.store import ClaimRequest
from onbeat.rules.admitting import Allowance, allowance, metered
from onbeat.rules.turns import KEPT, Seat, Turns, depth, is_time_to_forget
from onbeat.stores.mysql.lines import GROUP, LINE, Group, Line, each
from onbeat.stores.mysql.queues import read_limits
from onbeat.stores.mysql.rows import read_jobs
from onbeat.stores.mysql.starting import (
    Bite,
    Candidate,
    Wanted,
    candidate_of,
    find_candidates,
    lock_candidates,
    start,
    start_admitted,
    started,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros

BUSY: Final = timedelta(milliseconds=5)  # about as long as another claim takes


Place = tuple[str, str]
"""Where jobs are counted: a queue (with the group ''), or one of its groups."""


class Gate:
    """One place with limits, as the claim found it, and how many have gone through since."""

    def __init__(self, allowed: Allowance, rate: Rate | None, full_at: datetime | None) -> None:
        self.allowed = allowed
        self.rate = rate
        self.full_at = full_at
        self.chosen = 0
        self.started = 0

    def left(self, most: int) -> int:
        """How many more may go through, up to so many."""
        count = self.allowed.count
        return most if count is None else min(most, count - self.chosen)


class Admission:
    """The gates of some locked queues, and the turns of their groups, in one priority.

    `again_at`: when to look for what they hold back.
    """

    def __init__(
        self,
        limits: Mapping[str, Limits],
        running: Mapping[Place, int],
        full: Mapping[Place, datetime],
        now: datetime,
        *,
        priority: int = 0,
        turns: Turns | None = None,
    ) -> None:
        self.limits = limits
        self.priority = priority
        self.turns = turns or Turns()
        self.again_at: datetime | None = None
        self._running = running
        self._full = full
        self._now = now
        self._gates: dict[Place, Gate] = {}

    def room(self, queue: str, group: str | None, most: int) -> int:
        """How many more jobs of this place may start, up to so many."""
        return min((gate.left(most) for gate in self._gates_of(queue, group)), default=most)

    def is_open(self, queue: str, group: str | None = None) -> bool:
        """Whether one more may start. If not, it is noted when a rate lets it."""
        closed = [
            gate.allowed.again_at for gate in self._gates_of(queue, group) if not gate.left(1)
        ]
        times = [time for time in closed if time is not None]
        if times and len(times) == len(closed):
            self.look_again(max(times))
        return not closed

    def look_again(self, at: datetime) -> None:
        self.again_at = at if self.again_at is None else min(self.again_at, at)

    def choose(self, candidates: Sequence[Candidate], most: int) -> list[Candidate]:
        """The first of them that may all start, counted as if they had."""
        chosen: list[Candidate] = []
        if any(limits.fair for limits in self.limits.values()):
            candidates = self.turns.sort(candidates, self._seat_of, self.room_in)
        for one in candidates:
            if len(chosen) == most:
                break
            if self.is_open(one.queue, one.group):
                self._count(one, chosen=1)
                chosen.append(one)
        return chosen

    def note(self, chosen: Sequence[Candidate], begun: Collection[JobId]) -> None:
        """Which of those that were chosen have started."""
        for one in chosen:
            if one.id in begun:
                self._count(one, started=1)
                if (seat := self._seat_of(one)) is not None:
                    self.turns.give(seat)
                continue
            self._count(one, chosen=-1)
            if not one.ruled:
                self.look_again(self._now + BUSY)  # somebody else holds it at this moment

    def seat(self, queue: str, group: str | None) -> Seat | None:
        """None where groups take no turns."""
        limits = self.limits.get(queue)
        return Seat(queue, self.priority, group or "") if limits and limits.fair else None

    def room_in(self, seat: Seat, most: int) -> int:
        """How many more jobs of this group may start, up to so many, whatever the queue says."""
        if not seat.group:
            return most
        limits = self.limits[seat.queue]
        place = (seat.queue, seat.group)
        return self._gate(place, limits.group_concurrency, limits.group_rate).left(most)

    def drawn(self) -> list[Row]:
        """The buckets that were drawn on, and when each will be full again."""
        return [
            (*place, micros(metered(gate.rate, gate.full_at, self._now, gate.started)))
            for place, gate in sorted(self._gates.items())
            if gate.rate is not None and gate.started
        ]

    def _seat_of(self, one: Candidate) -> Seat | None:
        return self.seat(one.queue, one.group)

    def _count(self, one: Candidate, *, chosen: int = 0, started: int = 0) -> None:
        for gate in self._gates_of(one.queue, one.group):
            gate.chosen += chosen
            gate.started += started

    def _gates_of(self, queue: str, group: str | None) -> Iterator[Gate]:
        """What a job has to pass; nothing in a queue without limits."""
        limits = self.limits.get(queue)
        if limits is None:
            return
        yield self._gate((queue, ""), limits.concurrency, limits.rate)
        if group is not None and limits.by_group:
            yield self._gate((queue, group), limits.group_concurrency, limits.group_rate)

    def _gate(self, place: Place, concurrency: int | None, rate: Rate | None) -> Gate:
        gate = self._gates.get(place)
        if gate is None:
            full_at = self._full.get(place)
            running = self._running.get(place, 0)
            allowed = allowance(concurrency, rate, running=running, full_at=full_at, now=self._now)
            gate = self._gates[place] = Gate(allowed, rate, full_at)
        return gate


class Found(msgspec.Struct, frozen=True):
    """Due jobs that might start, in order, and the queues in which there may be more."""

    candidates: list[Candidate]
    cut: Collection[str]


async def take_admitted(transaction: Transaction, wanted: Wanted) -> Bite:
    """As `claim.take`, within the limits of the queues. Overlap rules are asked here as well."""
    admission = await open_admission(transaction, wanted)
    found = await find_admissible(transaction, wanted, admission)
    left = found.candidates
    jobs: list[Job] = []
    while chosen := admission.choose(left, wanted.limit - len(jobs)):
        begun = await start_chosen(transaction, wanted.request, chosen)
        admission.note(chosen, {job.id for job in begun})
        jobs += begun
        tried = {one.id for one in chosen}
        left = [one for one in left if one.id not in tried]
    await draw(transaction, admission.drawn())
    await keep_turns(transaction, admission)
    is_cut = len(jobs) < wanted.limit and any(map(admission.is_open, found.cut))
    return Bite(jobs=jobs, is_cut=is_cut, again_at=admission.again_at)


async def open_admission(transaction: Transaction, wanted: Wanted) -> Admission:
    now = wanted.request.now
    limits = await lock_limits(transaction, wanted.limited)
    running = await count_running(transaction, limits)
    full = await read_meters(transaction, limits, wanted.groups, micros(now))
    turns = await read_turns(transaction, limits, wanted)
    admission = Admission(
        limits, running, full, now, priority=wanted.lines[0].priority, turns=turns
    )
    if len(limits) < len(wanted.limited):
        admission.look_again(now + BUSY)
    return admission


async def lock_limits(transaction: Transaction, queues: Collection[str]) -> dict[str, Limits]:
    """Of those that no other claimant has locked, and that may still give out jobs."""
    sql = """
        SELECT name, limits
        FROM queues FORCE INDEX (PRIMARY)
        WHERE name IN %s AND limits IS NOT NULL AND paused = 0
        ORDER BY name
        FOR UPDATE SKIP LOCKED
    """
    rows = await transaction.rows(sql, (tuple(queues),))
    return {name: read_limits(limits) for name, limits in rows}


async def count_running(transaction: Transaction, limits: Mapping[str, Limits]) -> Counter[Place]:
    """One entry of the index is read for each job that runs, in whatever queue."""
    queues = [
        queue
        for queue, one in limits.items()
        if one.concurrency is not None or one.group_concurrency is not None
    ]
    running: Counter[Place] = Counter()
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
    transaction: Transaction, limits: Mapping[str, Limits], groups: Collection[Group], now: int
) -> dict[Place, datetime]:
    """The buckets that are not full, of the queues and of the groups in which a job waits."""
    sql = """
        (SELECT queue, grp, full_at FROM meters WHERE queue = %s AND grp IN %s AND full_at > %s)
    """
    names = {queue: [""] for queue, one in limits.items() if one.rate or one.group_rate}
    for group in groups:
        if group.line.queue in names:
            names[group.line.queue].append(group.name)
    asked = [(queue, tuple(of), now) for queue, of in names.items()]
    rows = await each(transaction, sql, asked)
    return {(queue, group): instant(full_at) for queue, group, full_at in rows}


async def read_turns(
    transaction: Transaction, limits: Mapping[str, Limits], wanted: Wanted
) -> Turns:
    """The last turns of the groups in which a job waits, where groups take turns."""
    turns = Turns()
    names = {queue: [""] for queue, one in limits.items() if one.fair}
    for group in wanted.groups:
        if group.line.queue in names:
            names[group.line.queue].append(group.name)
    sql = """
        (SELECT queue, grp, turn FROM turns WHERE queue = %s AND priority = %s AND grp IN %s)
    """
    priority = wanted.lines[0].priority
    asked = [(queue, priority, tuple(of)) for queue, of in names.items()]
    for queue, group, turn in await each(transaction, sql, asked):
        turns.learn(Seat(queue, priority, group), turn)
    return turns


async def find_admissible(transaction: Transaction, wanted: Wanted, admission: Admission) -> Found:
    """The first due job of each group shows which groups come first.

    No more of them than jobs are wanted can have a part in what is taken, so that the others are
    not looked into.
    """
    now = micros(wanted.request.now)
    seen = wanted.limit + wanted.spare
    lines = [line for line in wanted.lines if is_plain(line, wanted, admission)]
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
    return Found(sorted(plain + grouped, key=attrgetter("due_at", "id")), cut)


def in_turn(
    groups: Sequence[Group], admission: Admission, count: int
) -> tuple[Sequence[Group], Sequence[Group]]:
    """The first so many of these, which stand in order of age, and the others.

    Where groups take turns, the oldest job says which place the queue has among others.
    """
    seats = [admission.seat(group.line.queue, group.name) for group in groups]
    if not any(seats):
        return groups[:count], groups[count:]
    order = admission.turns.order(seats)
    oldest: dict[str, int] = {}
    for age, seat in enumerate(seats):
        if seat is not None:
            oldest.setdefault(seat.queue, age)
    first = dict.fromkeys([*order[:count], *oldest.values()])
    return (
        [groups[age] for age in first],
        [group for age, group in enumerate(groups) if age not in first],
    )


async def heads_of_groups(
    transaction: Transaction, wanted: Wanted, admission: Admission, groups: Sequence[Group]
) -> list[Candidate]:
    """As many of each group as may start, and one more, which tells what is left.

    Where groups take turns it is fewer at first, unless these do not fill up the claim.
    """
    now, limit = micros(wanted.request.now), wanted.limit
    rings = Counter(group.line.queue for group in groups)
    rooms = [admission.room(group.line.queue, group.name, limit) for group in groups]
    looks = [
        min(room, depth(limit, rings[group.line.queue]))
        if admission.seat(group.line.queue, group.name)
        else room
        for group, room in zip(groups, rooms, strict=True)
    ]
    asked = [(group.text, 1 + look) for group, look in zip(groups, looks, strict=True)]
    found = await find_candidates(transaction, GROUP, asked, now)
    places = Counter((one.queue, one.group or "") for one in found)
    filled: Counter[str] = Counter()
    for (queue, group), count in places.items():
        filled[queue] += admission.room(queue, group, count)
    more = [
        (group.text, 1 + room)
        for group, room, look in zip(groups, rooms, looks, strict=True)
        if look < room and filled[group.line.queue] < admission.room(group.line.queue, None, limit)
    ]
    if not more:
        return found
    deeper = await find_candidates(transaction, GROUP, more, now)
    known = {one.id for one in deeper}
    return deeper + [one for one in found if one.id not in known]


def is_plain(line: Line, wanted: Wanted, admission: Admission) -> bool:
    """Whether jobs of the line may start, and limits of groups do not part them."""
    if line.queue not in wanted.limited:
        return True
    limits = admission.limits.get(line.queue)
    if limits is None or not admission.is_open(line.queue):
        return False
    return not (line.grouped and limits.by_group)


async def start_chosen(
    transaction: Transaction, request: ClaimRequest, chosen: Sequence[Candidate]
) -> list[Job]:
    """Those of them that are still as they were, and that nobody else has locked."""
    ruled = [one for one in chosen if one.ruled]
    jobs = await start_admitted(transaction, (request, ruled)) if ruled else []
    free = {one.id: one for one in chosen if not one.ruled}
    rows = await lock_candidates(transaction, list(free), micros(request.now), len(free))
    ready = [job for job in read_jobs(rows) if candidate_of(job) == free[job.id]]
    await start(transaction, request, [job.id for job in ready])
    return [*jobs, *(started(job, request) for job in ready)]


async def draw(transaction: Transaction, drawn: Sequence[Row]) -> None:
    await transaction.insert(
        """
        INSERT INTO meters (queue, grp, full_at)
        VALUES (%s, %s, %s)
        ON DUPLICATE KEY UPDATE full_at = VALUES(full_at)
        """,
        drawn,
    )


async def keep_turns(transaction: Transaction, admission: Admission) -> None:
    """Store who has given out jobs, and now and then forget who gave out none for long."""
    given = admission.turns.given
    if not given:
        return
    newest = await newest_turns(transaction, sorted({seat.queue for seat in given}))
    await transaction.insert(
        """
        INSERT INTO turns (queue, priority, grp, turn)
        VALUES (%s, %s, %s, %s)
        ON DUPLICATE KEY UPDATE turn = VALUES(turn)
        """,
        [(*seat, newest.get(seat.queue, 0) + place) for seat, place in given.items()],
    )
    count = max(given.values())
    for queue, turn in newest.items():
        if is_time_to_forget(turn + count, count):
            await transaction.run(
                "DELETE FROM turns WHERE queue = %s AND turn <= %s", (queue, turn - KEPT)
            )


async def newest_turns(transaction: Transaction, queues: Sequence[str]) -> dict[str, int]:
    sql = """
        (SELECT queue, turn FROM turns FORCE INDEX (turns_in_order)
         WHERE queue = %s ORDER BY queue DESC, turn DESC LIMIT 1)
    """
    return dict(await each(transaction, sql, [(queue,) for queue in queues]))
