"""Reads schedules of the RRULE event scheduler with HTTP callbacks: its JSON, as a list or lines.

A document has `name`, `rrule`, `callback_url`, `method`, `headers` and `body`. The export of its
database is read too: `_id` and dates are objects there.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from onbeat.cli.imports.documents import (
    Document,
    is_list,
    read_documents,
    text_of,
    unknown_fields,
)
from onbeat.cli.imports.records import ImportOptions, ImportResult, SourceRule, first_line
from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.recurrence import Recurrence, compile_spec, needs_anchor, parse_recurrence

KNOWN: Final = frozenset(
    {"_id", "id", "name", "rrule", "dtstart", "exdate", "callback_url", "method",
     "headers", "body", "created_at", "updated_at", "last_event_time"}
)  # fmt: skip


class CalendarRule(msgspec.Struct, frozen=True):
    """The rule by RFC 5545, which the source follows but for clocks that change."""

    recurrence: Recurrence

    def take(self, count: int, after: datetime) -> list[datetime]:
        return self.recurrence.take(count, after)


def read_rrule_scheduler(text: str, _options: ImportOptions) -> ImportResult:
    result = ImportResult()
    for document in read_documents(text, "schedules"):
        read_document(document, result)
    if result.schedules:
        tell_habits(result)
    return result


def read_document(document: Document, result: ImportResult) -> None:
    value, line = document.value, document.line
    name, url = text_of(value.get("name")), text_of(value.get("callback_url"))
    rule = text_of(value.get("rrule"))
    if name is None or url is None or rule is None:
        result.lose(
            "schedule", "a document without name, rrule or callback_url", "complete it", line=line
        )
        return
    key = result.key_for(name)
    block = block_of(rule, value)
    body: dict[str, Any] = {"name": name, "rrule": block, "callback_url": url}
    body |= {field: value[field] for field in ("method", "headers", "body") if value.get(field)}
    if unknown := unknown_fields(value, KNOWN):
        result.lose(
            "field", f"has {first_line(unknown)}", "a field of the schedule, by hand",
            line=document.line_of(unknown[0]), key=key,
        )  # fmt: skip
    result.add(key, body, line, source_rule(block, document, result, key))


def block_of(rule: str, value: Mapping[str, Any]) -> str:
    """The rule with the start and the exceptions that stand in fields of their own."""
    lines = [rule.strip()]
    if start := text_of(value.get("dtstart")):
        lines.insert(0, start if start.startswith("DTSTART") else f"DTSTART:{basic(start)}")
        lines[1] = lines[1] if lines[1].startswith("RRULE") else f"RRULE:{lines[1]}"
    dates = value.get("exdate")
    given = map(text_of, dates if is_list(dates) else [dates])
    texts = [text for text in given if text]
    if texts:
        lines[-1] = lines[-1] if ":" in lines[-1] else f"RRULE:{lines[-1]}"
        lines += [one if one.startswith("EXDATE") else f"EXDATE:{basic(one)}" for one in texts]
    return "\n".join(lines)


def basic(text: str) -> str:
    """`2026-01-31T09:00:00Z` in the form of iCalendar."""
    return text.replace("-", "").replace(":", "")


def source_rule(
    block: str, document: Document, result: ImportResult, key: str
) -> SourceRule | None:
    line = document.line_of("rrule")
    try:
        spec = parse_recurrence(rrule=block)
        if needs_anchor(spec):
            result.differ(
                "no DTSTART", "counts from each scan: fires never, or several times",
                "counts from the creation of the schedule", "give DTSTART, for a time of day",
                line=line, key=key,
            )  # fmt: skip
            return None
        tell_elapsed(block, result, key, line)
        return CalendarRule(compile_spec(spec))
    except (BadRecurrence, TooCostly):
        # The schedule is checked as a whole later, and refused with the reason.
        return None


def tell_elapsed(block: str, result: ImportResult, key: str, line: int) -> None:
    if "TZID=" not in block:
        return
    result.differ(
        "changed clocks", "a time in a gap runs an hour early; hourly rules pause in a fold",
        "a time in a gap runs as far after it; hours are elapsed time", "dst_gap: skip, or end",
        line=line, key=key,
    )  # fmt: skip


def tell_habits(result: ImportResult) -> None:
    result.differ_once(
        "failed callback", "any HTTP answer counts as success", "only 2xx is success",
        "answer 2xx to what was taken",
    )  # fmt: skip
    result.differ_once(
        "retries", "three tries in all, at once", "the service's retry policy, with delays",
        "retry: {attempts_max: 3}",
    )  # fmt: skip
    result.differ_once(
        "callback timeout", "waits for ever", "ends after the service's default",
        f"timeout: {int(timedelta(minutes=5).total_seconds())}s",
    )  # fmt: skip
    result.differ_once(
        "missed run", "lost while its prequeuer is down", "runs the latest one, late",
        "catch_up: none, or all",
    )  # fmt: skip
