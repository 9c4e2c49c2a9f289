"""Turns functions into tasks."""

import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Concatenate, TypeVar, overload

from onbeat.app.call import Call, JobOptions, task_name_of
from onbeat.app.registry import TaskRegistry
from onbeat.app.task import (
    AnyTask,
    Anything,
    CallSender,
    Context,
    ContextTask,
    EventTask,
    FanOut,
    Given,
    Params,
    Task,
)
from onbeat.model.errors import Invalid
from onbeat.targets.handler import Handler, Isolation

Result = TypeVar("Result")
Calls = TypeVar("Calls", bound=AsyncIterator[Call[Any]] | Iterator[Call[Any]])


class Registrar:
    """Turns a function into a task with the options of the decorator."""

    def __init__(
        self,
        registry: TaskRegistry,
        sender: CallSender,
        name: str | None,
        options: JobOptions,
        isolation: Isolation | None,
        encrypted: bool,  # noqa: FBT001  passed on from the decorator
    ) -> None:
        self.registry = registry
        self.sender = sender
        self.name = name
        self.task_options = options
        self.isolation = isolation
        self.encrypted = encrypted

    @overload
    def __call__(self, function: Callable[Concatenate[Context, Anything, ...], Any]) -> AnyTask: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Anything, ...], Any]) -> AnyTask: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[Concatenate[Context, Given, Params], Coroutine[Any, Any, Result]]
    ) -> EventTask[
        Concatenate[Context, Given, Params], Params, Coroutine[Any, Any, Result], Result
    ]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[Concatenate[Context, Given, Params], Calls]
    ) -> EventTask[Concatenate[Context, Given, Params], Params, Calls, FanOut]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Given, Params], Result]
    ) -> EventTask[Concatenate[Context, Given, Params], Params, Result, Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Params], Coroutine[Any, Any, Result]]
    ) -> ContextTask[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Params], Calls]
    ) -> ContextTask[Params, Calls, FanOut]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Params], Result]
    ) -> ContextTask[Params, Result, Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Given, Params], Coroutine[Any, Any, Result]]
    ) -> EventTask[Concatenate[Given, Params], Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Given, Params], Calls]
    ) -> EventTask[Concatenate[Given, Params], Params, Calls, FanOut]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Given, Params], Result]
    ) -> EventTask[Concatenate[Given, Params], Params, Result, Result]: ...

    @overload
    def __call__(
        self, function: Callable[Params, Coroutine[Any, Any, Result]]
    ) -> Task[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def __call__(self, function: Callable[Params, Calls]) -> Task[Params, Calls, FanOut]: ...

    @overload
    def __call__(self, function: Callable[Params, Result]) -> Task[Params, Result, Result]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        name = task_name_of("name", default_name(function) if self.name is None else self.name)
        handler = Handler(name, function, self.isolation, encrypted=self.encrypted)
        self.registry.register(handler, self.task_options)
        if handler.codec.context_place == 0:
            return ContextTask[..., Any, Any](self.sender, handler, function, self.task_options)
        return Task[..., Any, Any](self.sender, handler, function, self.task_options)


def default_name(function: Callable[..., Any]) -> str:
    """`module.function`. Raises `Invalid` for what has no name, such as a `functools.partial`."""
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        raise Invalid(f'{function!r:.100} has no name; write beat.task("name")(…)', "name")
    return f"{module_of(function)}.{name}"


def module_of(function: Callable[..., Any]) -> str:
    """The function's module; `__main__` is replaced by the name of the script's file."""
    main = sys.modules.get("__main__")
    if function.__module__ == "__main__" and main is not None and getattr(main, "__file__", None):
        return Path(str(main.__file__)).stem
    return function.__module__
