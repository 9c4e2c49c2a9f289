"""Rules in, instants out: RRULE, cron, intervals and calendars, exact in every time zone.

Pure: no clock, no I/O but the zone files. Instants are aware datetimes, in UTC when they come out.
"""

from onbeat.recurrence.compiling import anchor, depends_on_zone, needs_anchor
from onbeat.recurrence.making import (
    business_days,
    cron,
    daily,
    every,
    first_of_month,
    function,
    once,
    rrule,
    weekly,
)
from onbeat.recurrence.notes import Note
from onbeat.recurrence.parsing import guess, parse_recurrence
from onbeat.recurrence.recurrence import Recurrence, compile_spec, union
from onbeat.recurrence.spec import CalendarSpec, RecurrenceSpec
from onbeat.recurrence.zones import tzdata_version

__all__ = [
    "CalendarSpec",
    "Note",
    "Recurrence",
    "RecurrenceSpec",
    "anchor",
    "business_days",
    "compile_spec",
    "cron",
    "daily",
    "depends_on_zone",
    "every",
    "first_of_month",
    "function",
    "guess",
    "needs_anchor",
    "once",
    "parse_recurrence",
    "rrule",
    "tzdata_version",
    "union",
    "weekly",
]
