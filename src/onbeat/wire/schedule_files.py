"""Schedules as a file: by key, in the fields of REST."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.limits import FILE_SCHEDULES_MAX, LABEL_CHARS_MAX
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import ScheduleSpec
from onbeat.wire.schedules import ScheduleAnswer, ScheduleBody
from onbeat.wire.values import ReadOnly, span_text

FILE_LABEL: Final = "onbeat.file"
"""The label of schedules that come from a file with a name; its value is that name."""

ANSWERED_TWICE: Final = frozenset({"callback_url", "method", "headers", "body"})
"""Fields of an answer that `target` has, too."""

WRITTEN: Final = tuple(
    name
    for name in ScheduleAnswer.__struct_fields__
    if ScheduleBody.__annotations__[name] is not ReadOnly and name not in ANSWERED_TWICE
)


class ScheduleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says: the body of a PUT for each key. `name` marks what came from the file."""

    schedules: dict[str, dict[str, Any]]
    name: str | None = None

    def bodies(self) -> dict[str, dict[str, Any]]:
        """The bodies as they are sent: with the label of the file, if it has a name."""
        return {key: labelled(key, body, self.name) for key, body in self.schedules.items()}


def labelled(key: str, body: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    labels: Any = body.get("labels") or {}
    if not isinstance(labels, dict):
        return dict(body)  # which the service refuses
    if name is None:
        return dict(body)
    if FILE_LABEL in labels:
        raise Invalid("this label is that of the file's name", f"{key}.labels.{FILE_LABEL}")
    return {**body, "labels": {**labels, FILE_LABEL: name}}


def read_schedule_file(content: Any) -> ScheduleFile:
    """The file from its JSON values. Raises `Invalid`, which names the place."""
    try:
        file = msgspec.convert(content, ScheduleFile)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise Invalid(message, place.strip("`.") or "the file") from None
    if len(file.schedules) > FILE_SCHEDULES_MAX:
        raise Invalid(f"a file has at most {FILE_SCHEDULES_MAX} schedules", "schedules")
    if file.name is not None and not 0 < len(file.name) <= LABEL_CHARS_MAX:
        raise Invalid(f"a name has 1 to {LABEL_CHARS_MAX} characters", "name")
    return file


def written_schedule(answer: Mapping[str, Any], file: str | None = None) -> dict[str, Any]:
    """A schedule of the API as a file of this name has it: without defaults and what follows."""
    body = {
        name: answer[name] for name in WRITTEN if name in answer and not is_default(name, answer)
    }
    if body.get("name") == body.pop("key", None):
        del body["name"]
    known = None if file is None else FILE_LABEL
    labels = {name: text for name, text in answer["labels"].items() if name != known}
    return body | ({"labels": labels} if labels else {})


def file_of(answer: Mapping[str, Any]) -> str | None:
    """The name of the file that a schedule of the API came from, if it came from one."""
    name: str | None = answer["labels"].get(FILE_LABEL)
    return name


def is_default(name: str, answer: Mapping[str, Any]) -> bool:
    """A retry policy always stands: its default is a setting of the service."""
    value = answer[name]
    return name == "labels" or value is None or bool(value == DEFAULTS.get(name))


def defaults() -> dict[str, Any]:
    fields = {field.name: field.default for field in msgspec.structs.fields(ScheduleSpec)}
    names = ("catch_up", "overlap", "queue", "priority")
    plain: dict[str, Any] = msgspec.to_builtins({name: fields[name] for name in names})
    return plain | {"jitter": span_text(timedelta()), "status": "active", **rule_defaults()}


def rule_defaults() -> dict[str, Any]:
    fields = {field.name: field.default for field in msgspec.structs.fields(RecurrenceSpec)}
    return {name: fields[name] for name in ("dst_gap", "dst_fold")}


DEFAULTS: Final = defaults()
