"""The part of a form that says what a job does: a task, a callback, or any target as JSON."""

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from onbeat.dashboard.formats import CONTROLS, CONTROLS_OF_DIRECTION
from onbeat.dashboard.forms import Texts, list_of, object_of
from onbeat.model.credentials import HIDDEN, NOT_SHOWN
from onbeat.model.errors import Invalid
from onbeat.wire.targets import TargetAnswer

TARGET_FIELDS: Final = (
    *("target_kind", "task", "args", "kwargs"),
    *("url", "method", "headers", "body", "success", "redirects", "connect_timeout", "target"),
)
HTTP_FIELDS: Final = frozenset(TARGET_FIELDS[4:-1])
TARGET_KINDS: Final = {"task": "a task", "http": "an HTTP callback", "json": "a target as JSON"}
LINE_CHARS_MAX: Final = 60
COUNT_DIGITS_MAX: Final = 9
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")


def target_texts(answer: TargetAnswer) -> dict[str, str]:
    """The fields of a target, as answers show it."""
    plain = msgspec.json.decode(msgspec.json.encode(answer))
    if "task" in plain and not plain.get("encrypted"):
        args, kwargs = plain.get("args"), plain.get("kwargs")
        return {
            "target_kind": "task",
            "task": plain["task"],
            "args": pretty(args) if args else "",
            "kwargs": pretty(kwargs) if kwargs else "",
        }
    if "http" in plain:
        http = plain["http"]
        return {
            "target_kind": "http",
            "url": http["url"],
            "method": http.get("method", "GET"),
            "headers": pretty(http["headers"]) if http.get("headers") else "",
            "body": http.get("body") or "",
            "success": statuses_text(http.get("success", ())),
            "redirects": str(http.get("redirects") or ""),
            "connect_timeout": http.get("connect_timeout") or "",
        }
    return {"target_kind": "json", "target": pretty(plain)}


def target_of(texts: Texts) -> dict[str, Any]:
    """The target as a request has it. Raises `Invalid` with the name of the form's field."""
    match texts.get("target_kind", "task"):
        case "http":
            http = {
                "url": texts.get("url", "").strip(),
                "method": texts.get("method") or None,
                "headers": object_of(texts, "headers"),
                "body": texts.get("body") or None,
                "success": statuses_of(texts.get("success", "")),
                "redirects": count_of(texts, "redirects"),
                "connect_timeout": texts.get("connect_timeout", "").strip() or None,
            }
            return {"http": {name: value for name, value in http.items() if value is not None}}
        case "json":
            return object_of(texts, "target") or {}
        case "task":
            task = {
                "task": texts.get("task", "").strip(),
                "args": list_of(texts, "args"),
                "kwargs": object_of(texts, "kwargs"),
            }
            return {name: value for name, value in task.items() if value is not None}
        case _:
            raise Invalid(f"This must be one of {', '.join(TARGET_KINDS)}", "target_kind")


def statuses_text(statuses: str | Sequence[str | int]) -> str:
    return statuses if isinstance(statuses, str) else ", ".join(map(str, statuses))


def statuses_of(text: str) -> list[str] | None:
    return [one.strip() for one in text.split(",") if one.strip()] or None


def count_of(texts: Texts, name: str) -> int | None:
    text = texts.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX):
        raise Invalid("This must be a whole number", name)
    return int(text)


def without_secrets(answer: TargetAnswer) -> tuple[TargetAnswer, bool]:
    """The target for a copy: what answers hide is left out. Says whether anything was."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    kept = cast("dict[str, Any]", visible(plain))
    is_partial = kept != plain
    http = cast("dict[str, Any]", kept.get("http", {}))
    if http.pop("secret_set", False) or HIDDEN in http.get("url", ""):
        is_partial = True
    return msgspec.json.decode(msgspec.json.encode(kept), type=TargetAnswer), is_partial


def visible(value: object) -> object:
    """The value without members that are hidden."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: visible(one) for name, one in members.items() if not is_hidden(one)}
    if isinstance(value, list):
        return [visible(one) for one in cast("list[object]", value) if not is_hidden(one)]
    return value


def is_hidden(value: object) -> bool:
    return isinstance(value, str) and value in {HIDDEN, NOT_SHOWN}


def pretty(value: object) -> str:
    """JSON for people, in one line where it is short; its unusual characters are escapes."""
    written = msgspec.json.encode(value)
    text = msgspec.json.format(written, indent=2 if len(written) > LINE_CHARS_MAX else 0).decode()
    return text.translate(CONTROLS | CONTROLS_OF_DIRECTION)


def field_of_target(path: str) -> str:
    """The field of the form for the path of a field in a request's target."""
    kind, _, rest = path.partition(".")
    first = rest.partition(".")[0]
    if kind == "http":
        return first if first in HTTP_FIELDS else "url"
    return kind if kind in {"task", "args", "kwargs"} else "target"
