"""Wall-clock rules in a time zone: where gaps and folds are decided, once for every rule.

Within one segment of a zone (a time of unchanging offset) wall clock and instant differ by that
offset. A segment's own occurrences are the walls it shows; those of the gap before it are added,
moved as the rule says, and those it shows a second time are dropped unless the rule wants them.
Looking one segment at a time is exact, whatever the size of the shift, and lists nothing.
"""

from bisect import bisect_right
from typing import NamedTuple

from onbeat.recurrence.masks import DAY_MAX, DAY_MIN
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.walls import Walls
from onbeat.recurrence.zones import REAL_TIME_SHIFT, DstFold, DstGap, Zone

SECOND = 1_000_000
"""Microseconds, the unit of the core."""

INSTANT_MIN = (DAY_MIN + 2) * DAY
INSTANT_MAX = (DAY_MAX + 1) * DAY - 1
"""The last second that `datetime` can say in UTC; the first is near enough to year 1."""

FAR = 2 * DAY
"""More than any zone ever shifted: a wall this far past a change has nothing to do with it."""


class DstRule(NamedTuple):
    """What becomes of walls that do not exist or exist twice.

    `real_time_from` is the size of shift, in seconds, from which both are taken as they come:
    nothing runs in the gap, and the fold runs twice.
    """

    gap: DstGap = "shift"
    fold: DstFold = "first"
    real_time_from: int = 1 << 40

    def gap_of(self, size: int) -> DstGap:
        return self.gap if size < self.real_time_from else "skip"

    def fold_of(self, size: int) -> DstFold:
        return self.fold if size < self.real_time_from else "both"


def cron_rule(gap: DstGap, fold: DstFold) -> DstRule:
    """Fixed times as Debian's cron takes them; "shift" means what it does there, the gap's end."""
    return DstRule("skip" if gap == "skip" else "end", fold, REAL_TIME_SHIFT)


REAL_TIME = DstRule("skip", "both")
"""Every second whose clock fits, as often as it comes."""


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

    def after_us(self, instant: int) -> int | None:
        second = instant // SECOND
        if second < self.first:
            second = self.first - 1
        found = self.after_fast(second)
        return found * SECOND if found is not None and found <= self.last else None

    def after_fast(self, second: int) -> int | None:
        """The next instant; in one step where no gap or fold is near either end."""
        zone = self.zone
        segment = bisect_right(zone.starts, second) - 1
        if zone.calm_from[segment] <= second < zone.calm_until[segment]:
            offset = zone.offsets[segment]
            wall = self.walls.next(second + offset)
            if wall is None:
                return None
            found = wall - offset
            if found < zone.calm_until[segment]:
                return found
            segment = bisect_right(zone.starts, found) - 1
            found = wall - zone.offsets[segment]
            if zone.calm_from[segment] <= found < zone.calm_until[segment]:
                return found
        return self.after_slow(second)

    def after_slow(self, second: int) -> int | None:
        segment: int | None = self.zone.segment(second)
        while segment is not None and self.zone.starts[segment] <= self.last:
            self.see_next(segment)
            start, offset = self.zone.starts[segment], self.zone.offsets[segment]
            low, high = self.natural_walls(segment)
            wall = self.walls.next(max(max(second, start - 1) + offset, low - 1))
            found = [wall - offset] if wall is not None and wall < high else []
            found += self.first_from_gap(segment, second)
            if found:
                return min(found)
            segment = self.segment_after(segment, second, wall)
        return None

    def before_us(self, instant: int) -> int | None:
        second = -(-instant // SECOND)
        if second > self.last:
            second = self.last + 1
        found = self.before_fast(second)
        return found * SECOND if found is not None and found >= self.first else None

    def before_fast(self, second: int) -> int | None:
        zone = self.zone
        segment = bisect_right(zone.starts, second) - 1
        if zone.calm_from[segment] <= second < zone.calm_until[segment]:
            offset = zone.offsets[segment]
            wall = self.walls.previous(second + offset)
            if wall is None:
                return None
            found = wall - offset
            if found >= zone.calm_from[segment]:
                return found
            segment = bisect_right(zone.starts, found) - 1
            found = wall - zone.offsets[segment]
            if zone.calm_from[segment] <= found < zone.calm_until[segment]:
                return found
        return self.before_slow(second)

    def before_slow(self, second: int) -> int | None:
        segment: int | None = self.zone.segment(second - 1)
        while segment is not None and self.zone.starts[segment + 1] > self.first:
            self.see_next(segment)
            end, offset = self.zone.starts[segment + 1], self.zone.offsets[segment]
            low, high = self.natural_walls(segment)
            wall = self.walls.previous(min(min(second, end) + offset, high))
            found = [wall - offset] if wall is not None and wall >= low else []
            found += self.last_from_gap(segment, second)
            if found:
                return max(found)
            segment = self.segment_before(segment, second, wall)
        return None

    def see_next(self, segment: int) -> None:
        """Make sure that the change that ends the segment is in the table."""
        if segment + 2 == len(self.zone.starts):
            self.zone.grow_far()

    def natural_walls(self, segment: int) -> tuple[int, int]:
        """The walls, from and until, that this segment's own clock may give."""
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
        """The first instant after `second` that the gap before the segment gives, if any."""
        start, before, size, gap = self.gap_at(segment)
        if gap == "end" and second < start:
            wall = self.walls.next(start + before - 1)
            return [start] if wall is not None and wall < start + before + size else []
        if gap == "shift":
            wall = self.walls.next(max(second, start - 1) + before)
            return [wall - before] if wall is not None and wall < start + before + size else []
        return []

    def last_from_gap(self, segment: int, second: int) -> list[int]:
        """The last instant before `second` that the gap before the segment gives, if any."""
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
        """The next segment worth a look; `wall` is the first one that this segment passed over."""
        zone = self.zone
        following = segment + 1 if segment + 2 < len(zone.starts) else None
        if following is None or max(second, zone.starts[segment]) >= zone.starts[following] - FAR:
            # So near the change, walls already passed can come again.
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
