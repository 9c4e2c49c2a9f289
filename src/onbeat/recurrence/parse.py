"""Parses rules from outside: the fields of a request, or one text of a command line."""

import re
from datetime import datetime

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.aws_text import is_aws
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.builders import (
    TimeZone,
    check_dst,
    rrule_spec,
    zone_name,
)
from onbeat.recurrence.iso_interval import is_repeating
from onbeat.recurrence.phrase import is_phrase
from onbeat.recurrence.recurrence import value_of
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.texts import cron_text_spec, every_text_spec, instant_spec, span_spec
from onbeat.recurrence.zones import DstFold, DstGap, chosen_zone

CHARS_A_STEP = 8
"""Characters that are parsed in the time of one search of a plain rule."""


def parse_recurrence(
    *,
    rrule: str | None = None,
    cron: str | None = None,
    every: str | float | None = None,
    at: str | None = None,
    start: datetime | None = None,
    timezone: str | None = None,
    dst_gap: DstGap = "shift",
    dst_fold: DstFold = "first",
    key: str = "",
    budget: Budget | None = None,
) -> RecurrenceSpec:
    """The spec of exactly one of `rrule`, `cron`, `every` and `at`. Raises BadRecurrence.

    `start` is that of an `rrule` or `every` whose text has none.
    """
    fields = {"rrule": rrule, "cron": cron, "every": every, "at": at}
    given = [name for name, value in fields.items() if value is not None]
    if len(given) != 1:
        what = " and ".join(given) or "none"
        raise BadRecurrence(f"give exactly one of rrule, cron, every and at, not {what}")
    if budget is not None:
        budget.spend(
            max(len(text) for text in (rrule, cron, "") if text is not None) // CHARS_A_STEP
        )
    check_dst(dst_gap, dst_fold)
    chosen_zone(timezone)
    if rrule is not None:
        spec = rrule_spec(rrule, timezone, start, dst_gap, dst_fold)
    elif cron is not None:
        spec = cron_text_spec(cron, timezone, key, dst_gap, dst_fold)
    elif every is not None:
        spec = every_text_spec(every, timezone, start, dst_gap, dst_fold)
    else:
        spec = instant_spec(at or "", timezone, dst_gap, dst_fold)
    value_of(spec, budget)
    return spec


def guess(text: str, tz: TimeZone = None) -> RecurrenceSpec:
    """The spec of a rule in any supported notation. Raises BadRecurrence.

    An RRULE or iCalendar block, cron, an alias such as `@daily`, `cron(…)` or `rate(…)` as in AWS,
    a duration (`15m`), a phrase (`every day at 9:00`), a repeating interval (`R/…`), or an RFC 3339
    instant.
    """
    spec = guess_spec(text.strip(), zone_name(tz))
    value_of(spec)
    return spec


def has_star(text: str) -> bool:
    """Whether a field is `*` or `?`, as in a cron expression with too few fields."""
    return any(field[0] in "*?" for field in text.split())


def guess_spec(text: str, tz: str | None) -> RecurrenceSpec:
    if re.search(r"FREQ=|^DTSTART|^RRULE|^RDATE", text, re.IGNORECASE):
        return rrule_spec(text, tz, None, "shift", "first")
    if is_repeating(text) or is_phrase(text):
        return every_text_spec(text, tz, None, "shift", "first")
    if match := re.fullmatch(r"@every\s+(\S.*)", text, re.IGNORECASE):
        return span_spec(match[1], tz, None, "shift", "first")
    if re.match(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return instant_spec(text, tz, "shift", "first")
    aliased = text.startswith("@") or is_aws(text)
    if aliased or re.match(r"(CRON_)?TZ=", text) or len(text.split()) >= 5 or has_star(text):
        return cron_text_spec(text, tz, "", "shift", "first")
    if re.match(r"[\dPp]", text, re.ASCII):
        return span_spec(text, tz, None, "shift", "first")
    raise BadRecurrence(
        "neither an RRULE (FREQ=…), a cron expression (five fields), a span (15m), a phrase (every"
        " day at 9:00), a repeating interval (R/…) nor an instant (2025-01-31T09:00:00Z)",
        text[:1000],
        0,
    )
