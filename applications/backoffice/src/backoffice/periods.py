"""Periods of bills: half-open spans of calendar months and years in a named zone, kept in UTC.

A period ends where the next one begins. Its bounds are the first instants of local days, also
where the clock skips midnight.
"""

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

MONTHS: Final = {"MONTHLY": 1, "ANNUAL": 12}
"""How many months a period of a cycle has."""


@dataclass(frozen=True)
class Period:
    """From `begin`, before `end`, both in UTC.

    `name` is such as 2026-10 for a calendar month and 2026 for a year. A period of an anniversary
    is named by its first local day and the day of the month of its anchor, as 2026-02-28@31.
    """

    begin: datetime
    end: datetime
    name: str

    @property
    def date(self) -> str:
        """The first local day, such as 2026-10-01."""
        return (self.name + "-01-01")[:10]


def month_before(at: datetime, zone: str) -> Period:
    """The last calendar month of the zone that has ended at `at`."""
    today = at.astimezone(ZoneInfo(zone)).date()
    return month_from(moved(today.replace(day=1), -1, 1), zone)


def year_before(at: datetime, zone: str) -> Period:
    """The last calendar year of the zone that has ended at `at`."""
    today = at.astimezone(ZoneInfo(zone)).date()
    return year_from(date(today.year - 1, 1, 1), zone)


def period_ending(at: datetime, anchor_day: int, zone: str) -> Period:
    """The last month by anniversary that has ended at `at`.

    It ends on `anchor_day`, 1 to 31, of a month, or on the last day of a shorter month.
    """
    today = at.astimezone(ZoneInfo(zone)).date()
    end = moved(today.replace(day=1), 0, anchor_day)
    if instant(end, zone) > at:
        end = moved(end, -1, anchor_day)
    return anniversary(moved(end, -1, anchor_day), anchor_day, 1, zone)


def year_ending(at: datetime, month: int, anchor_day: int, zone: str) -> Period:
    """The last year by anniversary that has ended at `at`; of Feb 29 also on Feb 28."""
    today = at.astimezone(ZoneInfo(zone)).date()
    end = moved(date(today.year, month, 1), 0, anchor_day)
    if instant(end, zone) > at:
        end = moved(end, -12, anchor_day)
    return anniversary(moved(end, -12, anchor_day), anchor_day, 12, zone)


def anchor_day(end: date, *known: int) -> int:
    """The day of the month that periods end on, of which `end` is one end.

    A period that should end on the 31st ends on the last day of a shorter month. So the last day of
    a month may stand for a later one, if `known` has one.
    """
    is_last = end.day == monthrange(end.year, end.month)[1]
    return max(end.day, *known) if is_last and known else end.day


def parse(name: str, cycle: str, zone: str) -> Period:
    """The period of that name; `cycle` is MONTHLY or ANNUAL.

    The minute of a debug run, such as 2026-11-01-00:05, names the month before it. Raises
    `ValueError` for other names.
    """
    if cycle not in MONTHS:
        raise ValueError(f"a cycle is {' or '.join(MONTHS)}, not {cycle!r}")
    try:
        return named(name, MONTHS[cycle], zone)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{name!r} names no {cycle} period: give YYYY-MM, YYYY or YYYY-MM-DD@DAY"
        ) from error


def named(name: str, months: int, zone: str) -> Period:
    first, _, anchor_day = name.partition("@")
    if anchor_day:
        begin = date.fromisoformat(first)
        result = anniversary(moved(begin, 0, int(anchor_day)), int(anchor_day), months, zone)
    elif months == MONTHS["ANNUAL"]:
        result = year_from(date(int(name), 1, 1), zone)
    elif len(name) == len("2026-10"):
        result = month_from(date.fromisoformat(f"{name}-01"), zone)
    else:
        minute = datetime.strptime(name, "%Y-%m-%d-%H:%M").replace(tzinfo=ZoneInfo(zone))
        return month_before(minute, zone)
    if result.name != name:
        raise ValueError(f"it would be {result.name}")
    return result


def month_from(begin: date, zone: str) -> Period:
    end = moved(begin, 1, 1)
    return Period(instant(begin, zone), instant(end, zone), begin.isoformat()[:7])


def year_from(begin: date, zone: str) -> Period:
    end = moved(begin, 12, 1)
    return Period(instant(begin, zone), instant(end, zone), begin.isoformat()[:4])


def anniversary(begin: date, anchor_day: int, months: int, zone: str) -> Period:
    end = moved(begin, months, anchor_day)
    return Period(instant(begin, zone), instant(end, zone), f"{begin}@{anchor_day:02}")


def moved(day: date, months: int, anchor_day: int) -> date:
    """That day of the month so many months later, or the month's last day before it."""
    if not 1 <= anchor_day <= 31:
        raise ValueError(f"a day of the month is from 1 to 31, not {anchor_day}")
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(anchor_day, monthrange(year, month + 1)[1]))


def instant(day: date, zone: str) -> datetime:
    """When the local day begins. A midnight that is skipped stands for the instant after it."""
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
