"""A Python function as a handler: its codec, and where it runs."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from onbeat.model.errors import Invalid
from onbeat.targets.arguments import Codec, decoder_for, hints_of
from onbeat.targets.context import Context
from onbeat.targets.distributing import FanOut
from onbeat.targets.program import Program


class Isolation(msgspec.Struct, frozen=True):
    """A process of its own for each running attempt, with at most so many bytes of memory."""

    memory_bytes: int | None = None


class Handler:
    """A function registered under a task name, and where it runs.

    One that `yields` is a distributor: what it yields are calls. Raises `Invalid` for one that is
    to run in a process of its own.
    """

    def __init__(
        self, task: str, function: Callable[..., Any], isolation: Isolation | None = None
    ) -> None:
        self.task = task
        self.function = function
        self.isolation = isolation
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

    def result_kind(self) -> Any:
        return FanOut if self.yields else hints_of(self.function).get("return", Any)

    def decode_result(self, packed: bytes) -> Any:
        """The result as the function's annotation says it is."""
        return self.results.decode(packed)


class Registry:
    """The tasks that this process knows, by name, and the program that they belong to."""

    def __init__(self, program: Program | None = None) -> None:
        self.program = program
        self.handlers: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Raises ValueError when another function has the name already."""
        known = self.handlers.get(handler.task)
        if known is not None and known.function is not handler.function:
            raise ValueError(
                f"task {handler.task!r} is registered already, by {known.function.__qualname__}; "
                "give one of them another name"
            )
        self.handlers[handler.task] = handler

    def tasks(self) -> frozenset[str]:
        return frozenset(self.handlers)
