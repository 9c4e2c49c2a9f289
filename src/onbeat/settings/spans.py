"""Spans of time as people write them in a configuration."""

import re
from datetime import timedelta
from typing import Final

UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}

SHORT: Final = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|[dhms])\s*)+", re.IGNORECASE)
PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[dhms])", re.IGNORECASE)
ISO: Final = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
SECONDS: Final = re.compile(r"\d+(?:\.\d+)?")


def read_span(value: object) -> timedelta | None:
    """`"90s"`, `"1h30m"`, `"PT5M"` or a number of seconds; None when it is none of these."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return span_of_seconds(float(value))
    return read_span_text(value.strip()) if isinstance(value, str) else None


def read_span_text(text: str) -> timedelta | None:
    if SECONDS.fullmatch(text):
        return span_of_seconds(float(text))
    try:
        if SHORT.fullmatch(text):
            parts = PART.findall(text)
            return sum((float(n) * UNITS[unit.lower()] for n, unit in parts), timedelta())
        return read_iso(text)
    except OverflowError:
        return None


def read_iso(text: str) -> timedelta | None:
    found = ISO.fullmatch(text)
    if not found or not any(found.groups()) or text[-1] in "Tt":
        return None
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def span_of_seconds(seconds: float) -> timedelta | None:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # infinite, not a number, or past what a span can hold
        return None


def span_text(span: timedelta) -> str:
    """The shortest way to write the span so that it reads back the same."""
    rest = span
    text = ""
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
