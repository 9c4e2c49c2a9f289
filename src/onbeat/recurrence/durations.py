"""Durations as text: `90s`, `1h30m`, ISO 8601 durations, numbers of seconds."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from onbeat.model.errors import BadRecurrence

SPAN_TEXT_MAX = 100
"""Characters of a duration; the longest sensible one has about 30."""

SPAN_MIN_US = 1_000
"""A millisecond: shorter periods would only keep a planner busy."""

SPAN_MAX_US = 10_000 * 366 * 86_400 * 1_000_000
"""Ten thousand years: anything longer cannot occur twice."""

UNITS: dict[str, int | Decimal] = {
    "w": 604_800,
    "d": 86_400,
    "h": 3_600,
    "m": 60,
    "s": 1,
    "ms": Decimal("0.001"),
}


class Duration(NamedTuple):
    """Elapsed microseconds, or calendar months; never both."""

    microseconds: int = 0
    months: int = 0


def read_duration(value: timedelta | float | str) -> Duration:
    """Raises BadRecurrence for text that is no duration, and for durations out of bounds."""
    if isinstance(value, timedelta):
        return check_bounds(Duration(value // timedelta(microseconds=1)), str(value))
    if isinstance(value, (int, float)):
        return check_bounds(Duration(microseconds_of(str(value), str(value))), str(value))
    if len(value) > SPAN_TEXT_MAX:
        raise BadRecurrence(f"longer than {SPAN_TEXT_MAX} characters", value[:100], SPAN_TEXT_MAX)
    text = value.strip()
    span = read_iso(text) if text[:1] in "Pp" and text else read_units(text)
    return check_bounds(span, value)


ISO = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d{1,6})?)S)?)?",
    re.ASCII,
)


def read_iso(text: str) -> Duration:
    match = ISO.fullmatch(text.upper())
    if not match or text.upper() == "P" or match[5] == "T":
        raise BadRecurrence(not_a_duration(text), text, 0)
    months = int(match[1] or 0) * 12 + int(match[2] or 0)
    numbers = (match[3], match[4], match[6], match[7], match[8])
    elapsed = sum(
        microseconds_of((number or "0").replace(",", "."), text, unit)
        for number, unit in zip(numbers, (604_800, 86_400, 3_600, 60, 1), strict=True)
    )
    if months and elapsed:
        raise BadRecurrence(
            "years and months do not mix with weeks, days and times: the calendar counts the"
            " ones, the clock the others",
            text,
            0,
        )
    return Duration(elapsed, months)


UNIT = re.compile(r"(\d+(?:\.\d{1,6})?)\s*(ms|[wdhms])\s*", re.ASCII)


def read_units(text: str) -> Duration:
    """`1h30m`, largest unit first; a plain number is seconds."""
    if re.fullmatch(r"\d+(\.\d{1,6})?", text, re.ASCII):
        return Duration(microseconds_of(text, text))
    at, total, units = 0, 0, list(UNITS)
    while at < len(text):
        match = UNIT.match(text.lower(), at)
        if not match or match[2] not in units:
            raise BadRecurrence(not_a_duration(text), text, at)
        total += microseconds_of(match[1], text, UNITS[match[2]])
        units = units[units.index(match[2]) + 1 :]
        at = match.end()
    return Duration(total)


def not_a_duration(text: str) -> str:
    return f"{text[:30]!r} is not a span; write e.g. 90s, 5m, 1h30m, PT15M or a number of seconds"


def microseconds_of(number: str, text: str, unit: int | Decimal = 1) -> int:
    try:
        value = Decimal(number) * unit * 1_000_000
    except ArithmeticError:
        raise BadRecurrence(not_a_duration(text), text, 0) from None
    if not value.is_finite() or abs(value) > SPAN_MAX_US:
        raise BadRecurrence("a span longer than 10,000 years", text, 0)
    return int(value)


def check_bounds(span: Duration, text: str) -> Duration:
    if span.months:
        if span.months > 120_000:
            raise BadRecurrence("a span longer than 10,000 years", text, 0)
        return span
    if not SPAN_MIN_US <= span.microseconds <= SPAN_MAX_US:
        raise BadRecurrence("a span from 1 millisecond to 10,000 years is needed", text, 0)
    return span


def write_duration(span: Duration) -> str:
    """Canonical form: `P1Y6M` for months, else `1w`, `1d12h`, `1h30m`, `1.5s`."""
    if span.months:
        years, months = divmod(span.months, 12)
        return "P" + (f"{years}Y" if years else "") + (f"{months}M" if months else "")
    rest, written = span.microseconds, ""
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        count, rest = divmod(rest, seconds * 1_000_000)
        written += f"{count}{unit}" if count else ""
    if rest:
        whole, fraction = divmod(rest, 1_000_000)
        written += f"{whole}" + (f".{fraction:06}".rstrip("0") if fraction else "") + "s"
    return written
