"""APScheduler's cron: fields from year to second that all have to match, weekdays from Monday."""

import re
from collections.abc import Mapping
from typing import Any, Final

from onbeat.cli.imports.cron_values import (
    DAYS_FROM_MONDAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_DAY,
    BadField,
    FieldForm,
)
from onbeat.cli.imports.wall_rule import DayChoice, WallRule

ORDER: Final = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
LEAST: Final = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
"""What a field means that is finer than every field that is given."""

FORMS: Final[Mapping[str, FieldForm]] = {
    name: form._replace(open_step=True)
    for name, form in {
        "year": FieldForm("year", 1970, 9999),
        "month": MONTH,
        "day": MONTH_DAY,
        "week": FieldForm("week", 1, 53),
        "day_of_week": FieldForm("day of week", 0, 6, DAYS_FROM_MONDAY),
        "hour": HOUR,
        "minute": MINUTE,
        "second": FieldForm("second", 0, 59),
    }.items()
}
PLACES: Final = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5, "last": -1}
PLACE: Final = re.compile(r"(1st|2nd|3rd|4th|5th|last)\s+([a-z]{3})[a-z]*")
DAY_CODES: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
CRON_DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def read_apscheduler_cron(
    fields: Mapping[str, Any], zone: str | None
) -> tuple[dict[str, Any], WallRule]:
    """The fields of a rule, and when APScheduler fires. Raises `BadField`.

    A missing time is read by the offset before the gap; one that comes twice runs twice.
    """
    texts = completed(fields)
    month_days, nth = read_days(texts["day"])
    values = {name: FORMS[name].read(texts[name]) for name in ORDER if name not in {"day", "year"}}
    years = None if texts["year"] == "*" else FORMS["year"].read(texts["year"])
    all_week = FORMS["day_of_week"].is_whole(values["day_of_week"])
    if nth and not all_week:
        raise BadField("a weekday of the month beside day_of_week")
    week = None if texts["week"] == "*" else values["week"]
    days = DayChoice(
        months=values["month"],
        month_days=month_days,
        weekdays=frozenset() if nth else values["day_of_week"],
        nth_weekdays=nth,
        weeks=week,
        years=years,
        either=bool(nth),
    )
    rule = WallRule(
        days=days,
        hours=tuple(sorted(values["hour"])),
        minutes=tuple(sorted(values["minute"])),
        seconds=tuple(sorted(values["second"])),
        zone=zone or "UTC",
        gap="shift",
        fold="both",
    )
    body = rrule_of(rule) if is_joint(days, all_week=all_week) else cron_of(rule)
    fold = {} if zone is None else {"timezone": zone, "dst_fold": "both"}
    return {**body, **fold}, rule


def completed(fields: Mapping[str, Any]) -> dict[str, str]:
    """All fields as text: those left out are free, or the least where finer than all given."""
    given = {name: value for name, value in fields.items() if value is not None}
    if unknown := set(given) - set(ORDER):
        raise BadField(f"cron has no {min(unknown)}")
    if not given:
        raise BadField("cron without a field")
    if any(isinstance(value, bool) or not isinstance(value, int | str) for value in given.values()):
        raise BadField("a field of cron that is neither a number nor a text")
    finest = max(map(ORDER.index, given))
    free = {
        name: "*" if place < finest else LEAST.get(name, "*") for place, name in enumerate(ORDER)
    }
    return free | {name: str(value).strip().lower() for name, value in given.items()}


def read_days(text: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    """Days of the month, -1 for the last, and weekdays of it: `2nd fri`."""
    days: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for item in text.split(","):
        word = item.strip()
        if word == "last":
            days.add(-1)
        elif match := PLACE.fullmatch(word):
            nth.add((PLACES[match[1]], FORMS["day_of_week"].value(match[2])))
        else:
            days |= FORMS["day"].read(word)
    return frozenset(days), frozenset(nth)


def is_joint(days: DayChoice, *, all_week: bool) -> bool:
    """Whether days have to match in ways that a cron text of one kind cannot say."""
    if days.weeks is not None:
        return True
    return not all_week and not FORMS["day"].is_whole(days.month_days) and not days.nth_weekdays


def cron_of(rule: WallRule) -> dict[str, Any]:
    days = rule.days
    weekdays = "*"
    if days.nth_weekdays:
        weekdays = ",".join(nth_text(*one) for one in sorted(days.nth_weekdays))
    elif not FORMS["day_of_week"].is_whole(days.weekdays):
        weekdays = ",".join(CRON_DAYS[day] for day in sorted(days.weekdays))
    words = [
        FORMS["minute"].text(rule.minutes),
        FORMS["hour"].text(rule.hours),
        month_days_text(days),
        FORMS["month"].text(days.months),
        weekdays,
    ]
    years = [] if days.years is None else [FORMS["year"].text(days.years)]
    if years or rule.seconds != (0,):
        words.insert(0, FORMS["second"].text(rule.seconds))
    return {"cron": " ".join(words + years)}


def nth_text(place: int, weekday: int) -> str:
    return f"{CRON_DAYS[weekday]}L" if place == -1 else f"{CRON_DAYS[weekday]}#{place}"


def month_days_text(days: DayChoice) -> str:
    numbers = [day for day in days.month_days if day > 0]
    texts = [FORMS["day"].text(numbers)] if numbers else []
    texts += ["L"] if -1 in days.month_days else []
    return ",".join(texts) or "*"


def rrule_of(rule: WallRule) -> dict[str, Any]:
    days = rule.days
    if days.years is not None:
        raise BadField("a year beside week, or beside day and day_of_week")
    freq = "MONTHLY" if days.weeks is None else "YEARLY"
    parts = [f"FREQ={freq}"]
    if days.weeks is not None:
        parts.append(f"BYWEEKNO={numbers(days.weeks)}")
    if not FORMS["month"].is_whole(days.months):
        parts.append(f"BYMONTH={numbers(days.months)}")
    if not FORMS["day"].is_whole(days.month_days):
        parts.append(f"BYMONTHDAY={numbers(days.month_days)}")
    parts.append(f"BYDAY={','.join(DAY_CODES[day] for day in sorted(days.weekdays))}")
    parts.append(f"BYHOUR={numbers(rule.hours)};BYMINUTE={numbers(rule.minutes)}")
    return {"rrule": ";".join((*parts, f"BYSECOND={numbers(rule.seconds)}"))}


def numbers(values: Any) -> str:
    return ",".join(map(str, sorted(values)))
