"""The metadata of a setting, and the list of all settings."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Final, cast, get_type_hints

import msgspec

from onbeat.model.keep_rule import KeepRule
from onbeat.settings.parsers import truth
from onbeat.wire.values import span_text

ENVIRONMENT_PREFIX: Final = "ONBEAT_"
LEVEL_SEPARATOR: Final = "__"


class SettingInfo(msgspec.Struct, frozen=True):
    """The metadata of a settings field, in its `Annotated` type.

    `read` converts the configured value (text, or a YAML value) to the field's value, or raises
    `ValueError` describing valid values. `flag` is "" where the flag has the key's own name, None
    for no flag: every user of the machine can read a command line. `unset` is how the documentation
    shows a default of None or an empty one.
    """

    meaning: str
    read: Callable[[object], object]
    flag: str | None = ""
    secret: bool = False
    unset: str = "none"


class Setting(msgspec.Struct, frozen=True):
    """One row of the settings table."""

    path: str
    key: SettingInfo
    default: object

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + self.path.upper().replace(".", LEVEL_SEPARATOR)

    @property
    def flag(self) -> str | None:
        derived = "--" + self.path.replace(".", "-").replace("_", "-")
        return derived if self.key.flag == "" else self.key.flag

    @property
    def is_switch(self) -> bool:
        return self.key.read is truth

    @property
    def default_text(self) -> str:
        return default_text(self.default, self.key.unset)


def settings_of(record: type[msgspec.Struct], prefix: str = "") -> Iterator[Setting]:
    """Every setting in the record and its nested records, in order of definition."""
    hints = get_type_hints(record, include_extras=True)
    for field in msgspec.structs.fields(record):
        default = field_default(field)
        if isinstance(default, msgspec.Struct):
            yield from settings_of(type(default), f"{prefix}{field.name}.")
            continue
        for key in getattr(hints[field.name], "__metadata__", ()):
            yield Setting(prefix + field.name, key, default)


def field_default(field: msgspec.structs.FieldInfo) -> object:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return cast("Callable[[], object]", field.default_factory)()


def default_text(value: object, unset: str) -> str:
    match value:
        case None | () | {}:
            return unset
        case bool():
            return str(value).lower()
        case timedelta():
            return span_text(value)
        case Enum():
            return str(value.value)
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return " ".join(f"{name}={default_text(item, unset)}" for name, item in pairs)
        case KeepRule():
            parts = {"queue": value.queue, "state": value.state, "after": span_text(value.after)}
            return " ".join(f"{name}={part}" for name, part in parts.items() if part is not None)
        case tuple():
            return ",".join(default_text(item, unset) for item in cast("tuple[object, ...]", value))
        case _:
            return str(value)
