"""Functions that create recurrences in Python."""

import importlib
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import cast
from zoneinfo import ZoneInfo

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.aws_text import read_any_cron
from onbeat.recurrence.choices import has_days
from onbeat.recurrence.durations import read_duration, write_duration
from onbeat.recurrence.functions import FunctionCore, name_of
from onbeat.recurrence.instants import naive_instant, read_instant, to_us, write_instant, write_us
from onbeat.recurrence.recurrence import Recurrence, compile_spec
from onbeat.recurrence.rrule import block_zone, named_zones
from onbeat.recurrence.rrule_text import WEEKDAYS, Block, Moment, read_block, write_block
from onbeat.recurrence.spec import CalendarSpec, RecurrenceSpec
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.wall_clock import WALL_MAX
from onbeat.recurrence.year_masks import DAY_MIN
from onbeat.recurrence.zoned_rule import SECOND
from onbeat.recurrence.zones import DstFold, DstGap, chosen_zone, zone_named

TimeZone = str | ZoneInfo | None

HOLIDAY_YEARS = range(2020, 2051)
"""Years of a country's holidays that a calendar stores; later ones are not fixed yet."""

HOLIDAYS_MAX = 5_000
"""Dates in a calendar: fifty years with a hundred holidays each."""


def rrule(
    text: str,
    tz: TimeZone = None,
    start: datetime | str | None = None,
    dst_gap: DstGap = "shift",
    dst_fold: DstFold = "first",
) -> Recurrence:
    """An RRULE, or an iCalendar block of DTSTART, RRULE, RDATE, EXDATE and EXRULE lines.

    `start` replaces a missing DTSTART. A TZID or `Z` in the text's DTSTART overrides `tz`. Raises
    BadRecurrence with the place of the error.
    """
    return compile_spec(rrule_spec(text, tz, start, dst_gap, dst_fold))


def rrule_spec(
    text: str, tz: TimeZone, start: datetime | str | None, dst_gap: DstGap, dst_fold: DstFold
) -> RecurrenceSpec:
    check_dst(dst_gap, dst_fold)
    block = read_block(text)
    name, anchor = zone_name(tz), None
    for zone in (name, *sorted(named_zones(block))):
        chosen_zone(zone)
    if start is not None:
        if block.start is not None:
            raise BadRecurrence("DTSTART is in the text already; leave out start", text, None)
        instant = to_us(as_instant(start)) // SECOND
        moment = start_moment(instant, name)
        if zone_named(name).instants(moment.wall, "shift", "first") == (instant,):
            block = block._replace(start=moment)
        else:
            # DTSTART cannot express the second pass of a fold, so it is stored beside the text.
            anchor = write_us(instant * SECOND)
    block = localized(block, name)
    if block.start is None and not any(has_days(parts) for parts in block.rules) and block.rules:
        raise BadRecurrence("this can never fire: no year has such a day", text)
    zone = block_zone(block, name)
    return RecurrenceSpec(
        "rrule",
        write_block(block),
        tz=zone_named(zone).name,
        anchor=anchor,
        dst_gap=dst_gap,
        dst_fold=dst_fold,
    )


def start_moment(instant: int, zone: str | None) -> Moment:
    wall = instant + zone_named(zone).offset(instant)
    if not DAY_MIN * DAY <= wall <= WALL_MAX:
        raise BadRecurrence("start is outside the years 1 to 9999 of its time zone")
    return Moment(wall, "local", zone)


def localized(block: Block, zone: str | None) -> Block:
    """DTSTART with the zone of a floating time made explicit, so that the text is complete."""
    start = block.start
    if start is None or start.form == "utc" or start.zone:
        return block
    if zone is None or zone_named(zone).name == "UTC":
        return block if start.form == "date" else block._replace(start=start._replace(form="utc"))
    return block._replace(start=start._replace(zone=zone))


def cron(
    text: str,
    tz: TimeZone = None,
    key: str = "",
    dst_gap: DstGap = "shift",
    dst_fold: DstFold = "first",
) -> Recurrence:
    """A cron expression of 5, 6 (seconds first) or 7 (year last) fields, or an alias.

    `key`, usually the schedule's name, determines the values of `H`. A `TZ=` prefix overrides `tz`.
    At a clock change, fixed times follow Debian's cron: one in the gap runs at its end (`shift` and
    `end` both), one in the fold runs once. If minute or hour begins with `*`, the expression runs
    whenever the clock matches. Raises BadRecurrence with the place of the error.
    """
    return compile_spec(cron_spec(text, tz, key, dst_gap, dst_fold))


def cron_spec(
    text: str, tz: TimeZone, key: str, dst_gap: DstGap, dst_fold: DstFold
) -> RecurrenceSpec:
    check_dst(dst_gap, dst_fold)
    read = read_any_cron(text, key)
    # The key matters only if the expression contains H.
    hashed = key if re.search(r"(^|[ ,])H", read.text) else ""
    return RecurrenceSpec(
        "cron",
        read.text,
        tz=chosen_zone(read.zone or zone_name(tz)).name,
        dst_gap=dst_gap,
        dst_fold=dst_fold,
        key=hashed,
    )


def every(span: timedelta | float | str, start: datetime | str | None = None) -> Recurrence:
    """A period of elapsed time, `start` included; `"1d"` is always 24 hours.

    Years and months (`"P1M"`) are counted by the calendar, in UTC; a day that a month lacks becomes
    its last day. Without `start` the caller anchors the recurrence.
    """
    return compile_spec(every_spec(span, start))


def every_spec(
    span: timedelta | float | str, start: datetime | str | None = None
) -> RecurrenceSpec:
    begin = None if start is None else write_instant(as_instant(start))
    return RecurrenceSpec("every", write_duration(read_duration(span)), anchor=begin)


def once(at: datetime | str) -> Recurrence:
    """A single instant."""
    return compile_spec(once_spec(at))


def once_spec(at: datetime | str) -> RecurrenceSpec:
    return RecurrenceSpec("once", write_instant(as_instant(at)))


def function(fn: Callable[[datetime], datetime | None]) -> Recurrence:
    """Any function from an instant to the first occurrence after it, in aware datetimes.

    It should depend on its argument only. `before` is found by trying earlier and earlier instants,
    and can miss occurrences of a function that is not increasing.
    """
    return Recurrence(RecurrenceSpec("function", name_of(fn)), FunctionCore(fn))


def daily(
    at: str,
    tz: TimeZone = None,
    dst_gap: DstGap | None = None,
    dst_fold: DstFold = "first",
) -> Recurrence:
    """Every day at a time such as `"03:00"` or `"03:00:30"`, exactly once.

    A time in the first hour that is missing because clocks skip midnight runs at the first instant
    of that day; other missing times follow `dst_gap`, by default `shift`.
    """
    return clock_rule("FREQ=DAILY", at, tz, dst_gap, dst_fold)


def weekly(
    *days: str,
    at: str = "00:00",
    tz: TimeZone = None,
    dst_gap: DstGap | None = None,
    dst_fold: DstFold = "first",
) -> Recurrence:
    """Every week: `weekly("MO", "WE", at="09:00")`, or in one text `weekly("MO,WE 09:00")`.

    Days are MO TU WE TH FR SA SU or English names, in upper or lower case.
    """
    words = " ".join(days).replace(",", " ").split()
    if words and ":" in words[-1]:
        at = words.pop()
    if not words:
        raise BadRecurrence("no weekday; write e.g. MO", " ".join(days), 0)
    by_day = ",".join(weekday_code(word) for word in words)
    return clock_rule(f"FREQ=WEEKLY;BYDAY={by_day}", at, tz, dst_gap, dst_fold)


def first_of_month(
    at: str = "00:00",
    tz: TimeZone = None,
    dst_gap: DstGap | None = None,
    dst_fold: DstFold = "first",
) -> Recurrence:
    """Every first day of a month, at a time as in `daily`."""
    return clock_rule("FREQ=MONTHLY;BYMONTHDAY=1", at, tz, dst_gap, dst_fold)


def easter(
    *offsets: int,
    at: str = "00:00",
    tz: TimeZone = None,
    dst_gap: DstGap | None = None,
    dst_fold: DstFold = "first",
) -> Recurrence:
    """Every year on these days after Easter Sunday: -2 is Good Friday, 39 Ascension Day.

    Easter is that of the Gregorian calendar; without offsets it is Easter Sunday itself.
    """
    days = ",".join(map(str, offsets or (0,)))
    return clock_rule(f"FREQ=YEARLY;BYEASTER={days}", at, tz, dst_gap, dst_fold)


def clock_rule(
    rule: str, at: str, tz: TimeZone, dst_gap: DstGap | None, dst_fold: DstFold
) -> Recurrence:
    """A rule without a start of its own, so that nothing depends on when it begins."""
    second = clock_time(at)
    gap = dst_gap or ("end" if second < 3600 else "shift")
    start = Moment(second, "local", zone_name(tz))
    block = localized(read_block(rule)._replace(start=start), zone_name(tz))
    return rrule(write_block(block), tz, None, gap, dst_fold)


def clock_time(text: str) -> int:
    """Seconds of the day."""
    match = re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d))?", text.strip(), re.ASCII)
    if match:
        hour, minute, second = (int(part or 0) for part in match.groups())
        if hour < 24 and minute < 60 and second < 60:
            return hour * 3600 + minute * 60 + second
    raise BadRecurrence(f"{text[:20]!r} is not a time of day such as 03:00", text[:100], 0)


def weekday_code(word: str) -> str:
    code = word[:2].upper()
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if code in WEEKDAYS and (
        len(word) == 2 or (len(word) > 2 and names[WEEKDAYS.index(code)].startswith(word.lower()))
    ):
        return code
    raise BadRecurrence(f"{word[:20]!r} is not a weekday such as MO or Monday", word[:100], 0)


def business_days(
    holidays: str | Iterable[date | str] = (),
    weekend: Iterable[str] = ("SA", "SU"),
    years: range = HOLIDAY_YEARS,
) -> CalendarSpec:
    """A calendar for `Recurrence.on`: every day except weekends and holidays.

    `holidays` are dates, or a country as the package `holidays` names it, `"DE"` or `"DE-BY"`; its
    dates in `years` are looked up now and stored, so that occurrences never depend on the installed
    package. Raises BadRecurrence for an unknown country or without the package.
    """
    days = country_holidays(holidays, years) if isinstance(holidays, str) else holidays
    dates = sorted({iso_day(day) for day in days})
    if len(dates) > HOLIDAYS_MAX:
        raise BadRecurrence(f"more than {HOLIDAYS_MAX:,} holidays")
    closed = sorted({WEEKDAYS.index(weekday_code(day)) for day in weekend})
    if len(closed) == len(WEEKDAYS):
        raise BadRecurrence("every weekday is weekend; leave one for business")
    name = holidays if isinstance(holidays, str) else ""
    return CalendarSpec(tuple(closed), tuple(dates), name)


def country_holidays(code: str, years: range) -> Iterable[date]:
    country, _, subdivision = code.partition("-")
    try:
        package = importlib.import_module("holidays")
        return cast(
            "Iterable[date]",
            package.country_holidays(country, subdiv=subdivision or None, years=years),
        )
    except ImportError:
        raise BadRecurrence("country holidays need the package holidays", code) from None
    except NotImplementedError:
        raise BadRecurrence(
            f"no holidays are known for {code!r}; use e.g. DE or US-NY", code
        ) from None


def iso_day(day: date | str) -> str:
    try:
        return (day if isinstance(day, date) else date.fromisoformat(day)).isoformat()[:10]
    except ValueError:
        raise BadRecurrence(
            f"{str(day)[:20]!r} is not a date such as 2025-12-25", str(day)
        ) from None


def zone_name(tz: TimeZone) -> str | None:
    """The IANA name; a ZoneInfo made from a file has none and is refused."""
    if isinstance(tz, ZoneInfo):
        if not tz.key:
            raise BadRecurrence("a ZoneInfo without a key cannot be stored; use an IANA name")
        return tz.key
    return tz


def as_instant(value: datetime | str) -> datetime:
    if isinstance(value, str):
        try:
            return read_instant(value)
        except ValueError as error:
            raise BadRecurrence(str(error), value[:100], 0) from None
    if value.tzinfo is None:
        raise ValueError(naive_instant(value))
    return value.astimezone(UTC)


def check_dst(gap: str, fold: str) -> None:
    if gap not in {"shift", "skip", "end"}:
        raise BadRecurrence(f"dst_gap is {gap!r}; use shift, skip or end")
    if fold not in {"first", "last", "both"}:
        raise BadRecurrence(f"dst_fold is {fold!r}; use first, last or both")
