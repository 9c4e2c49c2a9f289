"""The choices of a field, found in the type of its record by the path in an error of msgspec."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

CHOICES_SHOWN_MAX: Final = 12
"""A longer list would hide what is wrong."""

STEP: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<place>\d+|\.\.\.)\]")
"""One step of a path such as `$.jobs[0].name` or `$.headers[...]`: a field, an item, a value."""


def choices_at(type: object, path: str) -> tuple[str, ...]:
    """What may stand at `path` in a record of `type`, as declared; empty unless few choices may."""
    found: list[object] = [type]
    for step in STEP.finditer(path):
        found = [inner for one in flat(found) for inner in inside(one, step["name"])]
    choices = tuple(dict.fromkeys(str(text) for one in flat(found) for text in choices_of(one)))
    return choices if len(choices) <= CHOICES_SHOWN_MAX else ()


def flat(types: Iterable[object]) -> Iterator[object]:
    """The types without their descriptions and bounds; those of a union one by one."""
    for one in types:
        if get_origin(one) is Annotated:
            yield from flat(get_args(one)[:1])
        elif get_origin(one) in {Union, UnionType}:
            yield from flat(get_args(one))
        else:
            yield one


def inside(one: Any, name: str | None) -> Sequence[object]:
    """The types of the field of that name; without a name, those of the items or values."""
    if name is not None:
        fields = msgspec.structs.fields(one) if is_class(one, msgspec.Struct) else ()
        return [field.type for field in fields if field.encode_name == name]
    arguments = [argument for argument in get_args(one) if argument is not ...]
    return arguments[1:] if is_class(get_origin(one), Mapping) else arguments


def choices_of(one: Any) -> Iterable[object]:
    if get_origin(one) is Literal:
        return get_args(one)
    return [choice.value for choice in one] if is_class(one, Enum) else ()


def is_class(one: object, base: type) -> bool:
    return isinstance(one, type) and issubclass(one, base)
