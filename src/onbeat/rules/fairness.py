"""Fair order among the groups of a queue: round robin.

A group that gives out a job moves behind all other groups of its ring; a group without a recent
turn stands before them. Between two jobs of one group, each other group thus gives out one at most,
however many wait in it, and an idle group saves up no turns.

A queue's place among other queues is that of its oldest due job, as without turns; turns decide
which of its jobs takes that place.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

KEPT: Final = 10_000
"""After this many turns of a queue, the last turn of a group is forgotten, and it goes first."""

One = TypeVar("One")


class GroupKey(NamedTuple):
    """A group in the ring of its queue and priority; '' is the group of jobs without one."""

    queue: str
    priority: int
    group: str


class FairOrder:
    """The last turns of groups as a claim found them, and the turns that it has given since."""

    __slots__ = ("_last", "given")

    def __init__(self) -> None:
        self._last: dict[GroupKey, int] = {}
        self.given: dict[GroupKey, int] = {}
        """The groups that have given out jobs, in the order of their last ones."""

    def learn(self, group_key: GroupKey, turn: int) -> None:
        self._last[group_key] = turn

    def give(self, group_key: GroupKey) -> None:
        """Note that a job of the group starts."""
        self.given.pop(group_key, None)
        self.given[group_key] = 1 + next(reversed(self.given.values()), 0)

    def of(self, group_key: GroupKey) -> tuple[int, int]:
        """A sort key: the smaller one is served first."""
        return self.given.get(group_key, 0), self._last.get(group_key, 0)

    def order_of(self, group_keys: Sequence[GroupKey | None]) -> list[int]:
        """The order in which to give out jobs, numbered by age within descending urgency.

        A key is None if its queue has no turns.
        """
        rings: dict[tuple[str, int], list[int]] = {}
        for age, group_key in enumerate(group_keys):
            if group_key is not None:
                rings.setdefault(group_key[:2], []).append(age)
        places = [(age, 0) for age in range(len(group_keys))]
        for ages in rings.values():
            oldest = len(group_keys)
            for number, age in reversed([*enumerate(self._round_robin(ages, group_keys))]):
                oldest = min(oldest, age)
                places[age] = (oldest, number)
        return sorted(range(len(group_keys)), key=places.__getitem__)

    def sort(
        self,
        jobs: Sequence[One],
        seat_of: Callable[[One], GroupKey | None],
        room: Callable[[GroupKey, int], int],
    ) -> list[One]:
        """The jobs, given by age, in the order in which to offer them.

        `room` is how many of a number of jobs a group may give out; the excess comes last.
        """
        group_keys: list[GroupKey | None] = []
        admitted: list[One] = []
        held: list[One] = []
        counts: Counter[GroupKey] = Counter()
        for job in jobs:
            group_key = seat_of(job)
            if group_key is not None:
                counts[group_key] += 1
                if room(group_key, counts[group_key]) < counts[group_key]:
                    held.append(job)
                    continue
            group_keys.append(group_key)
            admitted.append(job)
        return [*(admitted[number] for number in self.order_of(group_keys)), *held]

    def _round_robin(self, ages: Sequence[int], group_keys: Sequence[GroupKey | None]) -> list[int]:
        """The first job of each group in the order of turns, then the second of each, and so on."""
        rounds: Counter[GroupKey | None] = Counter()
        firsts: dict[GroupKey | None, int] = {}
        keys: dict[int, tuple[int, tuple[int, int], int]] = {}
        for age in ages:
            group_key = group_keys[age]
            assert group_key is not None, "all of a ring have seats"
            rounds[group_key] += 1
            keys[age] = (rounds[group_key], self.of(group_key), firsts.setdefault(group_key, age))
        return sorted(ages, key=keys.__getitem__)


def depth(most: int, groups: int, times: int = 4) -> int:
    """How many jobs to read from each of `groups` groups to give out `most` in all.

    If all groups have about as many jobs, this reads `times` times as many as needed; otherwise the
    caller reads more from the larger groups.
    """
    return most if not groups else min(most, max(2, 1 + times * most // groups))


def should_prune_turns(newest: int, given: int) -> bool:
    """Whether these `given` turns, up to `newest`, passed a round number."""
    each = KEPT // 10
    return newest // each != (newest - given) // each
