"""Calls Python functions in this process: coroutines in the event loop, others in threads."""

import contextvars
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.model.signals import Cancel, Fail, Snooze
from onbeat.model.target import HandlerTarget
from onbeat.ports.target import Run
from onbeat.targets import distributing, threads
from onbeat.targets.arguments import encode_result
from onbeat.targets.context import Context
from onbeat.targets.distributing import Distributor, FanOut
from onbeat.targets.handler import Handler
from onbeat.targets.program import Program
from onbeat.targets.threads import Threads
from onbeat.wire.values import read_span


class Caller:
    """Plain functions run in threads of its own, while it is open.

    So they never wait behind what else the process does in threads. Before it is opened they run
    in the thread that asks, as they should in a process that has nothing else to do.
    """

    def __init__(self, program: Program | None = None) -> None:
        self.program = program
        self.threads: Threads | None = None

    async def open(self) -> None:
        self.threads = Threads()

    async def close(self) -> None:
        """Threads that still run a handler are left behind; their jobs are settled already."""
        if self.threads is not None:
            self.threads.close()
            self.threads = None

    async def run(self, handler: Handler, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, HandlerTarget), "only handler targets have handlers"
        try:
            args, kwargs = handler.codec.decode(target.args, target.kwargs)
            handler.codec.check_fit(args, kwargs)
        except Invalid as error:
            return Failed(str(error), retryable=False)
        try:
            value = await self.called(handler, run, args, kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a handler may raise anything
            return outcome_of(error)
        return succeeded(handler, value)

    def called(
        self, handler: Handler, run: Run, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        """What the handler returns, to be awaited."""
        if handler.yields:
            return self.distributed(handler, run, args, kwargs)
        if handler.codec.context is not None:
            args, kwargs = handler.codec.with_context(args, kwargs, Context(run, self.program))
        if handler.is_async:
            returned: Awaitable[Any] = handler.function(*args, **kwargs)
            return returned
        return self.in_thread(handler.function, args, kwargs)

    async def distributed(
        self, handler: Handler, run: Run, args: list[Any], kwargs: dict[str, Any]
    ) -> FanOut:
        """Send what the handler yields."""
        assert self.program is not None, "a process of its own is refused to such tasks"
        assert self.threads is not None, "the caller is open while jobs run"
        distributor = Distributor(self.program, run, None if handler.is_async else self.threads)
        context = Context(run, self.program, distributor.outbox)
        args, kwargs = handler.codec.with_context(args, kwargs, context)
        return await distributor.run(lambda: handler.function(*args, **kwargs))

    async def in_thread(
        self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if self.threads is None:
            return function(*args, **kwargs)
        context = contextvars.copy_context()
        return await self.threads.run(lambda: context.run(function, *args, **kwargs))


def outcome_of(error: Exception | SystemExit) -> Outcome:
    """What a handler meant that raised this."""
    match error:
        case Snooze():
            return snoozed(error)
        case Cancel(reason=reason):
            return Cancelled(reason)
        case Fail(message=message, retryable=retryable):
            return Failed(message, retryable=retryable)
        case _:
            return Failed(told(error))


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


OURS = (__file__, threads.__file__, distributing.__file__)


def told(error: BaseException) -> str:
    """The error with the frames of the handler's own code, the telling end last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename not in OURS]
    lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    return "".join(lines).strip()
