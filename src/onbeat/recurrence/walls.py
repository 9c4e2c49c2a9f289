"""Wall-clock seconds a rule selects, on an axis without zones: the next one, the one before.

A wall second is the seconds from 1970-01-01 00:00 as a clock on the wall shows it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

from onbeat.recurrence.days import RuleDays, RuleYears, aligned_down, in_range
from onbeat.recurrence.masks import (
    DAY_MAX,
    DAY_MIN,
    JAN1,
    YEAR_MAX,
    YEAR_MIN,
    nth_bit,
    year_of,
)
from onbeat.recurrence.tzif import DAY

WALL_MIN, WALL_MAX = (DAY_MIN + 1) * DAY, (DAY_MAX + 1) * DAY - 1
"""The first day of year 1 is left out, so that the second before is still a date."""

MASKS_KEPT = 512
"""Year masks one rule keeps; it is asked about few years at a time."""

PERIODS_KEPT = 64
"""Periods of a BYSETPOS rule that are kept selected."""

PERIODS_MAX = 3_000
"""Periods with days in them that a BYSETPOS search visits: a position that fits at all fits far
sooner, and a rule whose position is beyond what its periods hold is refused in time."""


class YearMasks(Protocol):
    """Days by year, as bits, and the years worth looking at."""

    def mask(self, year: int) -> int: ...
    def next_year(self, year: int) -> int: ...
    def previous_year(self, year: int) -> int: ...


class Walls(Protocol):
    """What every wall-clock rule answers, within `low` and `high`, both inclusive."""

    low: int
    high: int

    def next(self, wall: int) -> int | None:
        """The first selected second after `wall`."""
        ...

    def previous(self, wall: int) -> int | None:
        """The last selected second before `wall`."""
        ...

    def nth(self, n: int) -> int | None:
        """The n-th selected second from `low` on, counted from 1; None when there are fewer."""
        ...


class DayWalls:
    """The same times of day on every selected day."""

    __slots__ = ("barren_from", "days", "high", "last_time", "low", "masks", "times")

    def __init__(self, days: YearMasks, times: Sequence[int], low: int = WALL_MIN) -> None:
        self.days = days
        self.times = times
        self.last_time = times[-1]
        self.low = max(low, WALL_MIN)
        self.high = WALL_MAX
        self.masks: dict[int, int] = {}
        # From this year on a search has found nothing, so that none is made twice.
        self.barren_from = YEAR_MAX + 1

    def next(self, wall: int) -> int | None:
        if wall < self.low:
            wall = self.low - 1
        elif wall >= self.high:
            return None
        day, second = divmod(wall, DAY)
        year = bisect_right(JAN1, day)
        rest = (self.masks.get(year) or self.mask(year)) >> (day - JAN1[year - 1])
        if rest & 1 and second < self.last_time:
            found = wall - second + self.times[bisect_right(self.times, second)]
            return found if found <= self.high else None
        rest >>= 1
        if not rest:
            following = self.year_with_days(year)
            if following is None:
                return None
            day, rest = JAN1[following - 1] - 1, self.mask(following)
        found = (day + (rest & -rest).bit_length()) * DAY + self.times[0]
        return found if found <= self.high else None

    def previous(self, wall: int) -> int | None:
        if wall > self.high:
            wall = self.high + 1
        elif wall <= self.low:
            return None
        day, second = divmod(wall, DAY)
        year = bisect_right(JAN1, day)
        index = day - JAN1[year - 1]
        mask = self.masks.get(year) or self.mask(year)
        if mask >> index & 1 and second > self.times[0]:
            found = wall - second + self.times[bisect_left(self.times, second) - 1]
            return found if found >= self.low else None
        before = mask & ((1 << index) - 1)
        if not before:
            preceding = self.year_with_days_before(year)
            if preceding is None:
                return None
            year, before = preceding, self.mask(preceding)
        found = (JAN1[year - 1] + before.bit_length() - 1) * DAY + self.last_time
        return found if found >= self.low else None

    def mask(self, year: int) -> int:
        kept = self.masks.get(year)
        if kept is not None:
            return kept
        if len(self.masks) >= MASKS_KEPT:
            self.masks.clear()
        mask = self.days.mask(year) if YEAR_MIN <= year <= YEAR_MAX else 0
        self.masks[year] = mask
        return mask

    def year_with_days(self, year: int) -> int | None:
        """The first year after this one with a day selected."""
        at, last = self.days.next_year(year), min(self.barren_from - 1, year_of(self.high // DAY))
        while at <= last:
            if self.mask(at):
                return at
            at = self.days.next_year(at)
        if last == YEAR_MAX:
            self.barren_from = min(self.barren_from, year + 1)
        return None

    def year_with_days_before(self, year: int) -> int | None:
        first = year_of(self.low // DAY)
        year = self.days.previous_year(year)
        while year >= first:
            if self.mask(year):
                return year
            year = self.days.previous_year(year)
        return None

    def nth(self, n: int) -> int | None:
        """By the number of days a year has, never by listing them."""
        return self.nth_from(self.low, n)

    def nth_from(self, wall: int, n: int) -> int | None:
        """The n-th selected second at or after `wall`, counted from 1."""
        day, second = divmod(wall, DAY)
        year: int | None = year_of(day)
        rest = self.mask(year_of(day)) >> (day - JAN1[year_of(day) - 1])
        if rest & 1:
            n += bisect_left(self.times, second)
        size = len(self.times)
        while year is not None:
            count = rest.bit_count() * size
            if n <= count:
                index, time = divmod(n - 1, size)
                return (day + nth_bit(rest, index)) * DAY + self.times[time]
            n -= count
            year = self.year_with_days(year)
            if year is not None:
                day, rest = JAN1[year - 1], self.mask(year)
        return None

    def count(self, low: int, high: int) -> int:
        """How many seconds are selected from `low` until before `high`, whatever the bounds."""
        first, last = year_of(low // DAY), year_of(high // DAY)
        days = sum(self.mask(year).bit_count() for year in range(first, last))
        inner = self.count_in_year(last, high) - self.count_in_year(first, low)
        return days * len(self.times) + inner

    def count_in_year(self, year: int, wall: int) -> int:
        """How many are before `wall` in its year."""
        day, second = divmod(wall, DAY)
        index, mask = day - JAN1[year - 1], self.mask(year)
        whole = (mask & ((1 << index) - 1)).bit_count() * len(self.times)
        return whole + (bisect_left(self.times, second) if mask >> index & 1 else 0)


class PositionWalls:
    """BYSETPOS: of the seconds selected in a whole period, those at these positions.

    `reach` is 1 where a period's days can lie in the periods beside it, else 0.
    """

    __slots__ = ("days", "every", "high", "kept", "low", "positions", "reach", "sizes", "times")

    def __init__(
        self, days: RuleDays, times: Sequence[int], positions: tuple[int, ...], low: int
    ) -> None:
        self.days = days
        self.times = times
        self.positions = positions
        self.low = max(low, WALL_MIN)
        self.high = WALL_MAX
        self.reach = int(bool(days.parts.weeks) or days.parts.skip != "OMIT")
        # All the days, to jump over periods that have none.
        self.every = DayWalls(RuleYears(days), times)
        self.kept: dict[int, tuple[int, ...]] = {}
        self.sizes: dict[int, int] = {}

    def next(self, wall: int) -> int | None:
        if wall >= self.high:
            return None
        wall = max(wall, self.low - 1)
        period = aligned_down(self.days, self.days.period_of(wall // DAY))
        period -= self.reach * self.days.interval
        for _ in range(PERIODS_MAX):
            found = self.first_after(period, wall)
            if found is not None:
                return found if found <= self.high else None
            following = self.period_with_days(period + self.days.interval)
            if following is None:
                return None
            period = following
        return None

    def first_after(self, period: int, wall: int) -> int | None:
        """The first second after `wall` of this period, or of the next where both can mingle."""
        found = [
            values[at]
            for values in self.mingled(period)
            if (at := bisect_right(values, wall)) < len(values)
        ]
        return min(found, default=None)

    def previous(self, wall: int) -> int | None:
        if wall <= self.low:
            return None
        wall = min(wall, self.high + 1)
        period = aligned_down(self.days, self.days.period_of(min(wall, WALL_MAX) // DAY))
        period += self.reach * self.days.interval
        for _ in range(PERIODS_MAX):
            found = self.last_before(period, wall)
            if found is not None:
                return found if found >= self.low else None
            preceding = self.period_with_days_before(period)
            if preceding is None:
                return None
            period = preceding
        return None

    def last_before(self, period: int, wall: int) -> int | None:
        found = [
            values[at - 1]
            for values in self.mingled(period - self.reach * self.days.interval)
            if (at := bisect_left(values, wall))
        ]
        return max(found, default=None)

    def mingled(self, period: int) -> list[tuple[int, ...]]:
        if not self.reach:
            return [self.selected(period)]
        return [self.selected(period), self.selected(period + self.days.interval)]

    def selected(self, period: int) -> tuple[int, ...]:
        kept = self.kept.get(period)
        if kept is not None:
            return kept
        if len(self.kept) >= PERIODS_KEPT:
            self.kept.clear()
        start, mask = self.days.period_days(period) if in_range(self.days, period) else (0, 0)
        size = len(self.times)
        total = mask.bit_count() * size
        values = tuple(
            (start + nth_bit(mask, index // size)) * DAY + self.times[index % size]
            for index in self.indexes(total)
        )
        self.kept[period] = values
        return values

    def period_with_days(self, period: int) -> int | None:
        """The first of the rule's periods from `period` on that can have days."""
        if not in_range(self.days, period):
            return None
        start = self.days.period_start(period) * DAY
        if self.reach:
            return period if start - DAY * 7 <= self.high else None
        second = self.every.next(start - 1)
        if second is None or second > self.high:
            return None
        return self.days.period_of(second // DAY)

    def period_with_days_before(self, period: int) -> int | None:
        if not in_range(self.days, period):
            return None
        start = self.days.period_start(period) * DAY
        if start + DAY * 7 * self.reach <= self.low:
            return None
        if self.reach:
            return period - self.days.interval
        second = self.every.previous(start)
        return None if second is None else self.days.period_of(second // DAY)

    def nth(self, n: int) -> int | None:
        """Whole periods by how many of their days are selected, never by listing them."""
        if self.reach:
            return self.nth_by_walking(n)
        begin = aligned_down(self.days, self.days.period_of(self.low // DAY))
        n += bisect_left(self.selected(begin), self.low)
        period: int | None = begin
        size, last = len(self.times), self.days.period_of(DAY_MAX)
        while period is not None and period <= last:
            _, mask = self.days.period_days(period)
            hits = self.hits(mask.bit_count() * size)
            if n <= hits:
                return self.selected(period)[n - 1]
            n -= hits
            period += self.days.interval
            if not mask:
                period = self.period_with_days(period)
        return None

    def hits(self, total: int) -> int:
        """How many of the positions there are among so many seconds."""
        kept = self.sizes.get(total)
        if kept is None:
            kept = self.sizes[total] = len(self.indexes(total))
        return kept

    def indexes(self, total: int) -> list[int]:
        found = {at - 1 if at > 0 else total + at for at in self.positions if abs(at) <= total}
        return sorted(found)

    def nth_by_walking(self, n: int) -> int | None:
        """For the rare rules whose periods mingle, one occurrence can be in two of them."""
        found = self.next(self.low - 1)
        while found is not None and n > 1:
            n -= 1
            found = self.next(found)
        return found
