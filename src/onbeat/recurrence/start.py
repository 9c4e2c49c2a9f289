"""The start of a rule and its UNTIL, as instants and as wall-clock times."""

from typing import NamedTuple

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.rrule_text import Moment, RuleParts
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.wall_clock import WALL_MAX
from onbeat.recurrence.year_masks import DAY_MIN
from onbeat.recurrence.zoned_rule import INSTANT_MAX, DstRule
from onbeat.recurrence.zones import DstFold, Zone


class Start(NamedTuple):
    """The start of a rule: instant and wall-clock time in seconds.

    `counts` is false for a reference point, which is no occurrence even if it matches the rule.
    """

    instant: int
    wall: int
    zone: Zone
    dst: DstRule
    date_only: bool = False
    counts: bool = True

    @property
    def first(self) -> int:
        """The first instant that may be an occurrence."""
        return self.instant if self.counts else self.instant + 1

    @property
    def low(self) -> int:
        """The first wall second that may be an occurrence."""
        segment = self.zone.segment(self.instant)
        before = self.zone.offsets[max(segment - 1, 0)]
        fold_end = self.zone.starts[segment] + before
        if (
            self.wall < fold_end
            and self.dst.fold == "first"
            and before > self.zone.offsets[segment]
        ):
            # The rule begins in the second pass of a fold, whose wall times all ran in the first.
            return fold_end
        return self.wall if self.counts else self.wall + 1


def start_at(moment: Moment, zone: Zone, dst: DstRule) -> Start:
    """DTSTART as the instant that its own occurrence would have.

    In a gap that is by the offset before it, even if the occurrence itself is skipped, or the end
    of the gap; in a fold it is the pass in which the rule runs.
    """
    fold: DstFold = "last" if dst.fold == "last" else "first"
    instant = zone.instants(moment.wall, "end" if dst.gap == "end" else "shift", fold)[0]
    return Start(instant, moment.wall, zone, dst, moment.form == "date")


def start_anchored(instant: int, zone: Zone, dst: DstRule, *, counts: bool) -> Start:
    wall = instant + zone.offset(instant)
    if not DAY_MIN * DAY <= wall <= WALL_MAX:
        raise BadRecurrence("it would begin outside the years 1 to 9999 of its time zone")
    return Start(instant, wall, zone, dst, counts=counts)


def last_instant(parts: RuleParts, start: Start) -> int:
    """UNTIL as an instant; includes the whole of a date, and both passes of a repeated time."""
    until = parts.until
    if until is None:
        return INSTANT_MAX
    if until.form == "utc":
        return min(until.wall, INSTANT_MAX)
    if until.form == "date":
        next_day = start.zone.instants(until.wall + DAY, "end", "last")[0]
        return min(next_day - 1, INSTANT_MAX)
    return min(start.zone.instants(until.wall, "shift", "last")[0], INSTANT_MAX)
