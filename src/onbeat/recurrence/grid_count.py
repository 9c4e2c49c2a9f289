"""Counting the occurrences of a sub-daily rule with limits, without visiting them.

Between two clock changes the grid is an arithmetic progression, and the allowed times repeat every
minute, hour or day. How many terms of a progression leave a remainder within a window is a
difference of two sums of quotients, each found as fast as a greatest common divisor.
"""

from collections.abc import Iterator
from typing import NamedTuple

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.elapsed_rule import ClockLimit, ClockLimits, ElapsedGrid, runs
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.wall_clock import DayWalls
from onbeat.recurrence.year_masks import JAN1, year_of
from onbeat.recurrence.zoned_rule import SECOND

STEPS_A_WINDOW = 4
"""Searches of a plain rule that take as long as counting one progression in one window."""

WALKED_MAX = 1_000
"""Occurrences that are visited rather than counted."""

SECONDS_A_STEP = 8
"""Seconds of a day that can be listed in the time of one search of a plain rule."""


def nth_on_grid(grid: ElapsedGrid, n: int, budget: Budget) -> int | None:
    """The n-th occurrence from `grid.first` on, in seconds, from 1; None if there are fewer."""
    if grid.limit is None and not grid.slots.minutes and not grid.slots.seconds:
        skipped = -(-(grid.first - grid.base - grid.slots.own) // grid.step)
        candidate = grid.base + grid.slots.own + (skipped + n - 1) * grid.step
        return candidate if candidate <= grid.last else None
    if grid.limit is not None and grid.limit.days is not None and DAY % grid.step == 0:
        return nth_by_days(grid, grid.limit, n, budget)
    return nth_by_walk(grid, n, budget) if n <= WALKED_MAX else nth_by_windows(grid, n, budget)


def nth_by_walk(grid: ElapsedGrid, n: int, budget: Budget) -> int | None:
    """Visits them: a few rare ones are found sooner than all the windows are counted."""
    at = grid.after_us(grid.first * SECOND - 1, budget)
    while at is not None and n > 1:
        n -= 1
        budget.spend()
        at = grid.after_us(at, budget)
    return None if at is None else at // SECOND


def nth_by_days(grid: ElapsedGrid, limit: ClockLimit, n: int, budget: Budget) -> int | None:
    """If every day has the same times, count the days of each year."""
    by_offset: dict[int, DayWalls | None] = {}
    for begin, end, offset in segments(grid, budget):
        if offset not in by_offset:
            budget.spend(DAY // grid.step // SECONDS_A_STEP)
            by_offset[offset] = day_walls(grid, limit, offset)
        walls = by_offset[offset]
        if walls is not None:
            walls.high = end + offset - 1
            candidate = walls.nth_from(begin + offset, n, budget)
            if candidate is not None and candidate <= walls.high:
                return candidate - offset
            n -= walls.count(begin + offset, end + offset)
    return None


def day_walls(grid: ElapsedGrid, limit: ClockLimit, offset: int) -> DayWalls | None:
    """The wall-clock times of the allowed grid points, while the zone has this offset."""
    assert limit.days is not None
    listed = sorted(
        second
        for slot in grid.slots_in(offset)
        for second in range((grid.base + slot + offset) % grid.step, DAY, grid.step)
    )
    times = [second for second in listed if limit.time_allowed(second)]
    return DayWalls(limit.days.days, times) if times else None


class Windows(NamedTuple):
    """Allowed seconds of a dial of `size` seconds, as starts and ends; a size of 1 allows all."""

    size: int
    spans: tuple[tuple[int, int], ...]

    def hits(self, begin: int, step: int, terms: int) -> int:
        """How many of `begin`, `begin + step`, … are allowed."""
        return sum(
            quotients(terms, self.size, step, begin - low)
            - quotients(terms, self.size, step, begin - high)
            for low, high in self.spans
        )


def quotients(terms: int, divisor: int, step: int, begin: int) -> int:
    """The sum of `(begin + k * step) // divisor` for k from 0 to `terms - 1`.

    It is the number of grid points under a line. Whole multiples are taken off, then the picture is
    turned on its side, which swaps `step` and `divisor` as in Euclid's algorithm.
    """
    total = 0
    while terms > 0:
        total += step // divisor * (terms * (terms - 1) // 2) + begin // divisor * terms
        step, begin = step % divisor, begin % divisor
        # The highest point under the line; those below it are counted from the other side.
        terms, begin = divmod(step * terms + begin, divisor)
        step, divisor = divisor, step
    return total


def windows_of(limits: ClockLimits) -> Windows:
    """The allowed times of day, on the smallest dial on which they repeat."""
    hours, minutes, seconds = limits
    if limits.hours is None and limits.minutes is None and limits.seconds is None:
        return Windows(1, ((0, 1),))
    spans = spread(EVERY_SECOND, 1, seconds, 60)
    if minutes is None and hours is None:
        return Windows(60, spans)
    spans = spread(spans, 60, minutes, 60)
    return Windows(3600, spans) if hours is None else Windows(DAY, spread(spans, 3600, hours, 24))


Spans = tuple[tuple[int, int], ...]
EVERY_SECOND: Spans = ((0, 1),)


def spread(spans: Spans, size: int, bits: int | None, count: int) -> Spans:
    """The spans of a dial of `size`, on each of `count` dials whose bit is set; None is all."""
    joined: list[tuple[int, int]] = []
    for at in range(count):
        if bits is None or bits >> at & 1:
            for low, high in spans:
                begin = at * size + low
                if joined and joined[-1][1] == begin:
                    begin = joined.pop()[0]
                joined.append((begin, at * size + high))
    return tuple(joined)


class GridCounter:
    """Counts a rule's occurrences between two walls, while the zone has one offset."""

    def __init__(self, starts: tuple[int, ...], step: int, windows: Windows) -> None:
        self.starts = starts
        self.step = step
        self.windows = windows
        self.cost = len(starts) * len(windows.spans) * STEPS_A_WINDOW

    def count(self, begin: int, end: int) -> int:
        """From `begin` until before `end`."""
        total = 0
        for start in self.starts:
            first = -((start - begin) // self.step)
            terms = -((start - end) // self.step) - first
            if terms > 0:
                total += self.windows.hits(start + first * self.step, self.step, terms)
        return total

    def nth(self, begin: int, end: int, n: int, budget: Budget) -> int:
        """The n-th one, from 1, by halving; there must be as many."""
        low = begin
        while begin < end:
            budget.spend(self.cost)
            middle = (begin + end) // 2
            if self.count(low, middle + 1) >= n:
                end = middle
            else:
                begin = middle + 1
        return begin


def nth_by_windows(grid: ElapsedGrid, n: int, budget: Budget) -> int | None:
    """Counts progressions in windows of the clock, over stretches of allowed days."""
    limit = grid.limit
    windows = windows_of(limit.clock if limit else ClockLimits())
    budget.spend(len(windows.spans) // STEPS_A_WINDOW)
    for begin, end, offset in segments(grid, budget):
        starts = tuple(grid.base + offset + slot for slot in grid.slots_in(offset))
        counter = GridCounter(starts, grid.step, windows)
        for low, high in allowed_days(limit.days if limit else None, begin + offset, end + offset):
            budget.spend(counter.cost)
            count = counter.count(low, high)
            if n <= count:
                return counter.nth(low, high, n, budget) - offset
            n -= count
    return None


def segments(grid: ElapsedGrid, budget: Budget) -> Iterator[tuple[int, int, int]]:
    """The stretches of a constant offset within the grid's bounds: start, end and offset."""
    zone, at = grid.zone, grid.first
    while at <= grid.last:
        budget.spend()
        segment = zone.segment(at)
        if segment + 2 == len(zone.starts):
            # The table may end here only because it has not grown yet.
            zone.grow_far()
        end = min(zone.starts[segment + 1], grid.last + 1)
        yield at, end, zone.offsets[segment]
        at = end


def allowed_days(days: DayWalls | None, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a span of walls that lie on allowed days, each as long as possible in a year."""
    if days is None:
        yield begin, end
        return
    for year in range(year_of(begin // DAY), year_of((end - 1) // DAY) + 1):
        first = JAN1[year - 1]
        for low, high in runs(days.mask(year), 1):
            low_wall, high_wall = max((first + low) * DAY, begin), min((first + high) * DAY, end)
            if low_wall < high_wall:
                yield low_wall, high_wall
