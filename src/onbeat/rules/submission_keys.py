"""What submissions of a remote task must have, and the unique keys of their jobs."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from onbeat.model.errors import Invalid
from onbeat.model.limits import KEY_CHARS_MAX
from onbeat.model.remote_task import RemoteTask

PLACE: Final = re.compile(r"\{([^{}]*)\}")
RESERVED: Final = ("args", "attempt")
"""Params of calls of work that have a meaning of their own: see the wire protocol."""
PARAM: Final = re.compile(r"[^\W\d]\w*")


def params_in(template: str, field: str) -> tuple[str, ...]:
    """The params that a key is made of. Raises `Invalid`."""
    names = tuple(dict.fromkeys(PLACE.findall(template)))
    rest = PLACE.sub("", template)
    if "{" in rest or "}" in rest or not all(map(PARAM.fullmatch, names)):
        raise Invalid(
            f"{field}: braces of a key have the name of a param, as in export:{{objectID}}", field
        )
    return names


def needed_params(task: RemoteTask) -> tuple[str, ...]:
    """The params that every submission of the task must have."""
    named = () if task.key is None else params_in(task.key, "key")
    return tuple(dict.fromkeys((*task.requires, *named)))


def check_params(task: RemoteTask, params: Mapping[str, object] | None) -> None:
    """Raises `Invalid` for the first param that is missing or null; None are positional params."""
    for name in needed_params(task):
        if params is None or params.get(name) is None:
            field = f"params.{name}"
            raise Invalid(f"{field} is missing: submissions of {task.name} need it", field)


def refuse_reserved(task: str, names: Collection[str], field: str) -> None:
    """Raises `Invalid` for a keyword argument that a remote worker could not tell from Onbeat's."""
    for name in RESERVED:
        if name in names:
            raise Invalid(
                f"{field}.{name}: calls of the remote task {task} have a param {name} of Onbeat's "
                "own; give the argument another name",
                f"{field}.{name}",
            )


def key_of(task: RemoteTask, params: Mapping[str, object]) -> str | None:
    """The unique key of a job with these params. Raises `Invalid` for one that cannot be in it."""
    if task.key is None:
        return None
    key = PLACE.sub(lambda place: plain(place[1], params[place[1]]), task.key)
    if not key.strip() or len(key) > KEY_CHARS_MAX or not key.isprintable():
        raise Invalid(
            f"params: the key of {task.name}, {task.key}, has 1 to {KEY_CHARS_MAX} printable "
            "characters; these params make another",
            "params",
        )
    return key


def plain(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int():
            return str(value)
        case _:
            field = f"params.{name}"
            raise Invalid(
                f"{field} is part of the job's key, so it must be a text, a whole number, true or "
                "false",
                field,
            )
