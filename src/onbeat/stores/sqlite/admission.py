"""Claims from limited queues: how many jobs each of them, and each of its groups, may give out.

What runs and what the buckets hold is counted within the transaction that starts the jobs; nobody
else writes meanwhile, so that limits hold over all claimants.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.queue import Rate
from onbeat.ports.store import ClaimRequest
from onbeat.rules.admitting import allowance, metered
from onbeat.rules.turns import KEPT, Seat, Turns, depth
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sqlite.lines import Line
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.starting import start_admitted
from onbeat.stores.sqlite.transaction import Row, Transaction, Value, listed

Place = tuple[str, str | None]
"""A queue, or one group of it."""


class Gate:
    """What one place may give out, as the claim found it, and how many have gone through since."""

    __slots__ = ("again_at", "count", "full_at", "passed", "rate")

    def __init__(
        self,
        concurrency: int | None,
        rate: Rate | None,
        *,
        running: int,
        full_at: int | None,
        now: datetime,
    ) -> None:
        self.rate = rate
        self.full_at = None if full_at is None else instant(full_at)
        allowed = allowance(concurrency, rate, running=running, full_at=self.full_at, now=now)
        self.count = allowed.count
        self.again_at = allowed.again_at
        self.passed = 0

    @property
    def is_open(self) -> bool:
        return self.left(1) > 0

    def left(self, most: int) -> int:
        """How many more may go through, up to so many."""
        return most if self.count is None else min(most, self.count - self.passed)


class Candidate(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A due job with its place in the order of those of one priority."""

    due_at: int
    id: JobId
    seq: int
    queue: str
    group: str | None


class WaitingGroup(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`turn`: when the group gave out its last job, where groups take turns; else 0."""

    name: str
    running: int
    full_at: int | None
    turn: int


CANDIDATES = msgspec.json.Decoder(list[Candidate])
GROUPS = msgspec.json.Decoder(list[WaitingGroup])


class Admission:
    """One claim from lines of which some belong to limited queues."""

    def __init__(
        self, transaction: Transaction, request: ClaimRequest, lines: Iterable[Line]
    ) -> None:
        self.transaction = transaction
        self.request = request
        self.now = micros(request.now)
        self.limits = {line.queue: line.limits for line in lines if line.limits is not None}
        self.gates: dict[Place, Gate] = {}
        self.turns = Turns()
        self.again_at: datetime | None = None
        """When a rate lets the first of those go that were held back."""
        self.open_queues()

    def open_queues(self) -> None:
        bounded = [(name, limits.concurrency is not None) for name, limits in self.limits.items()]
        for name, running, full_at in count_queues(self.transaction, bounded):
            limits = self.limits[name]
            self.gates[name, None] = Gate(
                limits.concurrency,
                limits.rate,
                running=running,
                full_at=full_at,
                now=self.request.now,
            )

    def take(self, lines: Sequence[Line], limit: int) -> Iterator[Job]:
        """Start due jobs of lines of one priority, in order, as far as the gates are open."""
        while limit > 0:
            priority = lines[0].priority
            chosen = self.choose(self.candidates(lines, limit), priority, limit)
            due = read_chosen(self.transaction, chosen)
            admitted = start_admitted(self.transaction, self.request, due)
            self.note_turns(chosen, priority, admitted)
            yield from admitted
            if len(admitted) == len(chosen):
                return
            # Those not admitted have left the index; others may take their places.
            self.give_back(chosen, admitted)
            limit -= len(admitted)

    def choose(self, candidates: Iterable[Candidate], priority: int, limit: int) -> list[Candidate]:
        chosen: list[Candidate] = []
        for candidate in self.in_order(sorted(candidates), priority):
            if len(chosen) == limit:
                break
            gates = self.gates_of(candidate)
            if all(gate.is_open for gate in gates):
                pass_through(gates, 1)
                chosen.append(candidate)
            else:
                self.hold_back(gates)
        return chosen

    def in_order(self, candidates: Sequence[Candidate], priority: int) -> Sequence[Candidate]:
        if not any(limits.fair for limits in self.limits.values()):
            return candidates
        return self.turns.sort(
            candidates, lambda candidate: self.seat_of(candidate, priority), self.room_of
        )

    def room_of(self, seat: Seat, most: int) -> int:
        """How many the group may still give out, up to so many."""
        gate = self.gates.get((seat.queue, seat.group))
        return most if gate is None else gate.left(most)

    def seat_of(self, candidate: Candidate, priority: int) -> Seat | None:
        if not self.takes_turns(candidate.queue):
            return None
        return Seat(candidate.queue, priority, candidate.group or "")

    def takes_turns(self, queue: str) -> bool:
        return queue in self.limits and self.limits[queue].fair

    def note_turns(
        self, chosen: Iterable[Candidate], priority: int, admitted: Iterable[Job]
    ) -> None:
        ids = {job.id for job in admitted}
        for candidate in chosen:
            seat = self.seat_of(candidate, priority)
            if seat is not None and candidate.id in ids:
                self.turns.give(seat)

    def give_back(self, chosen: Iterable[Candidate], admitted: Iterable[Job]) -> None:
        ids = {job.id for job in admitted}
        for candidate in chosen:
            if candidate.id not in ids:
                pass_through(self.gates_of(candidate), -1)

    def gates_of(self, candidate: Candidate) -> list[Gate]:
        """What the job has to pass; nothing in a queue without limits."""
        places = ((candidate.queue, None), (candidate.queue, candidate.group))
        return [self.gates[place] for place in dict.fromkeys(places) if place in self.gates]

    def hold_back(self, gates: Iterable[Gate]) -> None:
        """Note when one who stands before these gates can go on, if time alone opens them."""
        last: datetime | None = None
        for gate in gates:
            if gate.is_open:
                continue
            if gate.again_at is None:
                return
            last = gate.again_at if last is None else max(last, gate.again_at)
        if last is not None and (self.again_at is None or last < self.again_at):
            self.again_at = last

    def candidates(self, lines: Iterable[Line], limit: int) -> list[Candidate]:
        """The first due jobs of lines, and one more than can go, to know what is held back."""
        found: list[Candidate] = []
        plain: list[Line] = []
        for line in lines:
            gate = self.gates.get((line.queue, None))
            if gate is not None and not gate.is_open:
                self.hold_back([gate])
            elif line.is_by_group:
                found += self.heads_of_groups(line, limit)
            else:
                plain.append(line)
                self.learn_turn(line)
        return found + heads_of_lines(self.transaction, plain, self.now, limit + 1)

    def learn_turn(self, line: Line) -> None:
        """Jobs without a group take turns with the groups."""
        if self.takes_turns(line.queue):
            seat = Seat(line.queue, line.priority, "")
            sql = "SELECT turn FROM turns WHERE queue = ? AND priority = ? AND grp = ''"
            self.turns.learn(seat, self.transaction.value(sql, seat[:2]) or 0)

    def heads_of_groups(self, line: Line, limit: int) -> list[Candidate]:
        """Of as many groups as can be served, in the order of their first jobs or by turns."""
        found = find_groups(self.transaction, line, self.now)
        if self.takes_turns(line.queue):
            return self.heads_by_turns(line, found, limit)
        groups = self.open_ones(line, found, limit)
        return self.heads_of(line, groups, self.deepest(line, groups, limit))

    def heads_by_turns(
        self, line: Line, found: Sequence[WaitingGroup], limit: int
    ) -> list[Candidate]:
        """That of the oldest job is among them: it says which place the queue has among others."""
        groups = self.open_ones(line, self.in_turn(line, found), limit)
        groups += [one for one in self.open_ones(line, found, 1) if one not in groups]
        for group in groups:
            self.turns.learn(seat_in(line, group), group.turn)
        most = self.deepest(line, groups, limit)
        shallow = min(most, depth(limit, len(groups)))
        heads = self.heads_of(line, groups, shallow)
        is_short = shallow < most and self.admissible(heads) < limit
        return self.heads_of(line, groups, most) if is_short else heads

    def in_turn(self, line: Line, found: Sequence[WaitingGroup]) -> Iterable[WaitingGroup]:
        """Who has given out a job during this claim comes last."""
        given = self.turns.given
        if not given:
            return sorted(found, key=attrgetter("turn"))
        return sorted(found, key=lambda one: (given.get(seat_in(line, one), 0), one.turn))

    def open_ones(
        self, line: Line, groups: Iterable[WaitingGroup], limit: int
    ) -> list[WaitingGroup]:
        return list(islice((group for group in groups if self.is_open(line, group)), limit))

    def is_open(self, line: Line, group: WaitingGroup) -> bool:
        gate = self.gate_of_group(line, group)
        if not gate.is_open:
            self.hold_back([gate])
        return gate.is_open

    def admissible(self, heads: Iterable[Candidate]) -> int:
        counts = Counter((head.queue, head.group) for head in heads)
        return sum(self.gates[place].left(count) for place, count in counts.items())

    def deepest(self, line: Line, groups: Iterable[WaitingGroup], limit: int) -> int:
        gates = [self.gate_of_group(line, group) for group in groups]
        return min(limit, max((gate.left(limit) for gate in gates), default=0))

    def heads_of(self, line: Line, groups: Iterable[WaitingGroup], most: int) -> list[Candidate]:
        """So many of each, and one more, to know what is held back."""
        names = [group.name for group in groups]
        return heads_of_groups(self.transaction, line, names, self.now, most + 1)

    def gate_of_group(self, line: Line, group: WaitingGroup) -> Gate:
        place = (line.queue, group.name)
        if place not in self.gates:
            limits = self.limits[line.queue]
            self.gates[place] = Gate(
                limits.group_concurrency,
                limits.group_rate,
                running=group.running,
                full_at=group.full_at,
                now=self.request.now,
            )
        return self.gates[place]

    def keep_meters(self) -> None:
        """Store what has been taken out of the buckets."""
        rows: list[Row] = [
            (queue, group or "", micros(metered(gate.rate, gate.full_at, self.request.now, passed)))
            for (queue, group), gate in self.gates.items()
            if gate.rate is not None and (passed := gate.passed)
        ]
        self.transaction.run_rows(
            """
            INSERT INTO meters (queue, grp, full_at)
            SELECT * FROM :rows WHERE column1 IS NOT NULL
            ON CONFLICT DO UPDATE SET full_at = excluded.full_at
            """,
            rows,
        )

    def keep_turns(self) -> None:
        """Store who has given out jobs, and forget who gave out none for long."""
        if not self.turns.given:
            return
        rows: list[Row] = [(*seat, number) for seat, number in self.turns.given.items()]
        self.transaction.run_rows(
            """
            INSERT INTO turns (queue, priority, grp, turn)
            SELECT column1, column2, column3,
                   column4 + coalesce((SELECT max(turn) FROM turns WHERE queue = column1), 0)
            FROM :rows WHERE column1 IS NOT NULL
            ON CONFLICT DO UPDATE SET turn = excluded.turn
            """,
            rows,
        )
        self.transaction.run(
            """
            DELETE FROM turns
            WHERE (queue, priority, grp) IN (
              SELECT turns.queue, priority, grp
              FROM json_each(:queues) AS served
              JOIN turns ON turns.queue = served.value
               AND turn <= (SELECT max(turn) FROM turns WHERE queue = served.value) - :kept)
            """,
            {"queues": listed({seat.queue for seat in self.turns.given}), "kept": KEPT},
        )

    def next_due_at(self, lines: Iterable[Line]) -> datetime | None:
        times = [time for line in lines if (time := self.next_in(line)) is not None]
        return min(times if self.again_at is None else [*times, self.again_at], default=None)

    def next_in(self, line: Line) -> datetime | None:
        """When the next of the line is due, or later if the rate of its queue is used up."""
        if line.next_due_at is None:
            return None
        due_at = instant(line.next_due_at)
        gate = self.gates.get((line.queue, None))
        if gate is None or gate.is_open or gate.again_at is None:
            return due_at
        return max(due_at, gate.again_at)


def seat_in(line: Line, group: WaitingGroup) -> Seat:
    return Seat(line.queue, line.priority, group.name)


def pass_through(gates: Iterable[Gate], count: int) -> None:
    for gate in gates:
        gate.passed += count


def count_queues(
    transaction: Transaction, names: Sequence[tuple[str, bool]]
) -> list[tuple[str, int, int | None]]:
    """What runs in each queue, where that is asked for, and when its bucket will be full.

    By worker, since running jobs stand in that order.
    """
    sql = """
        WITH RECURSIVE holders (worker) AS MATERIALIZED (
          SELECT (SELECT min(worker) FROM jobs INDEXED BY jobs_running WHERE state = 'running')
          UNION ALL
          SELECT (SELECT min(jobs.worker) FROM jobs INDEXED BY jobs_running
                  WHERE jobs.state = 'running' AND jobs.worker > holders.worker)
          FROM holders
          WHERE holders.worker IS NOT NULL
        )
        SELECT json_group_array(json_array(
                 value ->> 0,
                 iif(value ->> 1,
                     (SELECT count(*)
                      FROM holders
                      CROSS JOIN jobs INDEXED BY jobs_running
                        ON jobs.worker = holders.worker AND jobs.queue = value ->> 0
                      WHERE jobs.state = 'running'),
                     0),
                 (SELECT full_at FROM meters WHERE meters.queue = value ->> 0 AND grp = '')))
        FROM json_each(?)
    """
    return [
        (name, running, full_at)
        for name, running, full_at in transaction.values(sql, (listed(names),))
    ]


def find_groups(transaction: Transaction, line: Line, now: int) -> list[WaitingGroup]:
    """Those with a due job, in the order of their first ones; a few seeks for each that waits."""
    sql = """
        WITH RECURSIVE names (name) AS (
          SELECT (SELECT grp FROM jobs INDEXED BY jobs_grouped
                  WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp IS NOT NULL
                  ORDER BY grp LIMIT 1)
          UNION ALL
          SELECT (SELECT grp FROM jobs INDEXED BY jobs_grouped
                  WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp > names.name
                  ORDER BY grp LIMIT 1)
          FROM names
          WHERE name IS NOT NULL
        )
        SELECT '[' || group_concat(found, ',') || ']'
        FROM (
          SELECT json_array(
                   name,
                   iif(:bounded,
                       (SELECT count(*) FROM jobs INDEXED BY jobs_grouped
                        WHERE queue = :queue AND state = 'running' AND ready = 0 AND grp = name),
                       0),
                   iif(:metered,
                       (SELECT full_at FROM meters WHERE queue = :queue AND grp = name),
                       NULL),
                   iif(:fair,
                       coalesce((SELECT turn FROM turns
                                 WHERE queue = :queue AND priority = :priority AND grp = name),
                                0),
                       0)) AS found
          FROM names
          CROSS JOIN jobs AS head ON head.seq = (
            SELECT seq FROM jobs INDEXED BY jobs_grouped
            WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp = name
              AND priority = :priority AND lane = :lane
              AND (start_by IS NULL OR start_by >= :now)
            ORDER BY due_at, id LIMIT 1)
          WHERE head.due_at <= :now
          ORDER BY head.due_at, head.id
        )
    """
    limits = line.limits
    assert limits is not None, "groups are looked for where they are limited"
    asked: dict[str, Value] = {
        "now": now,
        "bounded": limits.group_concurrency is not None,
        "metered": limits.group_rate is not None,
        "fair": limits.fair,
    }
    text = transaction.value(sql, bindings_of(line) | asked)
    return GROUPS.decode(text) if text else []


def heads_of_groups(
    transaction: Transaction, line: Line, names: Sequence[str], now: int, depth: int
) -> list[Candidate]:
    sql = """
        SELECT '[' || group_concat(heads.value, ',') || ']'
        FROM json_each(:names) AS names
        CROSS JOIN json_each((
          SELECT json_group_array(json_array(due_at, id, seq, queue, grp))
          FROM (
            SELECT due_at, id, seq, queue, grp FROM jobs INDEXED BY jobs_grouped
            WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp = names.value
              AND priority = :priority AND lane = :lane
              AND due_at <= :now
              AND (start_by IS NULL OR start_by >= :now)
            ORDER BY due_at, id
            LIMIT :depth
          )
        )) AS heads
    """
    bindings = {**bindings_of(line), "names": listed(names), "now": now, "depth": depth}
    return read_candidates(transaction.value(sql, bindings))


def heads_of_lines(
    transaction: Transaction, lines: Sequence[Line], now: int, depth: int
) -> list[Candidate]:
    sql = """
        SELECT '[' || group_concat(heads.value, ',') || ']'
        FROM json_each(:lines) AS lines
        CROSS JOIN json_each((
          SELECT json_group_array(json_array(due_at, id, seq, queue, grp))
          FROM (
            SELECT due_at, id, seq, queue, grp FROM jobs INDEXED BY jobs_due
            WHERE ready
              AND queue = lines.value ->> 0
              AND priority = lines.value ->> 1
              AND lane = lines.value ->> 2
              AND grouped = lines.value ->> 3
              AND due_at <= :now
              AND (start_by IS NULL OR start_by >= :now)
            ORDER BY due_at, id
            LIMIT :depth
          )
        )) AS heads
    """
    bindings: dict[str, Value] = {"lines": listed(lines), "now": now, "depth": depth}
    return read_candidates(transaction.value(sql, bindings))


def bindings_of(line: Line) -> dict[str, Value]:
    return {"queue": line.queue, "priority": line.priority, "lane": line.lane}


def read_candidates(text: str | None) -> list[Candidate]:
    return CANDIDATES.decode(text) if text else []


def read_chosen(transaction: Transaction, chosen: Sequence[Candidate]) -> list[Job]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT live_jobs.record
          FROM json_each(?) AS chosen
          CROSS JOIN live_jobs ON live_jobs.seq = chosen.value
          ORDER BY live_jobs.due_at, live_jobs.id
        )
    """
    return read_jobs(transaction.value(sql, (listed(one.seq for one in chosen),)))
