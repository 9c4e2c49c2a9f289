"""Concurrency and rate limits: how many jobs a queue or group may start now.

A rate limit is a token bucket of `count` starts that is refilled evenly over `span`. Only the
instant at which it will be full again is stored (the generic cell rate algorithm, ITU-T I.371). At
most count + count * T / span jobs start in any time T.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.queue import Limits, Rate
from onbeat.rules.fairness import FairOrder, GroupKey

MICROSECOND = timedelta(microseconds=1)


class Allowance(msgspec.Struct, frozen=True):
    """How many may start now (None: any number); if a rate makes it 0, `again_at` is its end."""

    count: int | None
    again_at: datetime | None = None


UNLIMITED = Allowance(None)


def allowance(
    concurrency: int | None,
    rate: Rate | None,
    *,
    running: int,
    full_at: datetime | None,
    now: datetime,
) -> Allowance:
    """How many may start beside `running` jobs; the bucket is full at `full_at` (None: now).

    `again_at` is when the rate allows another start after those of `count`; None if that takes the
    end of a running job.
    """
    free = None if concurrency is None else max(0, concurrency - running)
    if rate is None:
        return Allowance(free)
    missing = micros(max(timedelta(), (full_at or now) - now))
    span = micros(rate.span)
    started = max(0, (span - missing) * rate.count // span)
    if free is not None and free <= started:
        return Allowance(free)
    return Allowance(started, full_again_at(rate, full_at, now, started + 1) - rate.span)


def full_again_at(rate: Rate, full_at: datetime | None, now: datetime, started: int) -> datetime:
    """When the bucket will be full again after `started` starts."""
    wait = -(-micros(rate.span) * started // rate.count)
    return max(full_at or now, now) + timedelta(microseconds=wait)


def micros(span: timedelta) -> int:
    return span // MICROSECOND


LimitKey = tuple[str, str]
"""The scope of a count: a queue (with the group ''), or one of its groups."""


class Claimable(Protocol):
    """The properties of a due job that limits use."""

    @property
    def id(self) -> JobId: ...

    @property
    def queue(self) -> str: ...

    @property
    def group(self) -> str | None: ...


Candidate = TypeVar("Candidate", bound=Claimable)


class Gate:
    """One queue or group with limits as a claim found it, and how many were admitted since."""

    __slots__ = ("allowed", "full_at", "rate", "taken")

    def __init__(self, allowed: Allowance, rate: Rate | None, full_at: datetime | None) -> None:
        self.allowed = allowed
        self.rate = rate
        self.full_at = full_at
        self.taken = 0

    def remaining(self, most: int) -> int:
        """How many more may be admitted, at most `most`."""
        count = self.allowed.count
        return most if count is None else min(most, count - self.taken)


class Admission:
    """What one claim may start in queues with limits, and what it has started.

    `running` are the counts of running jobs; `full_at` is when the buckets that are not full will
    be. Each entry is read once, when its queue or group is first used; the caller may add entries
    until then.
    """

    def __init__(
        self,
        limits: Mapping[str, Limits],
        running: Mapping[LimitKey, int],
        full_at: Mapping[LimitKey, datetime],
        now: datetime,
    ) -> None:
        self.limits = limits
        self.turns = FairOrder()
        self.again_at: datetime | None = None
        """The first time at which a job may start that only a rate limit holds back."""
        self._running = running
        self._full_at = full_at
        self._now = now
        self._gates: dict[LimitKey, Gate] = {}
        self._paths: dict[tuple[str, str | None], tuple[Gate, ...]] = {}

    def room(self, queue: str, group: str | None, most: int) -> int:
        """How many more jobs of this group may start, at most `most`."""
        return min((gate.remaining(most) for gate in self._path(queue, group)), default=most)

    def group_room(self, queue: str, group: str | None, most: int) -> int:
        """Like `room`, but ignores the limits of the queue as a whole."""
        return min((gate.remaining(most) for gate in self._path(queue, group)[1:]), default=most)

    def admits(self, queue: str, group: str | None = None) -> bool:
        """Whether one more may start."""
        return all(gate.remaining(1) > 0 for gate in self._path(queue, group))

    def is_open(self, queue: str, group: str | None = None) -> bool:
        """Like `admits`; if false, also notes when a rate allows one more start."""
        if self.admits(queue, group):
            return True
        if (at := self.reopens_at(queue, group)) is not None:
            self.look_again(at)
        return False

    def reopens_at(self, queue: str, group: str | None = None) -> datetime | None:
        """When a rate allows one more start; None if it does now, or a running job must end."""
        closed = [gate for gate in self._path(queue, group) if gate.remaining(1) <= 0]
        times = [at for gate in closed if (at := gate.allowed.again_at) is not None]
        return max(times) if times and len(times) == len(closed) else None

    def look_again(self, at: datetime) -> None:
        self.again_at = at if self.again_at is None else min(self.again_at, at)

    def seat(self, queue: str, priority: int, group: str | None) -> GroupKey | None:
        """The group's key in its ring; None if the queue has no turns."""
        limits = self.limits.get(queue)
        return None if limits is None or not limits.fair else GroupKey(queue, priority, group or "")

    def choose(self, candidates: Sequence[Candidate], priority: int, most: int) -> list[Candidate]:
        """The first candidates that may all start, counted as if they had.

        They have one priority and are given by age; the groups of a fair queue take turns.
        """
        chosen: list[Candidate] = []
        for one in self._in_order(candidates, priority):
            if len(chosen) == most:
                break
            if self.is_open(one.queue, one.group):
                self.take(one.queue, one.group)
                chosen.append(one)
        return chosen

    def confirm(
        self, chosen: Iterable[Candidate], priority: int, started: Container[JobId]
    ) -> list[Candidate]:
        """Note which of the chosen jobs have started. Returns those that have not."""
        left: list[Candidate] = []
        for one in chosen:
            if one.id not in started:
                self.take(one.queue, one.group, -1)
                left.append(one)
            elif (group_key := self.seat(one.queue, priority, one.group)) is not None:
                self.turns.give(group_key)
        return left

    def take(self, queue: str, group: str | None, count: int = 1) -> None:
        """Count jobs that start."""
        for gate in self._path(queue, group):
            gate.taken += count

    def drawn_buckets(self) -> list[tuple[str, str, datetime]]:
        """The buckets that were used, and when each will be full again."""
        return [
            (*key, full_again_at(gate.rate, gate.full_at, self._now, gate.taken))
            for key, gate in sorted(self._gates.items())
            if gate.rate is not None and gate.taken
        ]

    def _in_order(self, candidates: Sequence[Candidate], priority: int) -> Sequence[Candidate]:
        if not any(limits.fair for limits in self.limits.values()):
            return candidates
        return self.turns.sort(
            candidates,
            lambda one: self.seat(one.queue, priority, one.group),
            lambda group_key, most: self.group_room(group_key.queue, group_key.group or None, most),
        )

    def _path(self, queue: str, group: str | None) -> tuple[Gate, ...]:
        """The limits that apply to a job, its queue first; none in a queue without limits."""
        path = self._paths.get((queue, group))
        if path is None:
            path = self._paths[queue, group] = tuple(self._gates_of(queue, group))
        return path

    def _gates_of(self, queue: str, group: str | None) -> Iterator[Gate]:
        limits = self.limits.get(queue)
        if limits is None:
            return
        yield self._gate((queue, ""), limits.concurrency, limits.rate)
        if group is not None and limits.by_group:
            yield self._gate((queue, group), limits.group_concurrency, limits.group_rate)

    def _gate(self, key: LimitKey, concurrency: int | None, rate: Rate | None) -> Gate:
        gate = self._gates.get(key)
        if gate is None:
            full_at = self._full_at.get(key)
            running = self._running.get(key, 0)
            allowed = allowance(concurrency, rate, running=running, full_at=full_at, now=self._now)
            gate = self._gates[key] = Gate(allowed, rate, full_at)
        return gate
