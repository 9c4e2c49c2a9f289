"""Reads repeating intervals of ISO 8601: `R/2026-01-01T00:00:00Z/PT1H`, `R5/2026-01-01/P1D`."""

import re
from typing import NamedTuple

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.durations import ISO, read_duration
from onbeat.recurrence.rrule_text import NUMBER_MAX

REPEATING_CHARS_MAX = 200
"""The longest sensible one has about 60."""

PERIODS = (("HOURLY", 3600), ("MINUTELY", 60), ("SECONDLY", 1))

START = re.compile(
    r"(?P<date>\d{4}-?\d\d-?\d\d)(?:T(?P<time>\d\d:?\d\d(?::?\d\d)?)(?P<zone>Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)


class Repeating(NamedTuple):
    """`rule` is an RRULE without its start.

    `start` is an RFC 3339 instant if `exact`, else a DATE or DATE-TIME of the rule's zone, as in
    iCalendar. `by_month`: whether the rule counts months, which can lack the day of the start.
    """

    rule: str
    start: str
    exact: bool
    by_month: bool


def is_repeating(text: str) -> bool:
    return bool(re.match(r"\s*R-?\d*/", text, re.IGNORECASE))


def read_repeating(text: str) -> Repeating:
    """Raises BadRecurrence with the place of the error."""
    if len(text) > REPEATING_CHARS_MAX:
        raise BadRecurrence(
            f"longer than {REPEATING_CHARS_MAX} characters",
            text[:REPEATING_CHARS_MAX],
            REPEATING_CHARS_MAX,
        )
    upper = text.strip().upper()
    pieces = upper.split("/")
    if len(pieces) != 3:
        raise BadRecurrence("write R/START/DURATION, e.g. R/2026-01-01T00:00:00Z/PT1H", text, 0)
    indent = len(text) - len(text.lstrip())
    start_at = indent + len(pieces[0]) + 1
    count = read_count(text, pieces[0], indent)
    start, exact = read_start(text, pieces[1], start_at)
    rule = read_period(text, pieces[2], start_at + len(pieces[1]) + 1)
    by_month = rule.startswith(("FREQ=MONTHLY", "FREQ=YEARLY"))
    return Repeating(rule + count, start, exact, by_month)


def read_count(text: str, piece: str, at: int) -> str:
    """R5 is five occurrences, the start among them; R has no end."""
    if piece == "R":
        return ""
    digits = piece[1:]
    if not re.fullmatch(r"\d{1,10}", digits, re.ASCII) or not 1 <= int(digits) <= NUMBER_MAX:
        raise BadRecurrence(
            f"{piece[:20]!r} is not R or R with a number from 1 to {NUMBER_MAX:,}", text, at
        )
    return f";COUNT={int(digits)}"


def read_start(text: str, piece: str, at: int) -> tuple[str, bool]:
    match = START.fullmatch(piece)
    if not match:
        raise BadRecurrence(f"{piece[:30]!r} is not a start such as 2026-01-01T00:00:00Z", text, at)
    day = match["date"].replace("-", "")
    time = (match["time"] or "").replace(":", "").ljust(6, "0")
    if not match["zone"]:
        return (f"{day}T{time}" if match["time"] else day), False
    zone = match["zone"]
    if len(zone) == len("+0100"):
        zone = f"{zone[:3]}:{zone[3:]}"
    date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
    return f"{date}T{time[:2]}:{time[2:4]}:{time[4:]}{zone}", True


def read_period(text: str, piece: str, at: int) -> str:
    """The rule of a duration: by the calendar, but elapsed time if it has hours."""
    match = ISO.fullmatch(piece)
    try:
        span = read_duration(piece)
    except BadRecurrence as error:
        raise BadRecurrence(str(error), text, at) from None
    if match is None:
        raise BadRecurrence(f"{piece[:30]!r} is not a duration such as PT1H", text, at)
    if span.months:
        years, months = divmod(span.months, 12)
        return f"FREQ=MONTHLY;INTERVAL={span.months}" if months else f"FREQ=YEARLY;INTERVAL={years}"
    seconds, rest = divmod(span.microseconds, 1_000_000)
    if rest:
        raise BadRecurrence("a repeating interval needs whole seconds", text, at)
    if not match[5]:
        weeks, days = divmod(seconds, 7 * 86_400)
        return (
            f"FREQ=DAILY;INTERVAL={seconds // 86_400}" if days else f"FREQ=WEEKLY;INTERVAL={weeks}"
        )
    freq, unit = next((freq, unit) for freq, unit in PERIODS if seconds % unit == 0)
    if seconds // unit > NUMBER_MAX:
        raise BadRecurrence(f"a period of more than {NUMBER_MAX:,} seconds", text, at)
    return f"FREQ={freq};INTERVAL={seconds // unit}"
