"""What is known of a setting beside its type, and the list of all settings."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Final, cast, get_type_hints

import msgspec

from onbeat.settings.readers import truth
from onbeat.wire.values import span_text

ENVIRONMENT_PREFIX: Final = "ONBEAT_"
LEVEL_SEPARATOR: Final = "__"


class Key(msgspec.Struct, frozen=True):
    """Stands beside a field of a settings record, in its `Annotated`.

    `read` turns what was written (text, or what YAML makes of it) into the field's value, or raises
    `ValueError` saying what it must be. `flag` is "" where the flag is the key's own name, None
    where there is none: what a command line holds, every user of the machine can read. `unset` is
    how the documentation writes a default of None or of nothing.
    """

    meaning: str
    read: Callable[[object], object]
    flag: str | None = ""
    secret: bool = False
    unset: str = "none"


class Setting(msgspec.Struct, frozen=True):
    """One row of the settings table."""

    path: str
    key: Key
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
    """Every setting in the record and the records inside it, in the order they are written."""
    hints = get_type_hints(record, include_extras=True)
    for field in msgspec.structs.fields(record):
        default = field_default(field)
        if isinstance(default, msgspec.Struct):
            yield from settings_of(type(default), f"{prefix}{field.name}.")
            continue
        (key,) = hints[field.name].__metadata__
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
        case tuple():
            return ",".join(default_text(item, unset) for item in cast("tuple[object, ...]", value))
        case _:
            return str(value)
