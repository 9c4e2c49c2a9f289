"""Days of a year as bits of an integer: bit i is the day i days after 1 January.

There are 14 kinds of year (leap or not, seven weekdays for 1 January), so the days of a rule are
computed at most 14 times. Weekdays count from Monday = 0.
"""

import calendar
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

from onbeat.recurrence.tzif import jan1

YEAR_MIN, YEAR_MAX = 1, 9999
"""The range of `datetime`."""

JAN1 = tuple(
    accumulate(
        (365 + calendar.isleap(year) for year in range(YEAR_MIN, YEAR_MAX + 1)),
        initial=jan1(YEAR_MIN),
    )
)
"""Day number of 1 January by year - 1; one more entry ends the last year."""

DAY_MIN, DAY_MAX = JAN1[0], JAN1[-1] - 1

MONTH_LENGTHS = tuple(
    tuple(28 + leap if month == 2 else 30 + (month + month // 8) % 2 for month in range(1, 13))
    for leap in (0, 1)
)
MONTH_STARTS = tuple(tuple(accumulate(lengths, initial=0)) for lengths in MONTH_LENGTHS)
"""Day of the year on which each month begins, by leap and month - 1; entry 12 ends December."""

WHOLE_YEAR = ((1 << 365) - 1, (1 << 366) - 1)


def year_of(day: int) -> int:
    """The year of a day number."""
    return bisect_right(JAN1, day)


def year_kind(year: int) -> tuple[int, int]:
    """Whether the year is leap, and the weekday of its first day."""
    return int(calendar.isleap(year)), (JAN1[year - 1] + 3) % 7


def weekday_of(day: int) -> int:
    return (day + 3) % 7


def month_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day number."""
    year = bisect_right(JAN1, day)
    starts = MONTH_STARTS[JAN1[year] - JAN1[year - 1] - 365]
    month = bisect_right(starts, day - JAN1[year - 1])
    return year, month, day - JAN1[year - 1] - starts[month - 1] + 1


def day_number(year: int, month: int, day: int) -> int:
    leap = JAN1[year] - JAN1[year - 1] - 365
    return JAN1[year - 1] + MONTH_STARTS[leap][month - 1] + day - 1


def month_span(leap: int, month: int) -> int:
    """The bits of one month."""
    return ((1 << MONTH_LENGTHS[leap][month - 1]) - 1) << MONTH_STARTS[leap][month - 1]


@lru_cache(maxsize=1000)
def months_mask(leap: int, months: frozenset[int]) -> int:
    return sum(month_span(leap, month) for month in months)


@lru_cache(maxsize=1000)
def weekdays_mask(first_weekday: int, weekdays: frozenset[int]) -> int:
    """Every day of the year on these weekdays; extends past the end, so the caller must cut it."""
    week = sum(1 << ((weekday - first_weekday) % 7) for weekday in weekdays)
    return week * EVERY_SEVENTH


EVERY_SEVENTH = sum(1 << day for day in range(0, 371, 7))


@lru_cache(maxsize=1000)
def month_days_mask(leap: int, days: frozenset[int]) -> int:
    """Days of every month; negative ones count from its end. Omits days that a month lacks."""
    mask = 0
    for start, length in zip(MONTH_STARTS[leap], MONTH_LENGTHS[leap], strict=False):
        for day in days:
            index = day - 1 if day > 0 else length + day
            if 0 <= index < length:
                mask |= 1 << (start + index)
    return mask


def year_days_mask(leap: int, days: Iterable[int]) -> int:
    length = 365 + leap
    indexes = (day - 1 if day > 0 else length + day for day in days)
    return sum(1 << index for index in set(indexes) if 0 <= index < length)


def nth_weekdays_mask(
    first_weekday: int, start: int, length: int, nth: Iterable[tuple[int, int]]
) -> int:
    """The n-th weekdays of the span of `length` days from `start`; n < 0 counts from its end."""
    mask = 0
    for n, weekday in nth:
        to_first = (weekday - first_weekday - start) % 7
        count = (length - to_first + 6) // 7
        index = n - 1 if n > 0 else count + n
        if 0 <= index < count:
            mask |= 1 << (start + to_first + 7 * index)
    return mask


def week_numbers_mask(
    leap: int, first_weekday: int, week_start: int, weeks: frozenset[int]
) -> tuple[int, int]:
    """The days of these weeks of the year, and how many days of them precede 1 January.

    Bit 0 is the day that many days before 1 January, so that weeks across either end of the year
    are complete. Week 1 is the first with at least four days in the year.
    """
    into_week = (first_weekday - week_start) % 7
    first = -into_week if into_week <= 3 else 7 - into_week
    days_left = 365 + leap - first
    count = days_left // 7 + (days_left % 7 >= 4)
    lead = 7
    mask = 0
    for week in weeks:
        index = week - 1 if week > 0 else count + week
        if 0 <= index < count:
            mask |= 0b1111111 << (lead + first + 7 * index)
    return mask, lead


def nth_bit(mask: int, n: int) -> int:
    """Index of the n-th set bit, from 0, by halving the width each time."""
    at, width = 0, 256
    while width:
        low = mask & ((1 << width) - 1)
        count = low.bit_count()
        if n >= count:
            n -= count
            mask >>= width
            at += width
        else:
            mask = low
        width //= 2
    return at
