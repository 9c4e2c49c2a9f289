"""One entry of celery beat as a schedule, wherever it was written."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from onbeat.cli.imports.documents import is_list, is_object
from onbeat.cli.imports.records import ImportResult
from onbeat.cli.imports.wall_rule import ElapsedRule
from onbeat.cli.imports.zone_names import has_changes
from onbeat.wire.values import span_text

SPAN_LEAST: Final = timedelta(milliseconds=1)


def add_interval(span: timedelta) -> tuple[dict[str, Any], ElapsedRule] | None:
    """The fields of a rule of elapsed time, which counts from the last run in both."""
    if span < SPAN_LEAST:
        return None
    return {"every": span_text(span)}, ElapsedRule(span=span)


def options_of(
    options: Mapping[str, Any], result: ImportResult, key: str, line: int
) -> dict[str, Any]:
    """The options of `apply_async` that a schedule has; the others are named."""
    body: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name == "queue" and isinstance(value, str):
            body["queue"] = value
        elif name in {"expires", "expire_seconds"} and (span := span_of(value)) is not None:
            body["expires_after"] = span_text(span)
        else:
            result.lose(
                f"option {name}"[:60], f"{name}={value!r}"[:80], "an option of the task",
                line=line, key=key,
            )  # fmt: skip
    return body


def span_of(value: Any) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**9:
        return None
    return timedelta(seconds=value)


def call_of(task: str, args: Any, kwargs: Any) -> dict[str, Any]:
    given = {"args": args or None, "kwargs": kwargs or None}
    return {"task": task} | {name: value for name, value in given.items() if value}


def is_json(value: Any) -> bool:
    """Whether the arguments of a call have a form in JSON."""
    if is_object(value):
        return all(map(is_json, value.values()))
    if is_list(value):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | int | float | bool)


def tell_habits(result: ImportResult) -> None:
    if not result.schedules:
        return
    if any(has_changes(one.body.get("timezone")) for one in result.schedules):
        result.differ_once(
            "changed clocks",
            "a time in a gap runs as far after it; one that comes twice runs once",
            "fixed times in a gap run at its end; rules with * run in both passes",
            "an RRULE, with dst_gap and dst_fold",
        )
    result.differ_once(
        "missed run", "beat sends it once when it is back", "runs the latest one, late",
        "catch_up: none",
    )  # fmt: skip
    result.differ_once(
        "last run", "kept by beat in a file of its own", "kept in the store",
        "stop beat before the first apply",
    )  # fmt: skip


def instant_text(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")
