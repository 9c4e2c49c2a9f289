"""A Python function as a handler: its codec, and where it runs."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from onbeat.model.errors import Invalid
from onbeat.targets.codec import Codec, decoder_for, hints_of
from onbeat.targets.context import Context
from onbeat.targets.fan_out import FanOut
from onbeat.targets.hooks import Hooks


class Isolation(msgspec.Struct, frozen=True):
    """A separate process for each running attempt, with at most this many bytes of memory."""

    memory_bytes: int | None = None


class Handler:
    """A function registered under a task name, and where it runs.

    With `encrypted`, its arguments are encrypted before they are stored. With `yields` it is a
    distributor, which yields calls. Raises `Invalid` for a distributor with process isolation.
    """

    def __init__(
        self,
        task: str,
        function: Callable[..., Any],
        isolation: Isolation | None = None,
        *,
        encrypted: bool = False,
    ) -> None:
        self.task = task
        self.function = function
        self.isolation = isolation
        self.encrypted = encrypted
        self.codec = Codec(task, function, Context)
        is_generator = inspect.isasyncgenfunction(function)
        self.is_async = is_generator or inspect.iscoroutinefunction(function)
        self.yields = is_generator or inspect.isgeneratorfunction(function)
        if self.yields and isolation is not None:
            raise Invalid(
                f"task {task!r} yields calls, which a process of its own cannot send; "
                "leave out isolation",
                field="isolation",
            )
        self.results = decoder_for(self.result_kind())
        self.hooks: Hooks | None = None  # those of the program, once the task is registered

    def result_kind(self) -> Any:
        return FanOut if self.yields else hints_of(self.function).get("return", Any)

    def decode_result(self, packed: bytes) -> Any:
        """The result, decoded by the function's return annotation."""
        return self.results.decode(packed)


class Registry:
    """The tasks that this process knows, by name, and the hooks round them."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.hooks = Hooks()

    def add(self, handler: Handler) -> None:
        """Raises ValueError when another function already has the name."""
        known = self.handlers.get(handler.task)
        if known is not None and known.function is not handler.function:
            raise ValueError(
                f"task {handler.task!r} is registered already, by {known.function.__qualname__}; "
                "give one of them another name"
            )
        handler.hooks = self.hooks
        self.handlers[handler.task] = handler

    def find(self, task: str) -> Handler | None:
        return self.handlers.get(task)

    def tasks(self) -> frozenset[str]:
        return frozenset(self.handlers)
