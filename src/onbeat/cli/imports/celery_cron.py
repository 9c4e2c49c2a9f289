"""Celery's crontab: fields that all have to match, by the clock of the app's zone."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from onbeat.cli.imports.cron_values import (
    DAYS_FROM_SUNDAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_DAY,
    BadField,
    FieldForm,
    from_monday,
)
from onbeat.cli.imports.documents import is_list
from onbeat.cli.imports.wall_rule import DayChoice, WallRule

ORDER: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
FORMS: Final[Mapping[str, FieldForm]] = {
    "minute": MINUTE._replace(wraps=True),
    "hour": HOUR._replace(wraps=True),
    "day_of_week": FieldForm("day of week", 0, 6, DAYS_FROM_SUNDAY, wraps=True),
    "day_of_month": MONTH_DAY._replace(wraps=True),
    "month_of_year": MONTH._replace(wraps=True),
}
DAY_CODES: Final = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")


def read_celery_cron(
    fields: Mapping[str, Any], zone: str | None
) -> tuple[dict[str, Any], WallRule]:
    """The fields of a rule, and when Celery fires. Raises `BadField`.

    A missing time is read by the offset before the gap, one that comes twice is the first.
    """
    if unknown := set(fields) - set(ORDER):
        raise BadField(f"crontab has no {min(unknown)}")
    values = {name: read_field(FORMS[name], fields.get(name, "*")) for name in ORDER}
    rule = WallRule(
        days=DayChoice(
            months=values["month_of_year"],
            month_days=values["day_of_month"],
            weekdays=from_monday(values["day_of_week"]),
        ),
        hours=tuple(sorted(values["hour"])),
        minutes=tuple(sorted(values["minute"])),
        zone=zone or "UTC",
        gap="shift",
        fold="first",
    )
    return {**rule_of(values), "timezone": zone}, rule


def read_field(form: FieldForm, value: Any) -> frozenset[int]:
    if is_list(value):
        return frozenset(number for one in value for number in read_field(form, one))
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadField(f"{str(value)[:30]} is no {form.name}")
    return form.read(str(value).replace(" ", ""))


def rule_of(values: Mapping[str, frozenset[int]]) -> dict[str, Any]:
    """A cron text; an RRULE where day of month and of week both have to match."""
    whole = {name: FORMS[name].is_whole(values[name]) for name in ORDER}
    if whole["day_of_month"] or whole["day_of_week"]:
        names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        return {"cron": " ".join(FORMS[name].text(values[name]) for name in names)}
    days = ",".join(DAY_CODES[day] for day in sorted(values["day_of_week"]))
    parts = [f"FREQ=MONTHLY;BYMONTHDAY={numbers(values['day_of_month'])};BYDAY={days}"]
    if not whole["month_of_year"]:
        parts.append(f"BYMONTH={numbers(values['month_of_year'])}")
    parts.append(f"BYHOUR={numbers(values['hour'])};BYMINUTE={numbers(values['minute'])}")
    return {"rrule": ";".join((*parts, "BYSECOND=0"))}


def numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, sorted(values)))
