"""Rules of hours, minutes and seconds: a grid of exact elapsed time, limited by the wall clock.

The grid is the instant of DTSTART and every INTERVAL periods from there. BY parts longer than the
period test the wall clock at the grid point; shorter ones, and BYSETPOS, choose seconds inside the
period.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.tzif import BEGINNING, DAY
from onbeat.recurrence.wall_clock import DayWalls
from onbeat.recurrence.year_masks import JAN1, year_of
from onbeat.recurrence.zoned_rule import INSTANT_MAX, INSTANT_MIN, SECOND
from onbeat.recurrence.zones import END, Zone

STEPS_MAX = 10_000
"""Jumps of one search before it fails, about 40 ms. Each lands in an allowed time of day or on an
allowed day, so a rule that needs more has days and times that never coincide.
"""


UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
"""Seconds in a period of each frequency that this engine is for."""


class ClockLimits(NamedTuple):
    """Allowed hours, minutes and seconds, as bits; None allows all."""

    hours: int | None = None
    minutes: int | None = None
    seconds: int | None = None


class Slots(NamedTuple):
    """The seconds chosen inside each period, before BYSETPOS.

    Without BYMINUTE and BYSECOND that is the one second of DTSTART, even if the offset changes;
    with them, the seconds at which the wall clock shows their values.
    """

    unit: int
    own: int
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    def most(self) -> int:
        """At least as many as there are in any period."""
        chosen = max(len(self.minutes), 1) * max(len(self.seconds), 1)
        return min(chosen, len(self.positions)) if self.positions else chosen

    def at_shift(self, shift: int) -> tuple[int, ...]:
        """Seconds from the start of the period, if the clock is `shift` ahead of DTSTART's."""
        if not self.minutes and not self.seconds:
            return self.pick_positions([self.own])
        seconds = self.seconds or (self.own % 60,)
        if self.minutes:
            candidates = [(m * 60 + s - shift) % self.unit for m in self.minutes for s in seconds]
        else:
            candidates = [self.own // 60 * 60 + (s - shift) % 60 for s in seconds]
        return self.pick_positions(sorted(set(candidates)))

    def pick_positions(self, candidates: list[int]) -> tuple[int, ...]:
        if not self.positions:
            return tuple(candidates)
        size = len(candidates)
        indexes = {at - 1 if at > 0 else size + at for at in self.positions if abs(at) <= size}
        return tuple(candidates[index] for index in sorted(indexes))


class ClockLimit:
    """Whether day, hour, minute and second of the wall clock are allowed, and when next.

    `days` has one time a day, the first that is allowed.
    """

    __slots__ = ("clock", "days", "hours", "minutes", "seconds")

    def __init__(self, days: DayWalls | None, limits: ClockLimits) -> None:
        self.days = days
        self.clock = limits
        self.hours, self.minutes, self.seconds = limits

    def next(self, wall: int, budget: Budget | None) -> int | None:
        """`wall` itself if allowed, else the first wall second after it that might be."""
        day, second = divmod(wall, DAY)
        if self.days is not None and not self.day_allowed(self.days, day):
            return self.days.next(wall, budget)
        hour = second // 3600
        if self.hours is not None and not self.hours >> hour & 1:
            return day * DAY + next_bit(self.hours, hour, 24) * 3600
        minute = second // 60 % 60
        if self.minutes is not None and not self.minutes >> minute & 1:
            return wall - second % 3600 + next_bit(self.minutes, minute, 60) * 60
        if self.seconds is not None and not self.seconds >> second % 60 & 1:
            return wall - second % 60 + next_bit(self.seconds, second % 60, 60)
        return wall

    def previous(self, wall: int, budget: Budget | None) -> int | None:
        """`wall` itself if allowed, else the last wall second before it that might be."""
        day, second = divmod(wall, DAY)
        if self.days is not None and not self.day_allowed(self.days, day):
            earlier = self.days.previous(wall, budget)
            return None if earlier is None else earlier - earlier % DAY + DAY - 1
        hour = second // 3600
        if self.hours is not None and not self.hours >> hour & 1:
            return day * DAY + (previous_bit(self.hours, hour) + 1) * 3600 - 1
        minute = second // 60 % 60
        if self.minutes is not None and not self.minutes >> minute & 1:
            return wall - second % 3600 + (previous_bit(self.minutes, minute) + 1) * 60 - 1
        if self.seconds is not None and not self.seconds >> second % 60 & 1:
            return wall - second % 60 + previous_bit(self.seconds, second % 60)
        return wall

    def steps(self, wall: int, step: int) -> int | None:
        """Steps from `wall` until an allowed time of day; None if that never comes.

        Steps may jump over the allowed hours for years, so this is computed, not tried. 0 if the
        time of day is allowed, or if steps are too short to jump over any.
        """
        second = wall % DAY
        if self.hours is not None and not self.hours >> second // 3600 & 1:
            return rounds(second, step, DAY, self.hours, 3600) if abs(step) > 3600 else 0
        if self.minutes is not None and not self.minutes >> second // 60 % 60 & 1:
            return rounds(second % 3600, step, 3600, self.minutes, 60) if abs(step) > 60 else 0
        if self.seconds is not None and not self.seconds >> second % 60 & 1:
            return rounds(second % 60, step, 60, self.seconds, 1)
        return 0

    def time_allowed(self, second: int) -> bool:
        fields = ((self.hours, second // 3600), (self.minutes, second // 60 % 60))
        return all(
            bits is None or bits >> at & 1 for bits, at in (*fields, (self.seconds, second % 60))
        )

    def day_allowed(self, days: DayWalls, day: int) -> int:
        year = year_of(day)
        return days.mask(year) >> (day - JAN1[year - 1]) & 1


def rounds(at: int, step: int, size: int, bits: int, width: int) -> int | None:
    """The fewest steps from `at`, around a dial of `size`, to a set bit; each is `width` wide."""
    candidates = [
        first_multiple(step % size, size, (low - at) % size, (high - 1 - at) % size)
        for low, high in runs(bits, width)
    ]
    return min((count for count in candidates if count is not None), default=None)


def runs(bits: int, width: int) -> list[tuple[int, int]]:
    """The runs of adjacent set bits, as start and end, each bit `width` wide."""
    candidates: list[tuple[int, int]] = []
    at = 0
    while bits >> at:
        low = at + ((bits >> at) & -(bits >> at)).bit_length() - 1
        gap = ~(bits >> low)
        at = low + (gap & -gap).bit_length() - 1
        candidates.append((low * width, at * width))
    return candidates


def first_multiple(step: int, size: int, low: int, high: int) -> int | None:
    """The smallest k >= 0 with low <= k * step % size <= high, by halving as in Euclid's algorithm.

    `low` > `high` is a range across the end of the dial, which contains 0.
    """
    if low == 0 or low > high:
        return 0
    if step == 0:
        return None
    if 2 * step > size:
        return first_multiple(size - step, size, size - high, size - low)
    count = -(-low // step)
    if count * step <= high:
        return count
    # No multiple in the first round: find the round that has one by a smaller problem.
    turn = first_multiple(-size % step, step, low % step, high % step)
    return None if turn is None else -(-(low + turn * size) // step)


def next_bit(bits: int, at: int, size: int) -> int:
    """The lowest bit above `at`; `size`, the start of the next round, if there is none."""
    later = bits >> at
    return at + (later & -later).bit_length() - 1 if later else size


def previous_bit(bits: int, at: int) -> int:
    """The highest bit below `at`; -1, the end of the round before, if there is none."""
    return (bits & ((1 << at) - 1)).bit_length() - 1


class ElapsedGrid:
    """A sub-daily rule, between two instants in seconds, both inclusive."""

    __slots__ = (
        "anchor_offset",
        "base",
        "first",
        "last",
        "limit",
        "shifts",
        "slots",
        "step",
        "zone",
    )

    def __init__(
        self, start: int, interval: int, slots: Slots, limit: ClockLimit | None, zone: Zone
    ) -> None:
        self.zone = zone
        self.anchor_offset = zone.offset(start)
        self.base = start - (start + self.anchor_offset) % slots.unit
        self.step = interval * slots.unit
        self.slots = slots
        self.limit = limit
        self.first = max(start, INSTANT_MIN)
        self.last = INSTANT_MAX
        self.shifts: dict[int, tuple[int, ...]] = {}

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        at = max(instant // SECOND + 1, self.first)
        for step in range(STEPS_MAX):
            if step and budget is not None:
                budget.spend()
            if at > self.last:
                return None
            segment = self.zone.segment(at)
            end, offset = self.zone.starts[segment + 1], self.zone.offsets[segment]
            candidate = self.grid_from(at, self.slots_in(offset))
            if candidate >= end:
                at = self.across(candidate, end)
                continue
            at = self.next_allowed(candidate, offset, end, budget)
            if at == candidate:
                return candidate * SECOND if candidate <= self.last else None
        return None

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        at = min(-(-instant // SECOND) - 1, self.last)
        for step in range(STEPS_MAX):
            if step and budget is not None:
                budget.spend()
            if at < self.first:
                return None
            segment = self.zone.segment(at)
            start, offset = self.zone.starts[segment], self.zone.offsets[segment]
            candidate = self.grid_until(at, self.slots_in(offset))
            if candidate < start:
                at = self.across(candidate, start - 1)
                continue
            at = self.previous_allowed(candidate, offset, start, budget)
            if at == candidate:
                return candidate * SECOND if candidate >= self.first else None
        return None

    def grid_from(self, at: int, slots: tuple[int, ...]) -> int:
        """The first grid point at or after `at`."""
        period, within = divmod(at - self.base, self.step)
        index = bisect_left(slots, within)
        if index == len(slots):
            period, index = period + 1, 0
        return self.base + period * self.step + slots[index]

    def grid_until(self, at: int, slots: tuple[int, ...]) -> int:
        """The last grid point at or before `at`."""
        period, within = divmod(at - self.base, self.step)
        index = bisect_right(slots, within) - 1
        return self.base + (period if index >= 0 else period - 1) * self.step + slots[index]

    def next_allowed(self, candidate: int, offset: int, end: int, budget: Budget | None) -> int:
        """`candidate` itself if allowed, else where to continue, at most `end` of the segment."""
        if self.limit is None:
            return candidate
        wall = self.limit.next(candidate + offset, budget)
        if wall is None:
            return END
        ahead = self.steps_over(candidate + offset, self.step)
        return end if ahead is None else min(max(wall - offset, candidate + ahead * self.step), end)

    def previous_allowed(
        self, candidate: int, offset: int, start: int, budget: Budget | None
    ) -> int:
        """`candidate` itself if allowed, else where to continue, at least just before `start`."""
        if self.limit is None:
            return candidate
        wall = self.limit.previous(candidate + offset, budget)
        if wall is None:
            return BEGINNING
        back = self.steps_over(candidate + offset, -self.step)
        if back is None:
            return start - 1
        return max(min(wall - offset, candidate - back * self.step), start - 1)

    def steps_over(self, wall: int, step: int) -> int | None:
        """Steps that can be skipped since the clock does not allow them; None for all."""
        one_a_period = len(self.slots_in(self.anchor_offset)) == 1
        return self.limit.steps(wall, step) if self.limit and one_a_period else 0

    def across(self, candidate: int, edge: int) -> int:
        """Where to continue when the next grid point lies beyond an offset change."""
        return edge if self.slots.minutes or self.slots.seconds else candidate

    def slots_in(self, offset: int) -> tuple[int, ...]:
        shift = (offset - self.anchor_offset) % self.slots.unit
        candidate = self.shifts.get(shift)
        if candidate is None:
            candidate = self.shifts[shift] = self.slots.at_shift(shift)
        return candidate
