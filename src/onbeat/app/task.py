"""A function as a task: still just a function, and a way to send calls of it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from onbeat.app.calls import Call, JobOptions, Span, options
from onbeat.app.handle import Job
from onbeat.model.ids import JobId
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget
from onbeat.targets.context import Context
from onbeat.targets.distributing import FanOut
from onbeat.targets.handler import Handler

Params = ParamSpec("Params")
Returned = TypeVar("Returned")
Result = TypeVar("Result")


class Sender(Protocol):
    """What sends calls: the `Onbeat` that the task belongs to."""

    def send_call(self, call: Call[Result]) -> Job[Result]: ...

    async def asend_call(self, call: Call[Result]) -> Job[Result]: ...

    def within(self, connection: object) -> "Sender": ...


class Task(Generic[Params, Returned, Result]):
    """Calling it calls the function. `send` and `asend` store a job of it instead.

    `Returned` is what the function returns (an awaitable for a coroutine function, a generator for
    one that yields calls), `Result` what its job will result in.
    """

    def __init__(
        self,
        sender: Sender,
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
        """The call, not made yet.

        Raises TypeError when the arguments do not fit the function, `Invalid` when one of them
        cannot be stored as JSON, naming it.
        """
        packed_args, packed_kwargs = self.handler.codec.encode(args, kwargs)
        return Call(HandlerTarget(self.name, packed_args, packed_kwargs), self.defaults)

    def send(self, *args: Params.args, **kwargs: Params.kwargs) -> Job[Result]:
        """Store a job of this call and return when it is durable. Raises as `call` does."""
        return self.sender.send_call(self.call(*args, **kwargs))

    async def asend(self, *args: Params.args, **kwargs: Params.kwargs) -> Job[Result]:
        """Store a job of this call and return when it is durable. Raises as `call` does."""
        return await self.sender.asend_call(self.call(*args, **kwargs))

    def within(self, connection: object) -> "Task[Params, Returned, Result]":
        """The same task, whose jobs are sent in the transaction that `connection` is in.

        Raises TypeError for what is no connection known here, naming what is.
        """
        return Task(self.sender.within(connection), self.handler, self.function, self.defaults)

    def options(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: Span | None = None,
        delay: Span | None = None,
        run_at: datetime | None = None,
        unique: str | None = None,
        expires_in: Span | None = None,
        after: tuple[JobId, ...] | None = None,
        labels: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> "Task[Params, Returned, Result]":
        """The same task with these options for the jobs sent through it.

        Raises `Invalid` naming the option that cannot be right.
        """
        said = options(
            self.defaults,
            queue=queue,
            priority=priority,
            retry=retry,
            timeout=timeout,
            delay=delay,
            run_at=run_at,
            unique=unique,
            expires_in=expires_in,
            after=after,
            labels=labels,
            group=group,
        )
        return Task(self.sender, self.handler, self.function, said)


AnyTask = Task[..., Any, Any]

__all__ = ["AnyTask", "Context", "FanOut", "Params", "Task"]
