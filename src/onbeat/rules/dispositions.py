"""New dispositions beside stored ones: an occurrence never gets a second one.

Dispositions are kept as runs of instants, from a first to a last one, both included. No two runs of
a schedule overlap: where a clock was set back, jobs may lie within the time that a pause skips.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from operator import itemgetter

from onbeat.model.ids import ScheduleId

Run = tuple[int, int]


class Runs:
    """The stored runs of some schedules, and those that were added since. Instants are integers."""

    def __init__(self) -> None:
        self._runs: dict[ScheduleId, list[Run]] = {}

    def add_stored(self, id: ScheduleId, first: int, last: int) -> None:
        insort(self._runs.setdefault(id, []), (first, last))

    def take(self, id: ScheduleId, first: int, last: int) -> Sequence[Run]:
        """Add the parts of a run that no other covers, and return them."""
        runs = self._runs.setdefault(id, [])
        parts = uncovered(runs, first, last)
        for part in parts:
            insort(runs, part)
        return parts


def uncovered(runs: Sequence[Run], first: int, last: int) -> Sequence[Run]:
    """What these runs, which are in order, leave of the time from `first` to `last`."""
    place = bisect_right(runs, first, key=itemgetter(0))
    if place:
        first = max(first, runs[place - 1][1] + 1)
    parts: list[Run] = []
    while place < len(runs) and runs[place][0] <= last:
        begin, end = runs[place]
        if begin > first:
            parts.append((first, begin - 1))
        first = max(first, end + 1)
        place += 1
    if first <= last:
        parts.append((first, last))
    return parts
