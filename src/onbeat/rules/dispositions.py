"""New dispositions beside stored ones: an occurrence never gets a second one.

Dispositions are kept as runs of instants, from a first to a last one, both included. An instant is
covered by the last run that begins at it or earlier, if that run ends at it or later.
"""

from bisect import bisect_right, insort
from operator import itemgetter

from onbeat.model.ids import ScheduleId


class Runs:
    """The stored runs of some schedules, and those that were added since. Instants are integers.

    With `may_overlap` a run is stored whole even if others begin within it; otherwise it ends
    before the next one.
    """

    def __init__(self, *, may_overlap: bool) -> None:
        self._may_overlap = may_overlap
        self._runs: dict[ScheduleId, list[tuple[int, int]]] = {}

    def add_stored(self, id: ScheduleId, first: int, last: int) -> None:
        insort(self._runs.setdefault(id, []), (first, last))

    def take(self, id: ScheduleId, first: int, last: int) -> int | None:
        """The last instant of the run as it is stored; None if its first instant is covered."""
        runs = self._runs.setdefault(id, [])
        place = bisect_right(runs, first, key=itemgetter(0))
        if place > 0 and runs[place - 1][1] >= first:
            return None
        if self._may_overlap:
            runs.insert(place, (first, first))  # others of the same call may begin within it
            return last
        if place < len(runs):
            last = min(last, runs[place][0] - 1)
        runs.insert(place, (first, last))
        return last
