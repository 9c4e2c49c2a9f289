"""The form of a schedule: from an answer to texts, and from texts to a request."""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.dashboard.formats import machine_moment, typed
from onbeat.dashboard.forms import Texts, list_of, object_of, whole_number
from onbeat.dashboard.target_forms import (
    TARGET_FIELDS,
    field_of_target,
    pretty,
    target_of,
    target_texts,
    without_secrets,
)
from onbeat.model.errors import Invalid
from onbeat.wire.jobs import JobInfo
from onbeat.wire.recurrences import BAD_RRULE, NO_RRULE
from onbeat.wire.schedules import BAD_URL, NO_NAME, ScheduleAnswer

KINDS: Final = {
    "cron": "cron",
    "rrule": "RRULE",
    "every": "every so long",
    "at": "once, at",
    "on": "events, as JSON",
}
PLAIN: Final = (
    *("name", "key", "timezone", "dst_gap", "dst_fold", "start", "starts_at", "ends_at"),
    *("queue", "overlap", "catch_up", "grace", "jitter", "expires_after", "timeout"),
)
"""Fields whose text is their value; blank stands for none."""
RULE_FIELDS: Final = ("kind", "rule")
OTHER_FIELDS: Final = ("priority", "labels", "attempts_max", "more")
SCHEDULE_FIELDS: Final = (*PLAIN, *RULE_FIELDS, *TARGET_FIELDS, *OTHER_FIELDS)
DEFAULTS: Final = {"kind": "cron", "target_kind": "task", "method": "GET"}
PARTS: Final = {"rule": frozenset({*KINDS, "recurrence"}), "attempts_max": frozenset({"retry"})}
FIELD_OF_TEXT: Final = {NO_NAME: "name", NO_RRULE: "rule", BAD_RRULE: "rule", BAD_URL: "url"}
"""Fixed messages that name no field."""
COPY: Final = "Copy of "


def schedule_texts(answer: ScheduleAnswer) -> dict[str, str]:
    """The fields of the form for a schedule, as answers show it."""
    plain = {name: text_of(getattr(answer, name)) for name in PLAIN}
    kind = next((one for one in KINDS if getattr(answer, one) is not UNSET), DEFAULTS["kind"])
    rule = getattr(answer, kind)
    return {
        **dict.fromkeys(SCHEDULE_FIELDS, ""),
        **DEFAULTS,
        **plain,
        "kind": kind,
        "rule": text_of(rule) if isinstance(rule, str | UnsetType) else pretty(rule),
        **target_texts(answer.target),
        **common_texts(answer, answer.retry.attempts_max),
    }


def common_texts(answer: ScheduleAnswer | JobInfo, attempts_max: int) -> dict[str, str]:
    """The fields that jobs have, too."""
    return {
        "queue": answer.queue,
        "priority": str(answer.priority),
        "attempts_max": str(attempts_max),
        "labels": pretty(answer.labels) if answer.labels else "",
    }


def copied_texts(answer: ScheduleAnswer) -> tuple[dict[str, str], bool]:
    """The same for a copy of it, without key and secrets; says whether something is left out."""
    target, has_secrets = without_secrets(answer.target)
    texts = schedule_texts(msgspec.structs.replace(answer, target=target))
    return {**texts, "key": "", "name": COPY + texts["name"]}, has_secrets


def text_of(value: object) -> str:
    match value:
        case None | msgspec.UNSET:
            return ""
        case datetime():
            return machine_moment(value)
        case _:
            return str(value)


def new_body(texts: Texts) -> dict[str, Any]:
    """The request that creates the schedule. Raises `Invalid` with the name of the form's field."""
    given = {name: text for name in PLAIN if (text := texts.get(name, "").strip())}
    body = {**given, **rule_of(texts), "target": target_of(texts), **numbers(texts)}
    return {**body, **more_of(texts, body)}


def changed_body(texts: Texts, before: Texts) -> dict[str, Any]:
    """The request that makes the schedule as typed, where that differs from `before`."""
    changed = {name for name in SCHEDULE_FIELDS if differs(texts, before, name)}
    # What a browser cannot hold, such as control characters, stays where nobody changed the field.
    whole = {**before, **{name: texts[name] for name in changed}}
    body: dict[str, Any] = {name: whole[name].strip() or None for name in PLAIN if name in changed}
    if changed.intersection(RULE_FIELDS):
        body |= rule_of(whole)
    if changed.intersection(TARGET_FIELDS):
        body["target"] = target_of(whole)
    given = numbers(whole)
    names = {"priority": "priority", "labels": "labels", "attempts_max": "retry"}
    for field, name in names.items():
        if field in changed:
            body[name] = given.get(name)
    return {**body, **more_of(texts, body)}


def differs(texts: Texts, before: Texts, name: str) -> bool:
    """A field that the form did not have is as before."""
    return name in texts and typed(texts[name]).strip() != typed(before.get(name, "")).strip()


def rule_of(texts: Texts) -> dict[str, Any]:
    kind, rule = texts.get("kind", ""), texts.get("rule", "").strip()
    if kind not in KINDS:
        raise Invalid(f"This must be one of {', '.join(KINDS)}", "kind")
    if not rule:
        raise Invalid("Say when it runs", "rule")
    if kind != "on":
        return {kind: rule}
    return {"on": list_of(texts, "rule") if rule.startswith("[") else object_of(texts, "rule")}


def numbers(texts: Texts) -> dict[str, Any]:
    """The fields of a request that are no texts, and that jobs have, too."""
    priority, attempts = whole_number(texts, "priority"), whole_number(texts, "attempts_max")
    found = {
        "priority": priority,
        "labels": object_of(texts, "labels"),
        "retry": None if attempts is None else {"attempts_max": attempts},
    }
    return {name: value for name, value in found.items() if value is not None}


def more_of(texts: Texts, body: dict[str, Any]) -> dict[str, Any]:
    """Further fields as JSON, which are in no other field of the form."""
    more = object_of(texts, "more") or {}
    for name in more:
        if name in body:
            raise Invalid(f"{name} is given above, too", "more")
    return more


def preview_body(texts: Texts) -> dict[str, Any]:
    """The request for a preview of the rule alone."""
    zone = {
        name: text
        for name in ("start", "timezone", "dst_gap", "dst_fold")
        if (text := texts.get(name, "").strip())
    }
    return {**rule_of(texts), **zone}


def fault_of(error: Invalid) -> tuple[str, str]:
    """The field of the form that an error is about, "" for none, and what to show there."""
    path, text = error.field, str(error)
    shown = f"{text}: {error.detail}" if error.detail else text
    if text in FIELD_OF_TEXT:
        return FIELD_OF_TEXT[text], shown
    if path in SCHEDULE_FIELDS and path != "target":
        return path, shown
    first, _, rest = path.partition(".")
    if first == "target":
        return field_of_target(rest), shown
    for field, names in PARTS.items():
        if first in names:
            return field, shown
    if first in SCHEDULE_FIELDS:
        return first, shown
    return ("more" if first else ""), shown
