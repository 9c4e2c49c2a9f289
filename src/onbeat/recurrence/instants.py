"""Instants as text, as `datetime`, and as the engine's integer microseconds."""

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    """Microseconds since 1970 UTC. Raises ValueError for a naive datetime."""
    try:
        return (instant - EPOCH) // MICROSECOND
    except TypeError:
        raise ValueError(naive_instant(instant)) from None


def naive_instant(instant: datetime) -> str:
    return f"{instant} has no time zone; give an aware datetime, e.g. tzinfo=UTC"


def from_us(instant: int) -> datetime:
    return EPOCH + timedelta(microseconds=instant)


RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})\d*)?)?"
    r"([Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)


def read_instant(text: str) -> datetime:
    """An RFC 3339 instant, in UTC; seconds are optional. Raises ValueError."""
    match = RFC_3339.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text[:50]!r} is not an RFC 3339 instant such as 2025-01-31T09:00:00Z")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    micros = int((fraction or "").ljust(6, "0"))
    zone = "+00:00" if offset in "Zz" else offset
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    # A leap second becomes the last second of its minute, as the engine has none.
    wall = datetime(
        int(year), int(month), int(day), int(hour), int(minute), min(int(second or 0), 59), micros,
        tzinfo=UTC,
    )  # fmt: skip
    try:
        return wall + ahead if zone[0] == "-" else wall - ahead
    except OverflowError:
        raise ValueError(f"{text[:50]!r} is outside the years 1 to 9999") from None


def write_instant(instant: datetime) -> str:
    """RFC 3339 in UTC, with a fraction only if it is not zero."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def write_us(instant: int) -> str:
    return write_instant(from_us(instant))
