"""Instants at a terminal: in local time, with the zone."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import click

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
STEPS: Final = (
    (timedelta(seconds=90), timedelta(seconds=1), "s"),
    (90 * MINUTE, MINUTE, "min"),
    (36 * HOUR, HOUR, "h"),
    (60 * DAY, DAY, "d"),
    (730 * DAY, 30 * DAY, "mo"),
)


def local_now() -> datetime:
    return datetime.now(UTC)


def read_instant(text: str, option: str, zone: tzinfo | None = None) -> datetime:
    """An ISO 8601 instant; without an offset it is in `zone`, or in this machine's own zone."""
    try:
        return in_utc(datetime.fromisoformat(text.strip()), zone)
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"{option}: {text[:50]!r} is not an instant like 2026-01-31T09:00 or"
            " 2026-01-31T09:00:00Z"
        ) from None


def in_utc(result: datetime, zone: tzinfo | None) -> datetime:
    if result.tzinfo is None:
        result = result.replace(tzinfo=zone) if zone else result.astimezone()
    return result.astimezone(UTC)


def zone_of(name: str | None) -> tzinfo | None:
    """The IANA zone of that name; None for an unknown one, which the rule's parser refuses."""
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError):
        return None


def utc_text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def from_wire(text: str) -> datetime:
    return datetime.fromisoformat(text)


def relative(instant: datetime, now: datetime) -> str:
    """`in 3 h`, `5 min ago`; `now` up to a second ago, as what comes within one is not yet here."""
    span = abs(instant - now)
    if span < timedelta(seconds=1):
        return "in 1 s" if instant > now else "now"
    for limit, size, unit in STEPS:
        if span < limit:
            text = f"{round(span / size)} {unit}"
            break
    else:
        text = f"{round(span / (365 * DAY))} y"
    return f"in {text}" if instant > now else f"{text} ago"


def in_full(text: str | None, now: datetime) -> str:
    """`2026-11-20 15:03:05 CET (in 3 h)`."""
    if text is None:
        return "-"
    instant = from_wire(text)
    local = instant.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S} {zone_name(local)} ({relative(instant, now)})"


def in_short(text: str | None, now: datetime, *, seconds: bool = False) -> str:
    """For a column: the time of day if it is near, else the date; with the distance from now.

    With `seconds` the time of day has them.
    """
    if text is None:
        return "-"
    instant = from_wire(text)
    local = instant.astimezone()
    if abs(instant - now) < 18 * HOUR:
        clock = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
        return f"{clock} {zone_name(local)}, {relative(instant, now)}"
    form = "%d %b" if local.year == now.astimezone().year else "%d %b %Y"
    return f"{local.strftime(form)}, {relative(instant, now)}"


def zone_name(local: datetime) -> str:
    return local.tzname() or f"{local:%z}"
