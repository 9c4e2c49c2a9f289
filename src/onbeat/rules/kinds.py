"""Checks the kinds of values that a program gives to a record, by the record's annotations."""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from onbeat.model.errors import Invalid

EXAMPLES: Final[Mapping[type, str]] = {
    timedelta: "a timedelta, such as timedelta(seconds=30)",
    str: "text",
    int: "a whole number",
    bool: "True or False",
    NoneType: "None",
}


def check_kinds(record: msgspec.Struct) -> None:
    """Raises `Invalid` for the first field whose value is of another kind than its annotation."""
    owner = type(record)
    for field, hint in hints_of(owner).items():
        value = getattr(record, field)
        if not fits(value, hint):
            raise Invalid(
                f"{owner.__name__}: {field} must be {wanted(hint)}, not {short(value)}", field
            )


@cache
def hints_of(owner: type[msgspec.Struct]) -> Mapping[str, Any]:
    hints = get_type_hints(owner)
    return {field: hints[field] for field in owner.__struct_fields__}


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of the kind; a list will do for a tuple, and a set for a frozenset."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is None:
        return is_of(value, hint)
    if isinstance(value, (str, bytes)):
        return False
    if issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return False
        return all_fit_in(value, *inner)  # pyright: ignore[reportUnknownArgumentType]
    return is_group(value, origin) and all_fit(value, inner[0])


def all_fit_in(values: Mapping[Any, Any], key: Any, kind: Any) -> bool:
    return all_fit(values.keys(), key) and all_fit(values.values(), kind)


def is_of(value: object, kind: type) -> bool:
    """The text of a name in an enumeration will do for the name."""
    if issubclass(kind, StrEnum):
        return isinstance(value, str) and value in list(kind)
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)


def is_group(value: object, origin: type) -> bool:
    kind = AbstractSet if issubclass(origin, AbstractSet) else Collection
    return isinstance(value, kind) and not isinstance(value, Mapping)


def all_fit(values: object, kind: Any) -> bool:
    return all(fits(one, kind) for one in cast("Iterable[object]", values))


def wanted(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return " or ".join(wanted(one) for one in inner)
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is None and issubclass(hint, StrEnum):
        return f"one of {', '.join(hint)}"
    if origin is None:
        return EXAMPLES.get(hint, f"of the type {hint.__name__}")
    if issubclass(origin, Mapping):
        return f"a mapping of names to values, each {wanted(inner[1])}"
    return f"a {origin.__name__.lower()} of values, each {wanted(inner[0])}"


def short(value: object) -> str:
    """The beginning of a value, for a message; a long one could be a secret file or a table."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
