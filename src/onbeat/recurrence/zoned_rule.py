"""Wall-clock rules in a time zone: the handling of gaps and folds for every rule.

In a segment of a zone (a time of constant offset) wall clock and instant differ by that offset. A
segment's own occurrences are the wall times that it shows. Those in the gap before it are added,
moved as the rule says. Those that it shows a second time are dropped unless the rule wants them.
Searching one segment at a time is exact for shifts of any size, and builds no list.
"""

from bisect import bisect_right
from typing import NamedTuple

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.wall_clock import Walls
from onbeat.recurrence.year_masks import DAY_MAX, DAY_MIN
from onbeat.recurrence.zones import REAL_TIME_SHIFT, DstFold, DstGap, Zone

SECOND = 1_000_000
"""Microseconds, the unit of the core."""

INSTANT_MIN = (DAY_MIN + 2) * DAY
INSTANT_MAX = (DAY_MAX + 1) * DAY - 1
"""The last second that `datetime` can express in UTC; the first is near enough to year 1."""

FAR = 2 * DAY
"""More than any zone ever shifted: wall times this far past a change are unaffected by it."""


class DstRule(NamedTuple):
    """The handling of wall times that do not exist or exist twice.

    `real_time_from` is the size of shift, in seconds, from which the clock is followed as it is:
    nothing runs in the gap, and times in the fold run twice.
    """

    gap: DstGap = "shift"
    fold: DstFold = "first"
    real_time_from: int = 1 << 40

    def gap_of(self, size: int) -> DstGap:
        return self.gap if size < self.real_time_from else "skip"

    def fold_of(self, size: int) -> DstFold:
        return self.fold if size < self.real_time_from else "both"


def cron_rule(gap: DstGap, fold: DstFold) -> DstRule:
    """Fixed times as in Debian's cron; there "shift" means the gap's end."""
    return DstRule("skip" if gap == "skip" else "end", fold, REAL_TIME_SHIFT)


REAL_TIME = DstRule("skip", "both")
"""Every matching second of the clock, as often as it comes."""


class ZonedWalls:
    """A wall-clock rule in a zone, between two instants in seconds, both inclusive."""

    __slots__ = ("first", "last", "rule", "walls", "zone")

    def __init__(
        self,
        walls: Walls,
        zone: Zone,
        rule: DstRule,
        first: int = INSTANT_MIN,
        last: int = INSTANT_MAX,
    ) -> None:
        self.walls = walls
        self.zone = zone
        self.rule = rule
        self.first = max(first, INSTANT_MIN)
        self.last = min(last, INSTANT_MAX)

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        second = instant // SECOND
        if second < self.first:
            second = self.first - 1
        candidate = self.after_fast(second, budget)
        return candidate * SECOND if candidate is not None and candidate <= self.last else None

    def after_fast(self, second: int, budget: Budget | None) -> int | None:
        """The next instant; in one step if no gap or fold is near either end."""
        zone = self.zone
        segment = bisect_right(zone.starts, second) - 1
        if zone.calm_from[segment] <= second < zone.calm_until[segment]:
            offset = zone.offsets[segment]
            wall = self.walls.next(second + offset, budget)
            if wall is None:
                return None
            candidate = wall - offset
            if candidate < zone.calm_until[segment]:
                return candidate
            segment = bisect_right(zone.starts, candidate) - 1
            candidate = wall - zone.offsets[segment]
            if zone.calm_from[segment] <= candidate < zone.calm_until[segment]:
                return candidate
        return self.after_slow(second, budget)

    def after_slow(self, second: int, budget: Budget | None) -> int | None:
        segment: int | None = self.zone.segment(second)
        while segment is not None and self.zone.starts[segment] <= self.last:
            if budget is not None:
                budget.spend()
            self.see_next(segment)
            start, offset = self.zone.starts[segment], self.zone.offsets[segment]
            low, high = self.natural_walls(segment)
            wall = self.walls.next(max(max(second, start - 1) + offset, low - 1), budget)
            candidates = [wall - offset] if wall is not None and wall < high else []
            candidates += self.first_from_gap(segment, second)
            if candidates:
                return min(candidates)
            segment = self.segment_after(segment, second, wall)
        return None

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        second = -(-instant // SECOND)
        if second > self.last:
            second = self.last + 1
        candidate = self.before_fast(second, budget)
        return candidate * SECOND if candidate is not None and candidate >= self.first else None

    def before_fast(self, second: int, budget: Budget | None) -> int | None:
        zone = self.zone
        segment = bisect_right(zone.starts, second) - 1
        if zone.calm_from[segment] <= second < zone.calm_until[segment]:
            offset = zone.offsets[segment]
            wall = self.walls.previous(second + offset, budget)
            if wall is None:
                return None
            candidate = wall - offset
            if candidate >= zone.calm_from[segment]:
                return candidate
            segment = bisect_right(zone.starts, candidate) - 1
            candidate = wall - zone.offsets[segment]
            if zone.calm_from[segment] <= candidate < zone.calm_until[segment]:
                return candidate
        return self.before_slow(second, budget)

    def before_slow(self, second: int, budget: Budget | None) -> int | None:
        segment: int | None = self.zone.segment(second - 1)
        while segment is not None and self.zone.starts[segment + 1] > self.first:
            if budget is not None:
                budget.spend()
            self.see_next(segment)
            end, offset = self.zone.starts[segment + 1], self.zone.offsets[segment]
            low, high = self.natural_walls(segment)
            wall = self.walls.previous(min(min(second, end) + offset, high), budget)
            candidates = [wall - offset] if wall is not None and wall >= low else []
            candidates += self.last_from_gap(segment, second)
            if candidates:
                return max(candidates)
            segment = self.segment_before(segment, second, wall)
        return None

    def see_next(self, segment: int) -> None:
        """Ensure that the table contains the change that ends the segment."""
        if segment + 2 == len(self.zone.starts):
            self.zone.grow_far()

    def natural_walls(self, segment: int) -> tuple[int, int]:
        """The wall times, start and end, that belong to this segment's own clock."""
        zone = self.zone
        offset = zone.offsets[segment]
        low, high = zone.starts[segment] + offset, zone.starts[segment + 1] + offset
        before = zone.offsets[segment - 1] if segment else offset
        if before > offset and self.rule.fold_of(before - offset) == "first":
            low += before - offset
        after = zone.offsets[segment + 1]
        if after < offset and self.rule.fold_of(offset - after) == "last":
            high -= offset - after
        return low, high

    def first_from_gap(self, segment: int, second: int) -> list[int]:
        """The first instant after `second` from the gap before the segment, if any."""
        start, before, size, gap = self.gap_at(segment)
        if gap == "end" and second < start:
            wall = self.walls.next(start + before - 1)
            return [start] if wall is not None and wall < start + before + size else []
        if gap == "shift":
            wall = self.walls.next(max(second, start - 1) + before)
            return [wall - before] if wall is not None and wall < start + before + size else []
        return []

    def last_from_gap(self, segment: int, second: int) -> list[int]:
        """The last instant before `second` from the gap before the segment, if any."""
        start, before, size, gap = self.gap_at(segment)
        if gap == "skip" or second <= start:
            return []
        last = start + size if gap == "end" else min(second, start + size)
        wall = self.walls.previous(last + before)
        if wall is None or wall < start + before:
            return []
        return [start if gap == "end" else wall - before]

    def gap_at(self, segment: int) -> tuple[int, int, int, DstGap]:
        """Start of the segment, the offset before it, and size and rule of the gap there."""
        start, offset = self.zone.starts[segment], self.zone.offsets[segment]
        before = self.zone.offsets[segment - 1] if segment else offset
        if before >= offset:
            return start, before, 0, "skip"
        return start, before, offset - before, self.rule.gap_of(offset - before)

    def segment_after(self, segment: int, second: int, wall: int | None) -> int | None:
        """The next segment to search; `wall` is the first wall second that this segment skipped."""
        zone = self.zone
        following = segment + 1 if segment + 2 < len(zone.starts) else None
        if following is None or max(second, zone.starts[segment]) >= zone.starts[following] - FAR:
            # This close to the change, wall times already passed can come again.
            return following
        if wall is None:
            return None
        return max(following, zone.segment(wall - zone.offsets[segment] - FAR))

    def segment_before(self, segment: int, second: int, wall: int | None) -> int | None:
        zone = self.zone
        if segment == 0 or min(second, zone.starts[segment + 1]) <= zone.starts[segment] + FAR:
            return segment - 1 if segment else None
        if wall is None:
            return None
        return min(segment - 1, zone.segment(wall - zone.offsets[segment] + FAR))
