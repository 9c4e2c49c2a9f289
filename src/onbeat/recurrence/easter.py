"""Easter Sunday of the Gregorian calendar, and the days counted from it."""

from functools import lru_cache

from onbeat.recurrence.year_masks import day_number

EASTERS = ((80, 115), (81, 116))
"""The range of Easter Sunday, 22 March to 25 April, in days from 1 January by leap year or not."""

OFFSET_MIN, OFFSET_MAX = -80, 250
"""Days after Easter Sunday that lie in its year, however early or late it is."""


@lru_cache(maxsize=10_000)
def easter_index(year: int) -> int:
    """Days from 1 January to Easter Sunday: the Sunday after the full moon of the church's tables.

    `moon` is the age of the moon in those tables, by the 19 years after which its phases return on
    the same days, less the leap days that the Gregorian calendar leaves out, and corrected by eight
    days in 2,500 years.
    """
    century, in_century = divmod(year, 100)
    golden = year % 19
    correction = (8 * century + 13) // 25
    moon = (19 * golden + century - century // 4 - correction + 15) % 30
    # The two oldest moons share their day with the ones before, so that no full moon comes late.
    moon -= moon == 29 or (moon == 28 and golden > 10)
    to_sunday = (32 + 2 * (century % 4 + in_century // 4) - moon - in_century % 4) % 7
    day = day_number(year, 3, 22) + moon + to_sunday
    return day - day_number(year, 1, 1)


@lru_cache(maxsize=5_000)
def easter_mask(index: int, offsets: frozenset[int]) -> int:
    """The bits of these days, in a year whose Easter Sunday is `index` days after 1 January."""
    return sum(1 << (index + offset) for offset in offsets)
