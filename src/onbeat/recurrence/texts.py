"""Recurrences in the notations of others: AWS, ISO 8601, and a few English words."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.aws_text import is_rate, read_rate
from onbeat.recurrence.builders import (
    TimeZone,
    as_instant,
    check_dst,
    cron_spec,
    every_spec,
    once_spec,
    rrule_spec,
    start_moment,
    zone_name,
)
from onbeat.recurrence.instants import to_us
from onbeat.recurrence.iso_interval import Repeating, is_repeating, read_repeating
from onbeat.recurrence.notes import DAYS_OF_EVERY_MONTH
from onbeat.recurrence.phrase import is_phrase, read_phrase
from onbeat.recurrence.recurrence import Recurrence, compile_spec
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.year_masks import month_of
from onbeat.recurrence.zoned_rule import SECOND
from onbeat.recurrence.zones import DstFold, DstGap, chosen_zone


def aws(
    text: str, tz: TimeZone = None, dst_gap: DstGap = "shift", dst_fold: DstFold = "first"
) -> Recurrence:
    """A schedule expression of AWS: `cron(0 12 * * ? *)` or `rate(5 minutes)`.

    Clock changes are handled as in `cron`. Raises BadRecurrence with the place of the error.
    """
    return compile_spec(cron_text_spec(text, tz, "", dst_gap, dst_fold))


def phrase(
    text: str, tz: TimeZone = None, dst_gap: DstGap = "shift", dst_fold: DstFold = "first"
) -> Recurrence:
    """`every 2 hours`, `every day at 09:00`, `every monday and friday at 9:00`.

    A number of units is elapsed time, as in `every`; days, months and years are those of `tz`.
    Raises BadRecurrence with the place of the error.
    """
    return compile_spec(phrase_spec(text, tz, None, dst_gap, dst_fold))


def repeating(
    text: str, tz: TimeZone = None, dst_gap: DstGap = "shift", dst_fold: DstFold = "first"
) -> Recurrence:
    """A repeating interval of ISO 8601: `R/2026-01-01T00:00:00Z/PT1H`.

    The start is the first occurrence; `R5` are five in all. Days, weeks, months and years are
    counted by the calendar of `tz`, and a day that a month lacks becomes its last day. Raises
    BadRecurrence with the place of the error.
    """
    return compile_spec(repeating_spec(text, tz, dst_gap, dst_fold))


def cron_text_spec(
    text: str, tz: TimeZone, key: str, dst_gap: DstGap, dst_fold: DstFold
) -> RecurrenceSpec:
    """The text of a field for cron, which takes those of AWS too."""
    if is_rate(text):
        return span_spec(read_rate(text), tz, None, dst_gap, dst_fold)
    return cron_spec(text, tz, key, dst_gap, dst_fold)


def every_text_spec(
    text: timedelta | float | str,
    tz: TimeZone,
    start: datetime | None,
    dst_gap: DstGap,
    dst_fold: DstFold,
) -> RecurrenceSpec:
    """The text of a field for a span, which takes repeating intervals and phrases too."""
    if isinstance(text, str) and is_repeating(text):
        if start is not None:
            raise BadRecurrence("the interval has a start already; leave out start", text)
        return repeating_spec(text, tz, dst_gap, dst_fold)
    if isinstance(text, str) and is_phrase(text):
        return phrase_spec(text, tz, start, dst_gap, dst_fold)
    return span_spec(text, tz, start, dst_gap, dst_fold)


def phrase_spec(
    text: str, tz: TimeZone, start: datetime | None, dst_gap: DstGap, dst_fold: DstFold
) -> RecurrenceSpec:
    check_dst(dst_gap, dst_fold)
    read = read_phrase(text)
    if read.span:
        return span_spec(read.span, tz, start, dst_gap, dst_fold)
    return rrule_spec(read.rule, tz, start, dst_gap, dst_fold)


def span_spec(
    span: timedelta | float | str,
    tz: TimeZone,
    start: datetime | None,
    dst_gap: DstGap,
    dst_fold: DstFold,
) -> RecurrenceSpec:
    """A period: months are those of the zone, and elapsed time only keeps it."""
    return with_zone(every_spec(span, start), tz, dst_gap, dst_fold)


def instant_spec(
    at: datetime | str, tz: TimeZone, dst_gap: DstGap, dst_fold: DstFold
) -> RecurrenceSpec:
    """A single instant, which keeps the zone."""
    return with_zone(once_spec(at), tz, dst_gap, dst_fold)


def with_zone(
    spec: RecurrenceSpec, tz: TimeZone, dst_gap: DstGap, dst_fold: DstFold
) -> RecurrenceSpec:
    check_dst(dst_gap, dst_fold)
    name = zone_name(tz)
    zone = None if name is None else chosen_zone(name).name
    return replace(spec, tz=zone, dst_gap=dst_gap, dst_fold=dst_fold)


def repeating_spec(text: str, tz: TimeZone, dst_gap: DstGap, dst_fold: DstFold) -> RecurrenceSpec:
    check_dst(dst_gap, dst_fold)
    read = read_repeating(text)
    rule = read.rule
    try:
        if read.by_month and start_day(read, zone_name(tz)) > DAYS_OF_EVERY_MONTH:
            rule = f"RSCALE=GREGORIAN;{rule};SKIP=BACKWARD"
        if read.exact:
            return rrule_spec(rule, tz, read.start, dst_gap, dst_fold)
        return rrule_spec(f"DTSTART:{read.start}\nRRULE:{rule}", tz, None, dst_gap, dst_fold)
    except (BadRecurrence, ValueError) as error:
        # The start is the only part that has not been checked.
        raise BadRecurrence(str(error), text, text.index("/") + 1) from None


def start_day(read: Repeating, zone: str | None) -> int:
    """The day of the month on which it starts, by the clock of the zone."""
    if not read.exact:
        return int(read.start[6:8])
    start: datetime = as_instant(read.start)
    return month_of(start_moment(to_us(start) // SECOND, zone).wall // DAY)[2]
