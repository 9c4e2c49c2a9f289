"""Recurrence engine: RRULE, cron, intervals and calendars, exact in every time zone.

Pure: no clock, and no I/O except for zone files. Instants are aware datetimes, returned in UTC.
"""

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.builders import (
    business_days,
    cron,
    daily,
    easter,
    every,
    first_of_month,
    function,
    once,
    rrule,
    weekly,
)
from onbeat.recurrence.compile import anchor, depends_on_zone, needs_anchor, without_idle_zone
from onbeat.recurrence.notes import Note, notes_on_text
from onbeat.recurrence.parse import guess, parse_recurrence
from onbeat.recurrence.recurrence import Recurrence, compile_spec, union, value_of
from onbeat.recurrence.spec import CalendarSpec, RecurrenceSpec
from onbeat.recurrence.texts import aws, phrase, repeating
from onbeat.recurrence.zones import packaged_tzdata_version, tzdata_version

__all__ = [
    "BadRecurrence",
    "Budget",
    "CalendarSpec",
    "Note",
    "Recurrence",
    "RecurrenceSpec",
    "anchor",
    "aws",
    "business_days",
    "compile_spec",
    "cron",
    "daily",
    "depends_on_zone",
    "easter",
    "every",
    "first_of_month",
    "function",
    "guess",
    "needs_anchor",
    "notes_on_text",
    "once",
    "packaged_tzdata_version",
    "parse_recurrence",
    "phrase",
    "repeating",
    "rrule",
    "tzdata_version",
    "union",
    "value_of",
    "weekly",
    "without_idle_zone",
]
