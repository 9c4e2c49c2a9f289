"""Reads schedules of EventBridge: JSON of `aws scheduler` and of `aws events`.

`get-schedule` and `describe-rule` give one document; `list-schedules` and `list-rules` a list,
whose entries of schedules have no expression.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from onbeat.cli.imports.cron_values import (
    DAYS_FROM_SUNDAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_DAY,
    BadField,
    FieldForm,
)
from onbeat.cli.imports.documents import (
    Document,
    is_list,
    is_object,
    object_of,
    read_documents,
    text_of,
    unknown_fields,
)
from onbeat.cli.imports.records import ImportOptions, ImportResult, first_line
from onbeat.cli.imports.wall_rule import (
    BoundedRule,
    DayChoice,
    ElapsedRule,
    OneTimeRule,
    WallRule,
)
from onbeat.cli.imports.zone_names import is_zone
from onbeat.model.limits import ATTEMPTS_MAX
from onbeat.wire.values import span_text

Rule = WallRule | ElapsedRule | OneTimeRule

EXPRESSION: Final = re.compile(r"\s*(cron|rate|at)\(([^()]*)\)\s*")
AWS_WEEKDAY: Final = FieldForm(
    "day of week", 1, 7, {name: day + 1 for name, day in DAYS_FROM_SUNDAY.items()}, open_step=True
)
AWS_FIELDS: Final = tuple(form._replace(open_step=True) for form in (MINUTE, HOUR, MONTH))
AWS_DAY: Final = MONTH_DAY._replace(open_step=True)
AWS_YEAR: Final = FieldForm("year", 1970, 2199, open_step=True)
UNITS: Final = {"minute": "minutes", "hour": "hours", "day": "days"}
RETRIES_DEFAULT: Final = 185
DEFAULT_TASK: Final = "aws.target"
KNOWN: Final = frozenset(
    {"Name", "Arn", "ScheduleExpression", "ScheduleExpressionTimezone", "StartDate",
     "EndDate", "FlexibleTimeWindow", "State", "Target", "Targets",
     "CreationDate", "LastModificationDate", "CreatedBy"}
)  # fmt: skip

NEXT_PAGE: Final = re.compile(r'"(?:NextToken|nextToken)"\s*:\s*"')
PLAIN: Final = ("default", "NONE")
"""Values that fields have when nobody has set them."""


def read_eventbridge(text: str, options: ImportOptions) -> ImportResult:
    result = ImportResult()
    for document in read_documents(text, "Schedules", "Rules"):
        read_document(document, options, result)
    if match := NEXT_PAGE.search(text):
        result.lose("NextToken", "the list goes on", "all pages of it in one file",
                    line=1 + text.count("\n", 0, match.start()))  # fmt: skip
    if result.schedules:
        result.differ_once(
            "missed run", "none, the service is always there",
            "the latest one of an outage runs late", "catch_up: none, or all",
        )  # fmt: skip
    return result


def read_document(document: Document, options: ImportOptions, result: ImportResult) -> None:
    value, line = document.value, document.line
    name = text_of(value.get("Name")) or "schedule"
    key = result.key_for(name)
    expression = text_of(value.get("ScheduleExpression"))
    if expression is None:
        what = "EventPattern" if value.get("EventPattern") else "ScheduleExpression"
        result.lose(
            what,
            "reacts to events" if what == "EventPattern" else "not in a list of schedules",
            "a schedule with on" if what == "EventPattern" else "aws scheduler get-schedule",
            line=line, key=key,
        )  # fmt: skip
        return
    zone = text_of(value.get("ScheduleExpressionTimezone"))
    try:
        body, rule = read_expression(expression, zone if zone != "UTC" else None)
    except BadField as error:
        place = document.line_of("ScheduleExpression")
        result.lose("ScheduleExpression", str(error), "mend it", line=place, key=key)
        return
    start, end = instant_of(value.get("StartDate")), instant_of(value.get("EndDate"))
    if isinstance(rule, ElapsedRule) and start is not None:
        # Counted from there, with a first run at that time.
        rule = ElapsedRule(span=rule.span, start=start, includes_start=True)
        seconds = int(rule.span.total_seconds())
        body, starts_at = {"every": f"R/{utc_text(start)}/PT{seconds}S"}, None
    else:
        starts_at = start
    body |= {
        "starts_at": None if starts_at is None else starts_at.isoformat(),
        "ends_at": None if end is None else end.isoformat(),
        "jitter": jitter_of(document, result, key),
        "status": "paused" if value.get("State") == "DISABLED" else None,
        **read_target(document, options, result, key),
    }
    result.add(key, body, line, BoundedRule(rule=rule, start=start, end=end))
    if unknown := unknown_fields(value, KNOWN, PLAIN):
        result.lose(unknown[0], f"has {first_line(unknown)}", "none is known",
                    line=document.line_of(unknown[0]), key=key)  # fmt: skip


def read_expression(text: str, zone: str | None) -> tuple[dict[str, Any], Rule]:
    """The fields of the rule, and when AWS fires. Raises `BadField`."""
    match = EXPRESSION.fullmatch(text)
    if not match:
        raise BadField(f"{text[:40]!r} is none of cron(), rate() and at()")
    if zone is not None and not is_zone(zone):
        raise BadField(f"{zone[:60]} is no zone that is known here")
    kind, inner = match.groups()
    if kind == "rate":
        return read_rate(inner)
    if kind == "at":
        return read_at(inner, zone)
    rule = read_cron(inner, zone or "UTC")
    dst = {"timezone": zone, "dst_gap": "skip"} if zone else {}
    return {"cron": text.strip(), **dst}, rule


def read_rate(text: str) -> tuple[dict[str, Any], Rule]:
    match = re.fullmatch(r"\s*(\d{1,6})\s+(minute|hour|day)s?\s*", text)
    if not match or int(match[1]) == 0:
        raise BadField(f"rate({text[:30]}) needs a number and minutes, hours or days")
    span = timedelta(**{UNITS[match[2]]: int(match[1])})
    return {"every": span_text(span)}, ElapsedRule(span=span)


def read_at(text: str, zone: str | None) -> tuple[dict[str, Any], Rule]:
    """Local time of the zone, `2026-11-20T13:00:00`."""
    try:
        wall = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadField(f"at({text[:30]}) needs a time such as 2026-11-20T13:00:00") from None
    instant = wall.replace(tzinfo=ZoneInfo(zone or "UTC")).astimezone(UTC)
    return {"at": utc_text(instant)}, OneTimeRule(instant)


def utc_text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def read_cron(text: str, zone: str) -> WallRule:
    words = text.split()
    if len(words) != 6:
        raise BadField(f"cron({text[:40]}) has {len(words)} fields, and needs 6")
    minutes, hours, months = (
        form.read(word) for form, word in zip(AWS_FIELDS, (*words[:2], words[3]), strict=True)
    )
    month_days, near = read_month_days(words[2])
    weekdays, nth = read_weekdays(words[4])
    return WallRule(
        days=DayChoice(
            months=months,
            month_days=month_days,
            near_days=near,
            weekdays=weekdays,
            nth_weekdays=nth,
            years=None if words[5] == "*" else AWS_YEAR.read(words[5]),
        ),
        hours=tuple(sorted(hours)),
        minutes=tuple(sorted(minutes)),
        zone=zone,
        gap="skip",
        fold="first",
    )


def read_month_days(word: str) -> tuple[frozenset[int], frozenset[int]]:
    """Days of the month, and those whose nearest weekday is meant."""
    if word.upper() == "L":
        return frozenset({-1}), frozenset()
    if match := re.fullmatch(r"(\d{1,2}|L)W", word.upper()):
        return frozenset(), frozenset({0 if match[1] == "L" else int(match[1])})
    return AWS_DAY.read(word), frozenset()


def read_weekdays(word: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    """Weekdays from Monday = 0, and nth ones of the month."""
    if word.upper() == "L":
        return frozenset({5}), frozenset()
    if match := re.fullmatch(r"(\w{1,3})(?:#([1-5])|L)", word.upper()):
        day = (AWS_WEEKDAY.value(match[1].lower()) + 5) % 7
        return frozenset(), frozenset({(int(match[2]) if match[2] else -1, day)})
    return frozenset((day + 5) % 7 for day in AWS_WEEKDAY.read(word)), frozenset()


def instant_of(value: object) -> datetime | None:
    """An instant as text, or in seconds as the API gives it."""
    if isinstance(value, int | float) and 0 <= value < 10**11:
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def jitter_of(document: Document, result: ImportResult, key: str) -> str | None:
    window = document.value.get("FlexibleTimeWindow")
    if not is_object(window) or window.get("Mode") != "FLEXIBLE":
        return None
    minutes = window.get("MaximumWindowInMinutes")
    if not isinstance(minutes, int) or not 0 < minutes <= 1440:
        return None
    result.differ(
        "FlexibleTimeWindow", f"starts within {minutes} minutes, when it suits the service",
        "starts within them by jitter, the same for an occurrence", "none is needed",
        line=document.line_of("FlexibleTimeWindow"), key=key,
    )  # fmt: skip
    return f"{minutes}m"


def read_target(
    document: Document, options: ImportOptions, result: ImportResult, key: str
) -> dict[str, Any]:
    """The call of the task with the input of the target, and its retries."""
    task = options.task or DEFAULT_TASK
    first, *others = targets_of(document.value)
    target = object_of(first)
    line = document.line_of("Targets" if document.value.get("Targets") else "Target")
    arn = str(target.get("Arn") or "a target that is not in the file")
    result.lose(
        "Target", f"calls {arn}", f"let {task} do that, or edit the target",
        line=line, key=key, onbeat=f"calls the task {task}",
    )  # fmt: skip
    for other in others:
        result.lose("Target", f"calls also {str(other)[:60]}", "a schedule for each", line=line,
                    key=key)  # fmt: skip
    kwargs = {"arn": target.get("Arn"), "input": target.get("Input")}
    call = {"task": task, "kwargs": {name: one for name, one in kwargs.items() if one}}
    known = frozenset({"Arn", "Input", "RoleArn", "RetryPolicy", "Id"})
    if unknown := unknown_fields(target, known):
        result.lose(unknown[0], f"target has {first_line(unknown)}", "a part of the task",
                    line=line, key=key)  # fmt: skip
    return {"target": call, **retry_of(target)}


def targets_of(value: Mapping[str, Any]) -> list[Any]:
    """One at least: a rule has a list of them, a schedule has one."""
    targets = value.get("Targets") or [value.get("Target")]
    return targets if is_list(targets) else [None]


def retry_of(target: Mapping[str, Any]) -> dict[str, Any]:
    policy = object_of(target.get("RetryPolicy"))
    retries = policy.get("MaximumRetryAttempts")
    retries = retries if isinstance(retries, int) and retries >= 0 else RETRIES_DEFAULT
    age = policy.get("MaximumEventAgeInSeconds")
    return {
        "retry": {"attempts_max": min(retries + 1, ATTEMPTS_MAX)},
        "expires_after": span_text(timedelta(seconds=age))
        if isinstance(age, int) and 0 < age <= 86_400
        else None,
    }
