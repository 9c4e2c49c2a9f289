"""Runs Python functions: coroutines in the worker's loop, plain functions in threads."""

import contextvars
import inspect
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.model.signals import Cancel, Fail, Snooze
from onbeat.model.target import HandlerTarget
from onbeat.ports.target import Run
from onbeat.targets import threads
from onbeat.targets.arguments import Codec, decoder_for, encode_result, hints_of
from onbeat.targets.context import Context
from onbeat.targets.threads import Threads
from onbeat.wire.values import read_span


class Handler:
    """A function registered under a task name."""

    def __init__(self, task: str, function: Callable[..., Any]) -> None:
        self.task = task
        self.function = function
        self.codec = Codec(task, function, Context)
        self.is_async = inspect.iscoroutinefunction(function)
        self.results = decoder_for(hints_of(function).get("return", Any))

    def decode_result(self, packed: bytes) -> Any:
        """The result as the function's annotation says it is."""
        return self.results.decode(packed)


class Registry:
    """The tasks that this process knows, by name."""

    def __init__(self) -> None:
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


class HandlerRunner:
    """Implements `onbeat.ports.target.TargetRunner` for handler targets.

    Plain functions run in threads of its own, so that they never wait behind what else the process
    does in threads.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.threads: Threads | None = None

    async def open(self) -> None:
        self.threads = Threads()

    async def close(self) -> None:
        """Threads that still run a handler are left behind; their jobs are settled already."""
        if self.threads is not None:
            self.threads.close()
            self.threads = None

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, HandlerTarget), "the worker picks the runner by the target's type"
        handler = self.registry.handlers.get(target.task)
        if handler is None:
            return Failed(f"no task {target.task!r} is registered in this worker")
        try:
            args, kwargs = handler.codec.decode(target.args, target.kwargs)
            handler.codec.check_fit(args, kwargs)
        except Invalid as error:
            return Failed(str(error), retryable=False)
        args, kwargs = handler.codec.with_context(args, kwargs, Context(run))
        return await self.called(handler, args, kwargs)

    async def called(self, handler: Handler, args: list[Any], kwargs: dict[str, Any]) -> Outcome:
        try:
            if handler.is_async:
                value = await handler.function(*args, **kwargs)
            else:
                value = await self.in_thread(handler.function, args, kwargs)
        except Snooze as snooze:
            return snoozed(snooze)
        except Cancel as cancel:
            return Cancelled(cancel.reason)
        except Fail as fail:
            return Failed(fail.message, retryable=fail.retryable)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a handler may raise anything
            return Failed(told(error))
        return succeeded(handler, value)

    async def in_thread(
        self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        assert self.threads is not None, "the runner is open while jobs run"
        context = contextvars.copy_context()
        return await self.threads.run(lambda: context.run(function, *args, **kwargs))


def snoozed(snooze: Snooze) -> Outcome:
    """Text is read here, where what it should have been can be told."""
    if isinstance(snooze.delay, timedelta):
        return Snoozed(snooze.delay)
    try:
        return Snoozed(read_span(snooze.delay, "the delay of Snooze"))
    except Invalid as error:
        return Failed(str(error))


def succeeded(handler: Handler, value: Any) -> Outcome:
    """The work is done; where its result cannot be kept, doing it again would not help."""
    try:
        return Succeeded(encode_result(handler.task, value))
    except Invalid as error:
        return Failed(str(error), retryable=False)


OURS = (__file__, threads.__file__)


def told(error: BaseException) -> str:
    """The error with the frames of the handler's own code, the telling end last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename not in OURS]
    lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    return "".join(lines).strip()
