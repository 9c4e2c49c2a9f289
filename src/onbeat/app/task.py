"""A function as a task: callable as before, with methods to send calls of it."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, cast

from onbeat.app.call import READERS, Call, CallOptions, JobOptions, check_keywords, options
from onbeat.app.handle import JobHandle
from onbeat.model.target import HandlerTarget
from onbeat.targets.context import CURRENT, Context
from onbeat.targets.event import HandlerEvent
from onbeat.targets.fan_out import FanOut
from onbeat.targets.handler import Handler

Params = ParamSpec("Params")
Direct = ParamSpec("Direct")
Returned = TypeVar("Returned")
Result = TypeVar("Result")

Event = HandlerEvent
"""An event, as a task gets it for a parameter annotated `Event`, `Event[Data]` or `list[Event]`."""

Given = TypeVar("Given", Event[Any], list[Event[Any]])
"""What the worker gives to a parameter for events."""


class Anything:
    """Only a parameter for any value takes it; what follows it in a task is then not checked.

    Otherwise type checkers would take such a parameter for that of the context or the events.
    """


class CallSender(Protocol):
    """Sends calls: the `Onbeat` of the task."""

    def send_call(self, call: Call[Result]) -> JobHandle[Result]: ...

    async def asend_call(self, call: Call[Result]) -> JobHandle[Result]: ...

    def in_transaction(self, connection: object) -> "CallSender": ...


class Task(Generic[Params, Returned, Result]):
    """Calling it calls the function. `send` and `asend` store a job of it instead.

    `Returned` is the function's return type (an awaitable for a coroutine function, a generator for
    one that yields calls), `Result` is the type of its job's result.
    """

    def __init__(
        self,
        sender: CallSender,
        handler: Handler,
        function: Callable[Params, Returned],
        defaults: JobOptions,
    ) -> None:
        self.sender = sender
        self.handler = handler
        self.function = function
        self.defaults = defaults
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    @property
    def name(self) -> str:
        return self.handler.task

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Returned:
        return self.function(*args, **kwargs)

    def call(self, *args: Params.args, **kwargs: Params.kwargs) -> Call[Result]:
        """The unsent call.

        Raises TypeError when the arguments do not fit the function, `Invalid` naming an argument
        that cannot be stored as JSON.
        """
        packed_args, packed_kwargs = self.handler.codec.encode(args, kwargs)
        target = HandlerTarget(
            self.name, packed_args, packed_kwargs, encrypted=self.handler.encrypted
        )
        return Call(target, self.defaults)

    def send(self, *args: Params.args, **kwargs: Params.kwargs) -> JobHandle[Result]:
        """Store a job of this call and return when it is durable. Raises as `call` does."""
        return self.sender.send_call(self.call(*args, **kwargs))

    async def asend(self, *args: Params.args, **kwargs: Params.kwargs) -> JobHandle[Result]:
        """Store a job of this call and return when it is durable. Raises as `call` does."""
        return await self.sender.asend_call(self.call(*args, **kwargs))

    def in_transaction(self, connection: object) -> Self:
        """The same task, whose jobs are sent in the transaction of `connection`.

        Raises TypeError for an unsupported connection, naming the supported ones.
        """
        sender = self.sender.in_transaction(connection)
        return type(self)(sender, self.handler, self.function, self.defaults)

    def within(self, connection: object) -> Self:
        """The older name of `in_transaction`, which stays."""
        return self.in_transaction(connection)

    def options(self, **given: Unpack[CallOptions]) -> Self:
        """The same task with these options for the jobs sent through it.

        Raises `Invalid` naming the invalid option.
        """
        check_keywords("Task.options", given, READERS)
        job_options = options(self.defaults, **given)
        return type(self)(self.sender, self.handler, self.function, job_options)


class ContextTask(Task[Params, Returned, Result]):
    """A task whose function takes the `Context` first.

    A direct call passes a context; a sent call has only the arguments after it, and the worker adds
    its own context. So calling and sending have different signatures, which type checkers do not
    allow in a subclass.
    """

    def __call__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, context: Context, /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Returned:
        function = cast("Callable[Concatenate[Context, Params], Returned]", self.function)
        return function(context, *args, **kwargs)


class EventTask(Task[Params, Returned, Result], Generic[Direct, Params, Returned, Result]):
    """A task whose function takes the `Event`, or a list of them, first or after the `Context`.

    A direct call passes all parameters, `Direct`; a sent call has only the arguments after these,
    and the worker adds the events that its job was made for.
    """

    def __call__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *args: Direct.args, **kwargs: Direct.kwargs
    ) -> Returned:
        function = cast("Callable[Direct, Returned]", self.function)
        return function(*args, **kwargs)


AnyTask = Task[..., Any, Any]

AsyncTask = Task[Params, Coroutine[Any, Any, Result], Result]
"""A task of a coroutine function: `AsyncTask[[int], str]` takes an int, its job returns text."""

__all__ = [
    "CURRENT",
    "AnyTask",
    "Anything",
    "AsyncTask",
    "Context",
    "ContextTask",
    "Event",
    "EventTask",
    "FanOut",
    "Given",
    "Params",
    "Task",
]
