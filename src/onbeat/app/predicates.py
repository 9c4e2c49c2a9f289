"""Conditions and windows as Python gives them; functions as conditions, by name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from onbeat.model.condition import Condition, Window
from onbeat.model.errors import Invalid
from onbeat.model.limits import WINDOWS_MAX
from onbeat.rules.condition import PREDICATES
from onbeat.targets.context import Context
from onbeat.targets.handler import Handler
from onbeat.wire.conditions import (
    ConditionBody,
    WindowBody,
    read_condition,
    read_window,
    window_fields,
)

Predicate = Callable[[Context], Any]
"""A function, plain or a coroutine, that says whether a job may start."""

ConditionText = str | Condition | Mapping[str, object] | Predicate
"""A CEL text, a `Condition`, the fields of one, or a predicate."""

WindowText = str | Mapping[str, str]
"""A window in one line, such as `MON-FRI 09:00-18:00 Europe/Berlin`, or its fields."""

HANDLERS: Final[dict[str, Handler]] = {}
"""The predicates of this process, by their lanes."""


def condition_of(field: str, value: ConditionText) -> Condition:
    """The condition. A predicate is registered under its name."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, str):
        return checked(ConditionBody(text=value), field)
    if callable(value):
        return Condition(predicate=register_predicate(value, field))
    return checked(body_of(ConditionBody, value, field), field)


def checked(body: ConditionBody, field: str) -> Condition:
    condition = read_condition(body, field)
    assert condition is not None, "there is a body"
    return condition


def window_of(
    field: str, value: WindowText | Window | Sequence[WindowText | Window]
) -> tuple[Window, ...]:
    given = [value] if isinstance(value, (str, Mapping, Window)) else list(value)
    if len(given) > WINDOWS_MAX:
        raise Invalid(f"{field} may have at most {WINDOWS_MAX} windows", field)
    many = len(given) > 1
    return tuple(
        one if isinstance(one, Window) else one_window(f"{field}[{n}]" if many else field, one)
        for n, one in enumerate(given)
    )


def one_window(field: str, value: WindowText) -> Window:
    fields = window_fields(value, field) if isinstance(value, str) else value
    return read_window(body_of(WindowBody, fields, field), field)[0]


def body_of(form: type[msgspec.Struct], fields: object, field: str) -> Any:
    """The fields of a request. Raises `Invalid` for anything else: callers are not type-checked."""
    try:
        return msgspec.convert(fields, form)
    except msgspec.ValidationError as error:
        raise Invalid(f"{field}: {error}", field) from None


def register_predicate(function: Predicate, field: str) -> str:
    """The name of the function, under which workers find it."""
    name = f"{function.__module__}.{getattr(function, '__qualname__', '<lambda>')}"
    if "<" in name:
        raise Invalid(
            f"{field} must be a function at the top of a module: workers find it by its name", field
        )
    HANDLERS[PREDICATES + name] = Handler(PREDICATES + name, judge_of(function))
    return name


def judge_of(function: Predicate) -> Callable[[Context], Any]:
    """The function in the form of a handler, whatever its annotations."""
    if inspect.iscoroutinefunction(function):

        async def judge_async(context: Context) -> object:
            return await function(context)

        return judge_async

    def judge(context: Context) -> object:
        return function(context)

    return judge


def sensitive_of(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{field} must be true or false", field)
    return value
