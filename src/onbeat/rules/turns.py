"""Whose turn it is among the groups of a queue that gives out its jobs fairly.

A group that gives out a job goes behind all others of its ring; one that gave out none lately
stands before them. So between two jobs of a group each other one gives out one at most, however
many wait in it, and nobody saves up turns by having nothing to do.

The place of a queue among other queues is that of its oldest due job, as it is without turns; they
decide which of its jobs takes that place.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

KEPT: Final = 10_000
"""After so many turns of a queue the last one of a group is forgotten: it stands in front again."""

One = TypeVar("One")


class Seat(NamedTuple):
    """A group in the ring of its queue and priority; '' is that of jobs without a group."""

    queue: str
    priority: int
    group: str


class Turns:
    """The last turns of groups, as a claim found them, and what it has given out since."""

    __slots__ = ("_last", "given")

    def __init__(self) -> None:
        self._last: dict[Seat, int] = {}
        self.given: dict[Seat, int] = {}
        """Who has given out jobs, in the order of the last ones."""

    def learn(self, seat: Seat, turn: int) -> None:
        self._last[seat] = turn

    def give(self, seat: Seat) -> None:
        """Note that a job of the group starts."""
        self.given.pop(seat, None)
        self.given[seat] = 1 + next(reversed(self.given.values()), 0)

    def of(self, seat: Seat) -> tuple[int, int]:
        """What is less for who is served earlier."""
        return self.given.get(seat, 0), self._last.get(seat, 0)

    def order(self, seats: Sequence[Seat | None]) -> list[int]:
        """In which order to give out jobs that are numbered by their age, all of one priority or
        the urgent ones first. A seat is None where the queue knows no turns.
        """
        rings: dict[tuple[str, int], list[int]] = {}
        for age, seat in enumerate(seats):
            if seat is not None:
                rings.setdefault(seat[:2], []).append(age)
        places = [(age, 0) for age in range(len(seats))]
        for ages in rings.values():
            oldest = len(seats)
            for number, age in reversed([*enumerate(self._in_ring(ages, seats))]):
                oldest = min(oldest, age)
                places[age] = (oldest, number)
        return sorted(range(len(seats)), key=places.__getitem__)

    def sort(
        self,
        jobs: Sequence[One],
        seat_of: Callable[[One], Seat | None],
        room: Callable[[Seat, int], int],
    ) -> list[One]:
        """These jobs, given by age, in the order in which to offer them.

        `room` is how many of so many a group may give out; what is more comes last.
        """
        seats: list[Seat | None] = []
        admitted: list[One] = []
        held: list[One] = []
        counts: Counter[Seat] = Counter()
        for job in jobs:
            seat = seat_of(job)
            if seat is not None:
                counts[seat] += 1
                if room(seat, counts[seat]) < counts[seat]:
                    held.append(job)
                    continue
            seats.append(seat)
            admitted.append(job)
        return [*(admitted[number] for number in self.order(seats)), *held]

    def _in_ring(self, ages: Sequence[int], seats: Sequence[Seat | None]) -> list[int]:
        """One job of each group, in the order of turns, then the second of each, and so on."""
        rounds: Counter[Seat | None] = Counter()
        firsts: dict[Seat | None, int] = {}
        keys: dict[int, tuple[int, tuple[int, int], int]] = {}
        for age in ages:
            seat = seats[age]
            assert seat is not None, "all of a ring have seats"
            rounds[seat] += 1
            keys[age] = (rounds[seat], self.of(seat), firsts.setdefault(seat, age))
        return sorted(ages, key=keys.__getitem__)


def depth(most: int, groups: int, times: int = 4) -> int:
    """Into how many jobs of each of so many groups to look, where `most` can be given out at most.

    So that they fill that up if each has about as many, so many `times` over; where they do not,
    more is looked for of those that have more.
    """
    return most if not groups else min(most, max(2, 1 + times * most // groups))


def is_time_to_forget(newest: int, given: int) -> bool:
    """Now and then: whether so many turns, of which `newest` is the last, passed a round number."""
    each = KEPT // 10
    return newest // each != (newest - given) // each
