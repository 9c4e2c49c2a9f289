"""The days that an RRULE selects: one mask per year, with INTERVAL applied."""

from calendar import isleap
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from onbeat.recurrence import year_masks
from onbeat.recurrence.easter import easter_index, easter_mask
from onbeat.recurrence.year_masks import JAN1, YEAR_MAX, YEAR_MIN

Skip = Literal["OMIT", "BACKWARD", "FORWARD"]


class DayParts(NamedTuple):
    """The BY parts of a rule that select days. An empty set does not restrict.

    `nth_of_month`: whether the n in BYDAY counts in the month or in the year. `easter` are days
    after Easter Sunday.
    """

    months: frozenset[int] = frozenset()
    weeks: frozenset[int] = frozenset()
    year_days: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()
    nth_of_month: bool = True
    week_start: int = 0
    skip: Skip = "OMIT"
    easter: frozenset[int] = frozenset()


@lru_cache(maxsize=20_000)
def kind_mask(parts: DayParts, leap: int, first_weekday: int, months: frozenset[int]) -> int:
    """The days selected in a year of this kind, only in `months` if that is not empty.

    BYWEEKNO and BYEASTER are applied elsewhere: weeks extend into adjacent years, and Easter does
    not depend on the kind of year.
    """
    if parts.skip == "OMIT" or not parts.month_days:
        mask = year_masks.WHOLE_YEAR[leap]
        if months:
            mask &= year_masks.months_mask(leap, months)
        if parts.month_days:
            mask &= year_masks.month_days_mask(leap, parts.month_days)
    else:
        mask = moved_days_mask(parts, leap, months or ALL_MONTHS)
    if parts.year_days:
        mask &= year_masks.year_days_mask(leap, parts.year_days)
    if parts.weekdays or parts.nth_weekdays:
        mask &= by_day_mask(parts, leap, first_weekday)
    return mask


def days_in(parts: DayParts, year: int, months: frozenset[int]) -> int:
    """The days selected in a year, without BYWEEKNO."""
    mask = kind_mask(parts, *year_masks.year_kind(year), months)
    return mask & easter_mask(easter_index(year), parts.easter) if parts.easter else mask


ALL_MONTHS = frozenset(range(1, 13))


def moved_days_mask(parts: DayParts, leap: int, months: frozenset[int]) -> int:
    """BYMONTHDAY with SKIP: a day the month lacks moves to its neighbour, even in another month.

    No day leaves the year, since December and January have 31 days.
    """
    mask = 0
    for month in months:
        start = year_masks.MONTH_STARTS[leap][month - 1]
        length = year_masks.MONTH_LENGTHS[leap][month - 1]
        for day in parts.month_days:
            mask |= 1 << (start + moved_index(day, length, parts.skip))
    return mask


def moved_index(day: int, length: int, skip: Skip) -> int:
    """Days from the first of the month to `day`, moved if the month lacks it."""
    index = day - 1 if day > 0 else length + day
    if index >= length:
        return length if skip == "FORWARD" else length - 1
    if index < 0:
        return 0 if skip == "FORWARD" else -1
    return index


def by_day_mask(parts: DayParts, leap: int, first_weekday: int) -> int:
    mask = year_masks.weekdays_mask(first_weekday, parts.weekdays) if parts.weekdays else 0
    if not parts.nth_weekdays:
        return mask
    if not parts.nth_of_month:
        return mask | year_masks.nth_weekdays_mask(first_weekday, 0, 365 + leap, parts.nth_weekdays)
    for start, length in zip(
        year_masks.MONTH_STARTS[leap], year_masks.MONTH_LENGTHS[leap], strict=False
    ):
        mask |= year_masks.nth_weekdays_mask(first_weekday, start, length, parts.nth_weekdays)
    return mask


class YearlyDays:
    """Days of yearly rules; `first` is the year of DTSTART.

    `moved` is 1 or -1 if a common year's missing day moves to the first day of the next year or to
    the last day of the year before (BYYEARDAY=366 and -366 with SKIP), else 0.
    """

    __slots__ = ("first", "interval", "moved", "origin", "parts")

    def __init__(self, parts: DayParts, interval: int, first: int) -> None:
        self.parts = parts
        self.interval = interval
        self.first = self.origin = first
        self.moved = moved_over_new_year(parts)

    def mask(self, year: int) -> int:
        if self.parts.weeks:
            return self.weeks_mask(year)
        mask = 0 if (year - self.first) % self.interval else self.plain_mask(year)
        if self.moved and YEAR_MIN <= (owner := year - self.moved) <= YEAR_MAX:
            aligned = (owner - self.first) % self.interval == 0
            mask |= self.moved_day(owner) if aligned else 0
        return mask

    def moved_day(self, owner: int) -> int:
        """The day that moves out of the year `owner`, as a bit of the year that it moves to."""
        year = owner + self.moved
        if isleap(owner) or not YEAR_MIN <= year <= YEAR_MAX:
            return 0
        bit = 1 if self.moved > 0 else 1 << (364 + isleap(year))
        # The other parts limit where the day is now.
        rest = self.parts._replace(months=frozenset(), year_days=frozenset())
        return bit & days_in(rest, year, frozenset())

    def weeks_mask(self, year: int) -> int:
        """The days of this calendar year, even in weeks that belong to an adjacent year."""
        weeks = 0
        for owner in (year - 1, year, year + 1):
            if (owner - self.first) % self.interval == 0 and YEAR_MIN <= owner <= YEAR_MAX:
                mask, lead = self.owned_weeks(owner)
                by = JAN1[year - 1] - (JAN1[owner - 1] - lead)
                weeks |= mask >> by if by >= 0 else mask << -by
        return weeks & self.plain_mask(year)

    def owned_weeks(self, year: int) -> tuple[int, int]:
        kind = year_masks.year_kind(year)
        return year_masks.week_numbers_mask(*kind, self.parts.week_start, self.parts.weeks)

    def period_of(self, day: int) -> int:
        return year_masks.year_of(day)

    def period_start(self, period: int) -> int:
        return JAN1[period - 1]

    def period_days(self, period: int) -> tuple[int, int]:
        if not self.parts.weeks:
            return self.whole_year(period)
        owned, lead = self.owned_weeks(period)
        start = JAN1[period - 1] - lead
        return start, owned & span_mask(self.plain_mask, start, 7 + 366 + 7)

    def whole_year(self, period: int) -> tuple[int, int]:
        """The days of the year, and the one that moves out of it."""
        start, mask = JAN1[period - 1], self.plain_mask(period)
        if self.moved > 0 and self.moved_day(period):
            mask |= 1 << 365
        elif self.moved < 0:
            start, mask = start - 1, mask << 1 | bool(self.moved_day(period))
        return start, mask

    def plain_mask(self, year: int) -> int:
        return days_in(self.parts, year, self.parts.months)


def moved_over_new_year(parts: DayParts) -> int:
    """As `YearlyDays.moved`. A missing day is in no week and on no day of a month."""
    if parts.weeks or parts.month_days:
        return 0
    if parts.skip == "FORWARD" and 366 in parts.year_days:
        return int(not parts.months or 12 in parts.months)
    if parts.skip == "BACKWARD" and -366 in parts.year_days:
        return -int(not parts.months or 1 in parts.months)
    return 0


class MonthlyDays:
    """Days of monthly rules; months are numbered 12 * year + month - 1."""

    __slots__ = ("first", "interval", "kept", "origin", "parts")

    def __init__(self, parts: DayParts, interval: int, first: int) -> None:
        self.parts = parts
        self.interval = interval
        self.first = self.origin = first
        self.kept: dict[tuple[int, int, int, int], int] = {}

    def mask(self, year: int) -> int:
        months = self.parts.months
        if self.interval > 1:
            phase = (self.first - 12 * year) % self.interval
            aligned = frozenset(range(phase + 1, 13, self.interval))
            months = aligned & months if months else aligned
            if not months:
                return 0
        return days_in(self.parts, year, months)

    def period_of(self, day: int) -> int:
        year, month, _ = year_masks.month_of(day)
        return 12 * year + month - 1

    def period_start(self, period: int) -> int:
        return year_masks.day_number(period // 12, period % 12 + 1, 1)

    def period_days(self, period: int) -> tuple[int, int]:
        year, month = period // 12, period % 12 + 1
        start = JAN1[year - 1]
        easter = easter_index(year) if self.parts.easter else 0
        kind = (JAN1[year] - start, start % 7, month, easter)
        kept = self.kept.get(kind)
        if kept is None:
            kept = self.kept[kind] = self.month_mask(year, month)
        return start, kept

    def month_mask(self, year: int, month: int) -> int:
        months = self.parts.months
        if months and month not in months:
            return 0
        if self.parts.skip == "OMIT":
            return days_in(self.parts, year, months) & year_masks.month_span(isleap(year), month)
        return days_in(self.parts, year, frozenset({month}))


class WeeklyDays:
    """Days of weekly rules; `first` is the day number on which the first week starts."""

    __slots__ = ("first", "interval", "origin", "parts")

    def __init__(self, parts: DayParts, interval: int, first: int) -> None:
        self.parts = parts
        self.interval = interval
        self.first = first
        self.origin = 0

    def mask(self, year: int) -> int:
        mask = self.plain_mask(year)
        if self.interval > 1:
            stride = 7 * self.interval
            phase = (self.first - JAN1[year - 1]) % stride
            weeks = every(phase, stride) * 0b1111111
            if stride - phase < 7:
                # The week before `phase` extends over 1 January.
                weeks |= 0b1111111 >> (stride - phase)
            mask &= weeks
        return mask

    def plain_mask(self, year: int) -> int:
        return days_in(self.parts, year, self.parts.months)

    def period_of(self, day: int) -> int:
        return (day - self.first) // 7

    def period_start(self, period: int) -> int:
        return self.first + 7 * period

    def period_days(self, period: int) -> tuple[int, int]:
        start = self.first + 7 * period
        return start, span_mask(self.plain_mask, start, 7)


class DailyDays:
    """Days of daily rules and of shorter periods; `first` is the day number of DTSTART."""

    __slots__ = ("first", "interval", "origin", "parts")

    def __init__(self, parts: DayParts, interval: int, first: int) -> None:
        self.parts = parts
        self.interval = interval
        self.first = first
        self.origin = 0

    def mask(self, year: int) -> int:
        mask = days_in(self.parts, year, self.parts.months)
        if self.interval > 1:
            mask &= every((self.first - JAN1[year - 1]) % self.interval, self.interval)
        return mask

    def period_of(self, day: int) -> int:
        return day - self.first

    def period_start(self, period: int) -> int:
        return self.first + period

    def period_days(self, period: int) -> tuple[int, int]:
        day = self.first + period
        year = year_masks.year_of(day)
        mask = days_in(self.parts, year, self.parts.months)
        return day, mask >> (day - JAN1[year - 1]) & 1


RuleDays = YearlyDays | MonthlyDays | WeeklyDays | DailyDays


class RuleYears:
    """The years of a rule: the mask of each, and which ones its periods can extend into."""

    __slots__ = ("days", "reach")

    def __init__(self, days: RuleDays) -> None:
        self.days = days
        # Weeks of a year begin up to three days before it and end up to three days after it.
        self.reach = int(
            bool(days.parts.weeks) or (isinstance(days, YearlyDays) and days.moved != 0)
        )

    def mask(self, year: int) -> int:
        return self.days.mask(year)

    def next_year(self, year: int) -> int:
        """The first year after `year` that can have days."""
        if self.days.interval == 1 or year >= YEAR_MAX:
            return year + 1
        # The period before may extend into the following year.
        period = first_aligned(self.days, self.days.period_of(JAN1[year]) - self.reach)
        return max(period_year(self.days, period) - self.reach, year + 1)

    def previous_year(self, year: int) -> int:
        """The last year before `year` that can have days."""
        if self.days.interval == 1 or year <= YEAR_MIN:
            return year - 1
        period = last_aligned(self.days, self.days.period_of(JAN1[year - 1] - 1) + self.reach)
        return min(period_year(self.days, period + 1, -1) + self.reach, year - 1)


def period_year(days: RuleDays, period: int, shift: int = 0) -> int:
    """The year in which a period starts; with `shift` -1, the year of the day before."""
    if isinstance(days, YearlyDays):
        return period + shift
    if isinstance(days, MonthlyDays):
        return (period + shift) // 12
    day = days.period_start(period) + shift
    return year_masks.year_of(min(max(day, year_masks.DAY_MIN), year_masks.DAY_MAX + 1))


def first_aligned(days: RuleDays, period: int) -> int:
    """The first of the rule's periods from `period` on."""
    return period + (days.origin - period) % days.interval


def last_aligned(days: RuleDays, period: int) -> int:
    """The last of the rule's periods up to `period`."""
    return period - (period - days.origin) % days.interval


def in_range(days: RuleDays, period: int) -> bool:
    """Whether the period lies in the supported years."""
    first, last = days.period_of(year_masks.DAY_MIN), days.period_of(year_masks.DAY_MAX)
    return first < period <= last


@lru_cache(maxsize=5_000)
def every(phase: int, stride: int) -> int:
    """Every `stride`-th bit of a year from `phase`."""
    return sum(1 << bit for bit in range(phase, 366, stride))


def span_mask(year_mask: Callable[[int], int], start: int, length: int) -> int:
    """The bits of `length` days from `start`, which may lie in two or three years."""
    end = min(start + length, year_masks.DAY_MAX + 1)
    mask = 0
    for year in range(
        year_masks.year_of(max(start, year_masks.DAY_MIN)), year_masks.year_of(end - 1) + 1
    ):
        by = JAN1[year - 1] - start
        bits = year_mask(year)
        mask |= bits << by if by >= 0 else bits >> -by
    return mask & ((1 << length) - 1)
