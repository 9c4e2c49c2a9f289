"""The wall-clock seconds that a rule selects, without time zones: the next and the previous one.

A wall second is the seconds from 1970-01-01 00:00 as a wall clock shows it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.day_masks import RuleDays, RuleYears, in_range, last_aligned
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.year_masks import (
    DAY_MAX,
    DAY_MIN,
    JAN1,
    YEAR_MAX,
    YEAR_MIN,
    nth_bit,
    year_of,
)

WALL_MIN, WALL_MAX = (DAY_MIN + 1) * DAY, (DAY_MAX + 1) * DAY - 1
"""The first day of year 1 is excluded, so that the second before is still a date."""

MASKS_KEPT = 512
"""Cached year masks of one rule; queries concern few years at a time."""

PERIODS_KEPT = 64
"""Cached periods of a BYSETPOS rule."""

VALUES_KEPT = 2_000
"""Cached seconds of all these periods together."""

POSITIONS_A_STEP = 16
"""Positions that are found in the time of one search of a plain rule."""

PERIODS_MAX = 3_000
"""Non-empty periods that a BYSETPOS search visits. A position that exists at all is found far
sooner, and a rule whose position exceeds its periods is refused in time.
"""


class YearMasks(Protocol):
    """Days by year, as bits, and the years that may have days."""

    def mask(self, year: int) -> int: ...
    def next_year(self, year: int) -> int: ...
    def previous_year(self, year: int) -> int: ...


class Walls(Protocol):
    """The interface of wall-clock rules, within `low` and `high`, both inclusive."""

    low: int
    high: int
    times: Sequence[int]

    def next(self, wall: int, budget: Budget | None = None, /) -> int | None:
        """The first selected second after `wall`."""
        ...

    def previous(self, wall: int, budget: Budget | None = None, /) -> int | None:
        """The last selected second before `wall`."""
        ...

    def nth(self, n: int, budget: Budget, /) -> int | None:
        """The n-th selected second from `low` on, counted from 1; None if there are fewer."""
        ...


def chosen_indexes(positions: tuple[int, ...], total: int) -> list[int]:
    """The positions that exist among `total` values, as indexes in order."""
    return sorted({at - 1 if at > 0 else total + at for at in positions if abs(at) <= total})


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
        # A search from this year on has found nothing; it is not repeated.
        self.barren_from = YEAR_MAX + 1

    def next(self, wall: int, budget: Budget | None = None, /) -> int | None:
        if wall < self.low:
            wall = self.low - 1
        elif wall >= self.high:
            return None
        day, second = divmod(wall, DAY)
        year = bisect_right(JAN1, day)
        rest = (self.masks.get(year) or self.mask(year)) >> (day - JAN1[year - 1])
        if rest & 1 and second < self.last_time:
            candidate = wall - second + self.times[bisect_right(self.times, second)]
            return candidate if candidate <= self.high else None
        rest >>= 1
        if not rest:
            following = self.year_with_days(year, budget)
            if following is None:
                return None
            day, rest = JAN1[following - 1] - 1, self.mask(following)
        candidate = (day + (rest & -rest).bit_length()) * DAY + self.times[0]
        return candidate if candidate <= self.high else None

    def previous(self, wall: int, budget: Budget | None = None, /) -> int | None:
        if wall > self.high:
            wall = self.high + 1
        elif wall <= self.low:
            return None
        day, second = divmod(wall, DAY)
        year = bisect_right(JAN1, day)
        index = day - JAN1[year - 1]
        mask = self.masks.get(year) or self.mask(year)
        if mask >> index & 1 and second > self.times[0]:
            candidate = wall - second + self.times[bisect_left(self.times, second) - 1]
            return candidate if candidate >= self.low else None
        before = mask & ((1 << index) - 1)
        if not before:
            preceding = self.year_with_days_before(year, budget)
            if preceding is None:
                return None
            year, before = preceding, self.mask(preceding)
        candidate = (JAN1[year - 1] + before.bit_length() - 1) * DAY + self.last_time
        return candidate if candidate >= self.low else None

    def mask(self, year: int) -> int:
        kept = self.masks.get(year)
        if kept is not None:
            return kept
        if len(self.masks) >= MASKS_KEPT:
            self.masks.clear()
        mask = self.days.mask(year) if YEAR_MIN <= year <= YEAR_MAX else 0
        self.masks[year] = mask
        return mask

    def year_with_days(self, year: int, budget: Budget | None = None) -> int | None:
        """The first year after this one with a selected day."""
        at, last = self.days.next_year(year), min(self.barren_from - 1, year_of(self.high // DAY))
        while at <= last:
            if self.mask(at):
                return at
            if budget is not None:
                budget.spend()
            at = self.days.next_year(at)
        if last == YEAR_MAX:
            self.barren_from = min(self.barren_from, year + 1)
        return None

    def year_with_days_before(self, year: int, budget: Budget | None = None) -> int | None:
        first = year_of(self.low // DAY)
        year = self.days.previous_year(year)
        while year >= first:
            if self.mask(year):
                return year
            if budget is not None:
                budget.spend()
            year = self.days.previous_year(year)
        return None

    def nth(self, n: int, budget: Budget, /) -> int | None:
        """Counts the days of each year without listing them."""
        return self.nth_from(self.low, n, budget)

    def nth_from(self, wall: int, n: int, budget: Budget) -> int | None:
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
            budget.spend()
            year = self.year_with_days(year, budget)
            if year is not None:
                day, rest = JAN1[year - 1], self.mask(year)
        return None

    def count(self, low: int, high: int) -> int:
        """How many seconds are selected from `low` until before `high`; ignores its own bounds."""
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
    """BYSETPOS: selects by position among the selected seconds of a whole period.

    `reach` is 1 if a period's days can lie in adjacent periods, else 0.
    """

    __slots__ = (
        "cost",
        "days",
        "every",
        "high",
        "kept",
        "low",
        "periods_kept",
        "positions",
        "reach",
        "sizes",
        "times",
    )

    def __init__(
        self, days: RuleDays, times: Sequence[int], positions: tuple[int, ...], low: int
    ) -> None:
        self.days = days
        self.times = times
        self.positions = positions
        self.cost = 1 + len(positions) // POSITIONS_A_STEP
        self.periods_kept = max(2, min(PERIODS_KEPT, VALUES_KEPT // len(positions)))
        self.low = max(low, WALL_MIN)
        self.high = WALL_MAX
        self.reach = int(bool(days.parts.weeks) or days.parts.skip != "OMIT")
        # All the days, to jump over periods that have none.
        self.every = DayWalls(RuleYears(days), times)
        self.kept: dict[int, tuple[int, ...]] = {}
        self.sizes: dict[int, int] = {}

    def next(self, wall: int, budget: Budget | None = None, /) -> int | None:
        if wall >= self.high:
            return None
        wall = max(wall, self.low - 1)
        period = last_aligned(self.days, self.days.period_of(wall // DAY))
        period -= self.reach * self.days.interval
        for _ in range(PERIODS_MAX):
            if budget is not None:
                budget.spend(self.cost)
            candidate = self.first_after(period, wall)
            if candidate is not None:
                return candidate if candidate <= self.high else None
            following = self.period_with_days(period + self.days.interval, budget)
            if following is None:
                return None
            period = following
        return None

    def first_after(self, period: int, wall: int) -> int | None:
        """The first second after `wall` in this period, or in the next if they can interleave."""
        candidates = [
            values[at]
            for values in self.overlapping_periods(period)
            if (at := bisect_right(values, wall)) < len(values)
        ]
        return min(candidates, default=None)

    def previous(self, wall: int, budget: Budget | None = None, /) -> int | None:
        if wall <= self.low:
            return None
        wall = min(wall, self.high + 1)
        period = last_aligned(self.days, self.days.period_of(min(wall, WALL_MAX) // DAY))
        period += self.reach * self.days.interval
        for _ in range(PERIODS_MAX):
            if budget is not None:
                budget.spend(self.cost)
            candidate = self.last_before(period, wall)
            if candidate is not None:
                return candidate if candidate >= self.low else None
            preceding = self.period_with_days_before(period, budget)
            if preceding is None:
                return None
            period = preceding
        return None

    def last_before(self, period: int, wall: int) -> int | None:
        candidates = [
            values[at - 1]
            for values in self.overlapping_periods(period - self.reach * self.days.interval)
            if (at := bisect_left(values, wall))
        ]
        return max(candidates, default=None)

    def overlapping_periods(self, period: int) -> list[tuple[int, ...]]:
        if not self.reach:
            return [self.select(period)]
        return [self.select(period), self.select(period + self.days.interval)]

    def select(self, period: int) -> tuple[int, ...]:
        kept = self.kept.get(period)
        if kept is not None:
            return kept
        if len(self.kept) >= self.periods_kept:
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

    def period_with_days(self, period: int, budget: Budget | None = None) -> int | None:
        """The first of the rule's periods from `period` on that can have days."""
        if not in_range(self.days, period):
            return None
        start = self.days.period_start(period) * DAY
        if self.reach:
            return period if start - DAY * 7 <= self.high else None
        second = self.every.next(start - 1, budget)
        if second is None or second > self.high:
            return None
        return self.days.period_of(second // DAY)

    def period_with_days_before(self, period: int, budget: Budget | None = None) -> int | None:
        if not in_range(self.days, period):
            return None
        start = self.days.period_start(period) * DAY
        if start + DAY * 7 * self.reach <= self.low:
            return None
        if self.reach:
            return period - self.days.interval
        second = self.every.previous(start, budget)
        return None if second is None else self.days.period_of(second // DAY)

    def nth(self, n: int, budget: Budget, /) -> int | None:
        """Counts the selected days of whole periods without listing them."""
        if self.reach:
            return self.nth_by_walking(n, budget)
        begin = last_aligned(self.days, self.days.period_of(self.low // DAY))
        n += bisect_left(self.select(begin), self.low)
        period: int | None = begin
        size, last = len(self.times), self.days.period_of(DAY_MAX)
        barren = 0
        while period is not None and period <= last and barren < PERIODS_MAX:
            _, mask = self.days.period_days(period)
            hits = self.hits(mask.bit_count() * size)
            if n <= hits:
                return self.select(period)[n - 1]
            n -= hits
            barren = 0 if hits else barren + 1
            budget.spend()
            period += self.days.interval
            if not mask:
                period = self.period_with_days(period, budget)
        return None

    def hits(self, total: int) -> int:
        """How many of the positions exist among `total` seconds."""
        kept = self.sizes.get(total)
        if kept is None:
            kept = self.sizes[total] = len(self.indexes(total))
        return kept

    def indexes(self, total: int) -> list[int]:
        return chosen_indexes(self.positions, total)

    def nth_by_walking(self, n: int, budget: Budget) -> int | None:
        """For the rare rules whose periods interleave: an occurrence can belong to two periods."""
        candidate = self.next(self.low - 1, budget)
        while candidate is not None and n > 1:
            n -= 1
            candidate = self.next(candidate, budget)
        return candidate
