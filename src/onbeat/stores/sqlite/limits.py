"""Claims from limited queues, within the limits of queues and groups.

Running jobs and buckets are read in the transaction that starts jobs. There is only one writer, so
limits hold across all claimants.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import ClaimRequest
from onbeat.rules.fairness import KEPT, GroupKey, depth
from onbeat.rules.limits import Admission, LimitKey
from onbeat.stores.sql.dialect import Value
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sqlite.ready_lists import ReadyList
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.start import start_admitted
from onbeat.stores.sqlite.transaction import Row, Transaction, json_array


class Candidate(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A due job with its place in the order of its priority."""

    due_at: int
    id: JobId
    seq: int
    queue: str
    group: str | None


class WaitingGroup(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`turn` is that of the group's last job if groups take turns, else 0."""

    name: str
    running: int
    full_at: int | None
    turn: int


CANDIDATES = msgspec.json.Decoder(list[Candidate])
GROUPS = msgspec.json.Decoder(list[WaitingGroup])


class LimitedClaim:
    """One claim from ready lists, including lists of limited queues."""

    def __init__(
        self, transaction: Transaction, request: ClaimRequest, ready_lists: Iterable[ReadyList]
    ) -> None:
        self.transaction = transaction
        self.request = request
        self.now = micros(request.now)
        self.running: dict[LimitKey, int] = {}
        self.full_at: dict[LimitKey, datetime] = {}
        limits = {line.queue: line.limits for line in ready_lists if line.limits is not None}
        self.admission = Admission(limits, self.running, self.full_at, request.now)
        bounded = [(name, one.concurrency is not None) for name, one in limits.items()]
        for name, running, full_at in count_queues(transaction, bounded):
            self.learn(name, "", running, full_at)

    def learn(self, queue: str, group: str, running: int, full_at: int | None) -> None:
        """Record the running jobs and the bucket of a queue or group."""
        self.running[queue, group] = running
        if full_at is not None:
            self.full_at[queue, group] = instant(full_at)

    def take(self, ready_lists: Sequence[ReadyList], limit: int) -> Iterator[Job]:
        """Start due jobs of ready lists of one priority, in order, within their limits."""
        priority = ready_lists[0].priority
        while limit > 0:
            candidates = sorted(self.candidates(ready_lists, limit))
            chosen = self.admission.choose(candidates, priority, limit)
            due = read_chosen(self.transaction, chosen)
            admitted = start_admitted(self.transaction, self.request, due)
            self.admission.confirm(chosen, priority, {job.id for job in admitted})
            yield from admitted
            if len(admitted) == len(chosen):
                return
            # Jobs that were not admitted have left the index; others may take their places.
            limit -= len(admitted)

    def takes_turns(self, ready_list: ReadyList) -> bool:
        return ready_list.limits is not None and ready_list.limits.fair

    def candidates(self, ready_lists: Iterable[ReadyList], limit: int) -> list[Candidate]:
        """The first due jobs of ready lists, one more than can start to show if any are held."""
        result: list[Candidate] = []
        plain: list[ReadyList] = []
        for line in ready_lists:
            if not self.admission.is_open(line.queue):
                continue
            if line.is_by_group:
                result += self.heads_of_groups(line, limit)
            else:
                plain.append(line)
                self.learn_turn(line)
        return result + first_of_lists(self.transaction, plain, self.now, limit + 1)

    def learn_turn(self, ready_list: ReadyList) -> None:
        """Jobs without a group take turns with the groups."""
        if self.takes_turns(ready_list):
            group_key = GroupKey(ready_list.queue, ready_list.priority, "")
            sql = "SELECT turn FROM onbeat_turns WHERE queue = ? AND priority = ? AND grp = ''"
            self.admission.turns.learn(group_key, self.transaction.value(sql, group_key[:2]) or 0)

    def heads_of_groups(self, ready_list: ReadyList, limit: int) -> list[Candidate]:
        """The first jobs of as many groups as can be served, ordered by age or turns."""
        result = find_groups(self.transaction, ready_list, self.now)
        for group in result:
            self.learn(ready_list.queue, group.name, group.running, group.full_at)
        if self.takes_turns(ready_list):
            return self.heads_by_turns(ready_list, result, limit)
        groups = self.open_ones(ready_list, result, limit)
        return self.heads_of(ready_list, groups, self.deepest(ready_list, groups, limit))

    def heads_by_turns(
        self, ready_list: ReadyList, result: Sequence[WaitingGroup], limit: int
    ) -> list[Candidate]:
        """They include the group of the oldest job, which decides the place of the queue."""
        groups = self.open_ones(ready_list, self.in_turn(ready_list, result), limit)
        groups += [
            open_one for open_one in self.open_ones(ready_list, result, 1) if open_one not in groups
        ]
        for group in groups:
            self.admission.turns.learn(seat_in(ready_list, group), group.turn)
        most = self.deepest(ready_list, groups, limit)
        shallow = min(most, depth(limit, len(groups)))
        heads = self.heads_of(ready_list, groups, shallow)
        is_short = shallow < most and self.admissible(heads) < limit
        return self.heads_of(ready_list, groups, most) if is_short else heads

    def in_turn(
        self, ready_list: ReadyList, result: Sequence[WaitingGroup]
    ) -> Iterable[WaitingGroup]:
        """Groups that have given out a job during this claim come last."""
        given = self.admission.turns.given
        if not given:
            return sorted(result, key=attrgetter("turn"))
        return sorted(result, key=lambda one: (given.get(seat_in(ready_list, one), 0), one.turn))

    def open_ones(
        self, ready_list: ReadyList, groups: Iterable[WaitingGroup], limit: int
    ) -> list[WaitingGroup]:
        is_open = self.admission.is_open
        return list(
            islice((group for group in groups if is_open(ready_list.queue, group.name)), limit)
        )

    def admissible(self, heads: Iterable[Candidate]) -> int:
        counts = Counter((head.queue, head.group) for head in heads)
        room = self.admission.group_room
        return sum(room(queue, group, count) for (queue, group), count in counts.items())

    def deepest(self, ready_list: ReadyList, groups: Iterable[WaitingGroup], limit: int) -> int:
        rooms = (self.admission.group_room(ready_list.queue, group.name, limit) for group in groups)
        return min(limit, max(rooms, default=0))

    def heads_of(
        self, ready_list: ReadyList, groups: Iterable[WaitingGroup], most: int
    ) -> list[Candidate]:
        """The first jobs of each group, one more than `most`, to show whether any are held back."""
        names = [group.name for group in groups]
        return first_of_groups(self.transaction, ready_list, names, self.now, most + 1)

    def keep_turns(self) -> None:
        """Store the turns of groups that gave out jobs, and delete old turns."""
        given = self.admission.turns.given
        if not given:
            return
        rows: list[Row] = [(*group_key, number) for group_key, number in given.items()]
        self.transaction.run_rows(
            """
            INSERT INTO onbeat_turns (queue, priority, grp, turn)
            SELECT column1, column2, column3,
                   column4 + coalesce((SELECT max(turn) FROM onbeat_turns WHERE queue = column1), 0)
            FROM :rows WHERE column1 IS NOT NULL
            ON CONFLICT DO UPDATE SET turn = excluded.turn
            """,
            rows,
        )
        self.transaction.run(
            """
            DELETE FROM onbeat_turns
            WHERE (queue, priority, grp) IN (
              SELECT onbeat_turns.queue, priority, grp
              FROM json_each(:queues) AS served
              JOIN onbeat_turns ON onbeat_turns.queue = served.value
               AND turn <= (SELECT max(turn) FROM onbeat_turns WHERE queue = served.value) - :kept)
            """,
            {"queues": json_array({group_key.queue for group_key in given}), "kept": KEPT},
        )

    def next_due_at(self, ready_lists: Iterable[ReadyList]) -> datetime | None:
        times = [time for line in ready_lists if (time := self.next_in(line)) is not None]
        again_at = self.admission.again_at
        return min(times if again_at is None else [*times, again_at], default=None)

    def next_in(self, ready_list: ReadyList) -> datetime | None:
        """When the list's next job is due, or later if its queue has reached its rate limit."""
        if ready_list.next_due_at is None:
            return None
        due_at = instant(ready_list.next_due_at)
        reopens_at = self.admission.reopens_at(ready_list.queue)
        return due_at if reopens_at is None else max(due_at, reopens_at)


def seat_in(ready_list: ReadyList, group: WaitingGroup) -> GroupKey:
    return GroupKey(ready_list.queue, ready_list.priority, group.name)


def count_queues(
    transaction: Transaction, names: Sequence[tuple[str, bool]]
) -> list[tuple[str, int, int | None]]:
    """The running jobs of each queue, where requested, and when its bucket will be full.

    Counted by worker, as running jobs are indexed in that order.
    """
    sql = """
        WITH RECURSIVE holders (worker) AS MATERIALIZED (
          SELECT (SELECT min(worker)
                  FROM onbeat_jobs INDEXED BY onbeat_jobs_running
                  WHERE state = 'running')
          UNION ALL
          SELECT (SELECT min(onbeat_jobs.worker) FROM onbeat_jobs INDEXED BY onbeat_jobs_running
                  WHERE onbeat_jobs.state = 'running' AND onbeat_jobs.worker > holders.worker)
          FROM holders
          WHERE holders.worker IS NOT NULL
        )
        SELECT json_group_array(json_array(
                 value ->> 0,
                 iif(value ->> 1,
                     (SELECT count(*)
                      FROM holders
                      CROSS JOIN onbeat_jobs INDEXED BY onbeat_jobs_running
                        ON onbeat_jobs.worker = holders.worker AND onbeat_jobs.queue = value ->> 0
                      WHERE onbeat_jobs.state = 'running'),
                     0),
                 (SELECT full_at FROM onbeat_meters AS meter
                  WHERE meter.queue = value ->> 0 AND grp = '')))
        FROM json_each(?)
    """
    return [
        (name, running, full_at)
        for name, running, full_at in transaction.values(sql, (json_array(names),))
    ]


def find_groups(transaction: Transaction, ready_list: ReadyList, now: int) -> list[WaitingGroup]:
    """The groups with a due job, in the order of their first jobs; a few seeks for each group."""
    sql = """
        WITH RECURSIVE names (name) AS (
          SELECT (SELECT grp FROM onbeat_jobs INDEXED BY onbeat_jobs_grouped
                  WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp IS NOT NULL
                  ORDER BY grp LIMIT 1)
          UNION ALL
          SELECT (SELECT grp FROM onbeat_jobs INDEXED BY onbeat_jobs_grouped
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
                       (SELECT count(*) FROM onbeat_jobs INDEXED BY onbeat_jobs_grouped
                        WHERE queue = :queue AND state = 'running' AND ready = 0 AND grp = name),
                       0),
                   iif(:metered,
                       (SELECT full_at FROM onbeat_meters WHERE queue = :queue AND grp = name),
                       NULL),
                   iif(:fair,
                       coalesce((SELECT turn FROM onbeat_turns
                                 WHERE queue = :queue AND priority = :priority AND grp = name),
                                0),
                       0)) AS found
          FROM names
          CROSS JOIN onbeat_jobs AS head ON head.seq = (
            SELECT seq FROM onbeat_jobs INDEXED BY onbeat_jobs_grouped
            WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp = name
              AND priority = :priority AND lane = :lane
              AND (start_by IS NULL OR start_by >= :now)
            ORDER BY due_at, id LIMIT 1)
          WHERE head.due_at <= :now
          ORDER BY head.due_at, head.id
        )
    """
    limits = ready_list.limits
    assert limits is not None, "groups are looked for where they are limited"
    request: dict[str, Value] = {
        "now": now,
        "bounded": limits.group_concurrency is not None,
        "metered": limits.group_rate is not None,
        "fair": limits.fair,
    }
    text = transaction.value(sql, bindings_of(ready_list) | request)
    return GROUPS.decode(text) if text else []


def first_of_groups(
    transaction: Transaction, ready_list: ReadyList, names: Sequence[str], now: int, depth: int
) -> list[Candidate]:
    sql = """
        SELECT '[' || group_concat(heads.value, ',') || ']'
        FROM json_each(:names) AS names
        CROSS JOIN json_each((
          SELECT json_group_array(json_array(due_at, id, seq, queue, grp))
          FROM (
            SELECT due_at, id, seq, queue, grp FROM onbeat_jobs INDEXED BY onbeat_jobs_grouped
            WHERE queue = :queue AND state = 'waiting' AND ready = 1 AND grp = names.value
              AND priority = :priority AND lane = :lane
              AND due_at <= :now
              AND (start_by IS NULL OR start_by >= :now)
            ORDER BY due_at, id
            LIMIT :depth
          )
        )) AS heads
    """
    bindings = {**bindings_of(ready_list), "names": json_array(names), "now": now, "depth": depth}
    return read_candidates(transaction.value(sql, bindings))


def first_of_lists(
    transaction: Transaction, ready_lists: Sequence[ReadyList], now: int, depth: int
) -> list[Candidate]:
    sql = """
        SELECT '[' || group_concat(heads.value, ',') || ']'
        FROM json_each(:lines) AS lines
        CROSS JOIN json_each((
          SELECT json_group_array(json_array(due_at, id, seq, queue, grp))
          FROM (
            SELECT due_at, id, seq, queue, grp FROM onbeat_jobs INDEXED BY onbeat_jobs_due
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
    bindings: dict[str, Value] = {"lines": json_array(ready_lists), "now": now, "depth": depth}
    return read_candidates(transaction.value(sql, bindings))


def bindings_of(ready_list: ReadyList) -> dict[str, Value]:
    return {"queue": ready_list.queue, "priority": ready_list.priority, "lane": ready_list.lane}


def read_candidates(text: str | None) -> list[Candidate]:
    return CANDIDATES.decode(text) if text else []


def read_chosen(transaction: Transaction, chosen: Sequence[Candidate]) -> list[Job]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT onbeat_live_jobs.record
          FROM json_each(?) AS chosen
          CROSS JOIN onbeat_live_jobs ON onbeat_live_jobs.seq = chosen.value
          ORDER BY onbeat_live_jobs.due_at, onbeat_live_jobs.id
        )
    """
    return read_jobs(transaction.value(sql, (json_array(one.seq for one in chosen),)))
