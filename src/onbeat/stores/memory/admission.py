"""What limited queues, and groups of them, may still give out during one claim."""

from collections.abc import Iterator
from datetime import datetime

from onbeat.model.job import Job
from onbeat.model.queue import NO_LIMITS, Rate
from onbeat.rules.admitting import allowance, metered
from onbeat.rules.turns import Seat
from onbeat.stores.memory.tables import Line, Place, Tables, places_of


class Gate:
    """One place with limits, as the claim found it, and how many have gone through since."""

    def __init__(self, tables: Tables, place: Place, now: datetime) -> None:
        limits = tables.limits[place.queue]
        by_queue = (limits.concurrency, limits.rate)
        by_group = (limits.group_concurrency, limits.group_rate)
        self.rate: Rate | None
        concurrency, self.rate = by_queue if place.group is None else by_group
        self.full_at = tables.meters.get(place)
        self.allowed = allowance(
            concurrency, self.rate, running=tables.running[place], full_at=self.full_at, now=now
        )
        self.taken = 0

    @property
    def is_open(self) -> bool:
        return self.allowed.count is None or self.taken < self.allowed.count


class Admission:
    def __init__(self, tables: Tables, now: datetime) -> None:
        self.tables = tables
        self.now = now
        self.gates: dict[Place, Gate] = {}

    def gates_of(self, line: Line) -> Iterator[Gate]:
        """What a job of this line has to pass; nothing in a queue without limits."""
        if line.queue not in self.tables.limits:
            return
        for place in places_of(line.queue, line.group):
            if place not in self.gates:
                self.gates[place] = Gate(self.tables, place, self.now)
            yield self.gates[place]

    def admits(self, line: Line) -> bool:
        return all(gate.is_open for gate in self.gates_of(line))

    def take(self, job: Job) -> None:
        """Note that the job starts."""
        for gate in self.gates_of(self.tables.line_of(job)):
            gate.taken += 1
        if self.is_fair(job.queue):
            self.tables.put_turn(Seat(job.queue, job.priority, job.group or ""))

    def is_fair(self, queue: str) -> bool:
        return self.tables.limits.get(queue, NO_LIMITS).fair

    def turn(self, line: Line) -> int:
        """When the group gave out its last job: the least is next."""
        seat = Seat(line.queue, line.priority, line.group or "")
        return self.tables.turns.get(line.queue, {}).get(seat, 0)

    def again_at(self, line: Line) -> datetime | None:
        """When a rate lets the line go on; None where it goes on now, or when a job has ended."""
        closed = [gate.allowed.again_at for gate in self.gates_of(line) if not gate.is_open]
        times = [again_at for again_at in closed if again_at is not None]
        return max(times) if times and len(times) == len(closed) else None

    def keep(self) -> None:
        """Store what has been taken out of the buckets."""
        for place, gate in self.gates.items():
            if gate.rate is not None and gate.taken:
                full_at = metered(gate.rate, gate.full_at, self.now, gate.taken)
                self.tables.meters[place] = full_at
