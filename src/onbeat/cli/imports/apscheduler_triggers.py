"""Triggers of APScheduler 3 as rules: cron, interval, date and calendarinterval."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from onbeat.cli.imports.apscheduler_cron import ORDER, read_apscheduler_cron
from onbeat.cli.imports.cron_values import BadField
from onbeat.cli.imports.records import SourceRule
from onbeat.cli.imports.wall_rule import BoundedRule, CalendarStepRule, ElapsedRule, OneTimeRule
from onbeat.cli.imports.zone_names import is_zone

Made = tuple[dict[str, Any], SourceRule]

UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds")
STEPS: Final = ("years", "months", "weeks", "days")
BOUNDS: Final = frozenset({"start_date", "end_date", "timezone", "jitter"})
CRONTAB: Final = ("minute", "hour", "day", "month", "day_of_week")
FREQUENCIES: Final = {"months": "MONTHLY", "days": "DAILY"}


def read_trigger(kind: str, given: Mapping[str, Any], zone: str | None) -> Made:
    """The fields of a rule, and when APScheduler fires. Raises `BadField`."""
    reader = READERS.get(kind)
    if reader is None:
        raise BadField(f"the trigger {kind[:40]} is not known")
    own = given.get("timezone") or zone
    if own is not None and (not isinstance(own, str) or not is_zone(own)):
        raise BadField(f"{str(own)[:60]} is no zone that is known here")
    body, rule = reader(given, str(own) if own else None)
    jitter = given.get("jitter")
    if isinstance(jitter, int | float) and jitter > 0:
        body["jitter"] = f"{jitter:g}s"
    return body, rule


def read_cron(given: Mapping[str, Any], zone: str | None) -> Made:
    fields = {name: value for name, value in given.items() if name not in BOUNDS}
    if "crontab" in fields:
        fields = crontab_fields(fields.pop("crontab"))
    body, rule = read_apscheduler_cron(fields, zone)
    start, end = bounds_of(given, zone)
    return body | bound_fields(start, end), BoundedRule(rule=rule, start=start, end=end)


def crontab_fields(text: object) -> dict[str, str]:
    """Those of `from_crontab`. APScheduler counts weekdays from Monday there, too."""
    words = str(text).split()
    if len(words) != len(CRONTAB):
        raise BadField(f"{str(text)[:40]!r} has {len(words)} fields, and needs 5")
    return dict(zip(CRONTAB, words, strict=True))


def read_interval(given: Mapping[str, Any], zone: str | None) -> Made:
    check_names(given, UNITS)
    span = timedelta(**{unit: number_of(given, unit) for unit in UNITS})
    if span <= timedelta():
        span = timedelta(seconds=1)
    start, end = bounds_of(given, zone)
    if start is None:
        body: dict[str, Any] = {
            "every": f"{span.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        }
    else:
        body = {"every": f"R/{basic(start)}/PT{int(span.total_seconds())}S"}
        if span % timedelta(seconds=1):
            raise BadField("an interval with a start_date and a part of a second")
    rule = ElapsedRule(span=span, start=start, includes_start=start is not None)
    return body | bound_fields(None, end), BoundedRule(rule=rule, end=end)


def read_date(given: Mapping[str, Any], zone: str | None) -> Made:
    check_names(given, ("run_date",))
    instant = instant_of(given.get("run_date"), zone, "run_date")
    if instant is None:
        raise BadField("a date without run_date: it runs at once, when the program starts")
    return {"at": basic(instant)}, OneTimeRule(instant)


def read_calendar(given: Mapping[str, Any], zone: str | None) -> Made:
    """An RRULE from the first day on; days that a month lacks are left out in both."""
    check_names(given, (*STEPS, "hour", "minute", "second"))
    months = 12 * number_of(given, "years") + number_of(given, "months")
    days = 7 * number_of(given, "weeks") + number_of(given, "days")
    if bool(months) == bool(days):
        raise BadField("a calendar interval of months and days together")
    start = given.get("start_date")
    if start is None:
        raise BadField("a calendar interval without start_date: it begins when the program starts")
    first = day_of(start)
    if number_of(given, "hour") > 23 or max(number_of(given, n) for n in ("minute", "second")) > 59:
        raise BadField("a calendar interval at no time of day")
    clock = "".join(f"{number_of(given, name):02d}" for name in ("hour", "minute", "second"))
    unit, number = ("months", months) if months else ("days", days)
    place = f";TZID={zone}:" if zone else ":"
    suffix = "" if zone else "Z"
    rule = f"RRULE:FREQ={FREQUENCIES[unit]};INTERVAL={number}"
    _, end = bounds_of({"end_date": given.get("end_date")}, zone)
    block = f"DTSTART{place}{first:%Y%m%d}T{clock}{suffix}\n{rule}"
    time = datetime.strptime(f"{first:%Y%m%d}{clock}", "%Y%m%d%H%M%S")  # noqa: DTZ007
    wall = time.replace(tzinfo=ZoneInfo(zone or "UTC"))
    source = CalendarStepRule(first=wall, months=months, days=days, end=end)
    return {"rrule": block, "dst_gap": "skip"} | bound_fields(None, end), source


READERS: Final[Mapping[str, Callable[[Mapping[str, Any], str | None], Made]]] = {
    "cron": read_cron,
    "interval": read_interval,
    "date": read_date,
    "calendarinterval": read_calendar,
}
FIELDS: Final = frozenset({*ORDER, *UNITS, *STEPS, *BOUNDS, "run_date", "crontab"})
"""What `add_job` passes on to a trigger."""


def check_names(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if unknown := set(given) - set(names) - BOUNDS:
        raise BadField(f"the trigger has no {min(unknown)[:40]}")


def number_of(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**6:
        raise BadField(f"{name} is no number of 0 or more")
    return value


def bounds_of(
    given: Mapping[str, Any], zone: str | None
) -> tuple[datetime | None, datetime | None]:
    start, end = (instant_of(given.get(name), zone, name) for name in ("start_date", "end_date"))
    return start, end


def bound_fields(start: datetime | None, end: datetime | None) -> dict[str, Any]:
    return {
        "starts_at": None if start is None else basic(start),
        "ends_at": None if end is None else basic(end),
    }


def basic(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def instant_of(value: Any, zone: str | None, name: str) -> datetime | None:
    """A time as APScheduler reads it: local time of the trigger's zone, without an offset."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)  # noqa: DTZ001
        if not isinstance(value, datetime):
            raise BadField(f"{name} is no time")
        local = value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone or "UTC"))
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadField(f"{name} is no time") from None


def day_of(value: Any) -> date:
    try:
        made = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        made = None
    if not isinstance(made, date):
        raise BadField("start_date is no day")
    return made
