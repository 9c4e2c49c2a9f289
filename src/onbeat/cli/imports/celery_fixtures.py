"""Reads the JSON of `dumpdata django_celery_beat`."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from onbeat.cli.imports.celery_cron import ORDER, read_celery_cron
from onbeat.cli.imports.celery_entries import (
    add_interval,
    call_of,
    instant_text,
    options_of,
    tell_habits,
)
from onbeat.cli.imports.cron_values import BadField
from onbeat.cli.imports.documents import Document, read_documents, text_of
from onbeat.cli.imports.records import ImportOptions, ImportResult, SourceRule
from onbeat.cli.imports.wall_rule import OneTimeRule
from onbeat.cli.imports.zone_names import is_zone

APP: Final = "django_celery_beat."
TASK: Final = "periodictask"
RULES: Final = ("interval", "crontab", "clocked", "solar")
PERIODS: Final = frozenset({"days", "hours", "minutes", "seconds", "microseconds"})
SENT: Final = ("queue", "exchange", "routing_key", "priority", "expires", "expire_seconds")
NO_HEADERS: Final = (None, "", "{}")

Rules = Mapping[tuple[str, str], Mapping[str, Any]]


def read_fixtures(text: str, options: ImportOptions) -> ImportResult:
    result = ImportResult()
    tasks: list[Document] = []
    rules: dict[tuple[str, str], Mapping[str, Any]] = {}
    for document in read_documents(text):
        model = str(document.value.get("model") or "").lower().removeprefix(APP)
        fields = document.value.get("fields")
        if not isinstance(fields, dict):
            result.lose("record", "a record without fields", "write it by dumpdata",
                        line=document.line)  # fmt: skip
        elif model == TASK:
            tasks.append(document)
        elif model.removesuffix("schedule") in RULES:
            rules[model.removesuffix("schedule"), str(document.value.get("pk"))] = fields
        elif model != "periodictasks":
            result.lose("record", f"a record of {model[:60]}", "it is no schedule",
                        line=document.line)  # fmt: skip
    for document in tasks:
        read_task_record(document, rules, options, result)
    tell_habits(result)
    return result


def read_task_record(
    document: Document, rules: Rules, options: ImportOptions, result: ImportResult
) -> None:
    fields: Mapping[str, Any] = document.value["fields"]
    name, task = text_of(fields.get("name")), text_of(fields.get("task"))
    if name is None or task is None:
        result.lose("record", "a task without a name", "complete it", line=document.line)
        return
    if name == "celery.backend_cleanup":
        return
    key = result.key_for(name)
    try:
        body, rule = read_rule(fields, rules, options.zone)
        target = call_of(task, loaded(fields.get("args"), list), loaded(fields.get("kwargs"), dict))
    except BadField as error:
        result.lose("rule", str(error), "mend it", line=document.line, key=key)
        return
    sent = {one: fields.get(one) for one in SENT if fields.get(one) not in {None, ""}}
    body |= options_of(sent, result, key, document.line)
    body |= {
        "status": None if fields.get("enabled", True) else "paused",
        "starts_at": text_of(fields.get("start_time")),
    }
    if fields.get("headers") not in NO_HEADERS:
        result.lose("headers", "sends headers with the task", "arguments of the task",
                    line=document.line_of("headers"), key=key)  # fmt: skip
    if fields.get("one_off") and "at" not in body:
        result.lose("one_off", "runs once, then is disabled", "write at:, for its time",
                    line=document.line_of("one_off"), key=key,
                    onbeat="runs at each time")  # fmt: skip
    result.add(key, {"name": name, **body, "target": target}, document.line, rule)


def read_rule(
    fields: Mapping[str, Any], rules: Rules, zone: str | None
) -> tuple[dict[str, Any], SourceRule]:
    """Raises `BadField`."""
    kind = next((one for one in RULES if fields.get(one) is not None), None)
    if kind is None:
        raise BadField("a task without a schedule")
    found = rules.get((kind, str(fields[kind])))
    if found is None:
        raise BadField(f"its {kind} {str(fields[kind])[:20]} is not in the file")
    if kind == "interval":
        return read_interval(found)
    if kind == "crontab":
        own = text_of(found.get("timezone")) or zone
        if own is not None and not is_zone(own):
            raise BadField(f"{own[:60]} is no zone that is known here")
        return read_celery_cron({name: found.get(name, "*") for name in ORDER}, own)
    if kind == "clocked":
        return read_clocked(found)
    raise BadField("the sun is not a rule here; send an event, or write cron")


def read_interval(found: Mapping[str, Any]) -> tuple[dict[str, Any], SourceRule]:
    number, period = found.get("every"), found.get("period")
    if period not in PERIODS or not isinstance(number, int) or not 0 < number < 10**9:
        raise BadField(f"every {str(number)[:20]} {str(period)[:20]} is no interval")
    made = add_interval(timedelta(**{str(period): number}))
    if made is None:
        raise BadField("an interval of less than a millisecond")
    return made


def read_clocked(found: Mapping[str, Any]) -> tuple[dict[str, Any], SourceRule]:
    try:
        instant = datetime.fromisoformat(str(found.get("clocked_time")))
    except ValueError:
        raise BadField("its clocked_time is no instant") from None
    if instant.tzinfo is None:
        raise BadField("its clocked_time has no zone")
    return {"at": instant_text(instant)}, OneTimeRule(instant)


def loaded(text: object, kind: type) -> Any:
    """The arguments, which are JSON within JSON."""
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BadField("its arguments are not JSON") from None
    if not isinstance(value, kind):
        raise BadField("its arguments are neither a list nor a mapping")
    return value
