"""Calls Python functions in this process: coroutines in the event loop, others in threads."""

import asyncio
import contextvars
import traceback
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.model.signals import Cancel, Fail, Snooze
from onbeat.model.target import HandlerTarget
from onbeat.ports.clock import Clock
from onbeat.ports.running_cause import caused_by, running_cause
from onbeat.ports.target import Run
from onbeat.rules.event_delivery import inherited_cause
from onbeat.rules.shortage import Shortage
from onbeat.targets import fan_out, hooks, leased_start, threads
from onbeat.targets.app_context import AppContext
from onbeat.targets.codec import encode_result
from onbeat.targets.context import Context
from onbeat.targets.fan_out import FanOut, FanOutRunner
from onbeat.targets.handler import Handler
from onbeat.targets.hooks import HookedAttempt
from onbeat.targets.leased_start import run_held
from onbeat.targets.predecessors import PriorJob
from onbeat.targets.steps import EventAwaited
from onbeat.targets.threads import Threads
from onbeat.wire.values import read_span


class InProcessRunner:
    """Runs plain functions in its own threads while it is open.

    They thus never wait for other threaded work of the process. Before it is opened, functions run
    in the calling thread, which suits a process with nothing else to do.
    """

    def __init__(self, program: AppContext | None = None, clock: Clock | None = None) -> None:
        self.app = program
        self.clock = clock if program is None else program.clock
        self.threads: Threads | None = None

    async def open(self) -> None:
        self.threads = Threads()

    async def close(self) -> None:
        """Abandons threads that still run a handler; their jobs are settled already."""
        if self.threads is not None:
            self.threads.close()
            self.threads = None

    async def run(self, handler: Handler, run: Run, earlier: Sequence[PriorJob] = ()) -> Outcome:
        target = run.job.target
        assert isinstance(target, HandlerTarget), "only handler targets have handlers"
        try:
            args, kwargs = handler.codec.decode(target.args, target.kwargs)
            handler.codec.check_fit(args, kwargs)
            if handler.codec.event is not None:
                args, kwargs = handler.codec.with_events(args, kwargs, run.events, earlier)
        except Invalid as error:
            return Failed(str(error), retryable=False)
        try:
            if run.job.cause is None and running_cause() is None:  # as for most attempts
                value = await self.start_call(handler, run, args, kwargs, earlier)
            else:
                with caused_by(inherited_cause(run.job.cause)):
                    value = await self.start_call(handler, run, args, kwargs, earlier)
        except (Shortage, asyncio.CancelledError):
            raise  # ours: the handler was not called, or is being stopped
        except BaseException as error:
            if isinstance(error, GeneratorExit) and run.is_closed():
                raise
            return outcome_of(error)
        return success_outcome(handler, value)

    def start_call(
        self,
        handler: Handler,
        run: Run,
        args: list[Any],
        kwargs: dict[str, Any],
        earlier: Sequence[PriorJob],
    ) -> Awaitable[Any]:
        """Call the handler; await the result for its return value."""
        if handler.hooks is not None and not (handler.hooks.is_empty or run.is_question):
            context = Context(run, self.app, earlier=earlier, clock=self.clock)
            hooked = HookedAttempt(handler.hooks, context)
            function = hooked.around(handler.function)
            return hooked.run(
                lambda: self.call_function(function, handler, run, args, kwargs, earlier)
            )
        return self.call_function(handler.function, handler, run, args, kwargs, earlier)

    def call_function(
        self,
        function: Callable[..., Any],
        handler: Handler,
        run: Run,
        args: list[Any],
        kwargs: dict[str, Any],
        earlier: Sequence[PriorJob],
    ) -> Awaitable[Any]:
        """Call the function of the handler, which may have hooks round it."""
        if handler.yields:
            return self.run_fan_out(function, handler, run, args, kwargs, earlier)
        if handler.codec.context is not None:
            context = Context(run, self.app, earlier=earlier, clock=self.clock)
            args, kwargs = handler.codec.with_context(args, kwargs, context)
        if handler.is_async:
            returned: Awaitable[Any] = function(*args, **kwargs)
            return returned
        return self.in_thread(run, function, args, kwargs)

    async def run_fan_out(
        self,
        function: Callable[..., Any],
        handler: Handler,
        run: Run,
        args: list[Any],
        kwargs: dict[str, Any],
        earlier: Sequence[PriorJob],
    ) -> FanOut:
        """Store the calls that the handler yields."""
        assert self.app is not None, "a process of its own is refused to such tasks"
        assert self.threads is not None, "the caller is open while jobs run"
        distributor = FanOutRunner(self.app, run, None if handler.is_async else self.threads)
        context = Context(run, self.app, distributor.buffer, earlier, self.clock)
        args, kwargs = handler.codec.with_context(args, kwargs, context)
        return await distributor.run(lambda: function(*args, **kwargs))

    async def in_thread(
        self, run: Run, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if self.threads is None:
            return function(*args, **kwargs)
        context = contextvars.copy_context()
        return await run_held(self.threads, run, lambda: context.run(function, *args, **kwargs))


def outcome_of(error: BaseException) -> Outcome:
    """The outcome for an error that the handler raised."""
    match error:
        case EventAwaited(outcome=outcome):
            return outcome
        case Snooze():
            return snooze_outcome(error)
        case Cancel(reason=reason):
            return Cancelled(text_of(reason, "cancelled by its handler"))
        case Fail(message=message, retryable=retryable):
            return Failed(text_of(message, "failed by its handler"), retryable=bool(retryable))
        case _:
            return Failed(handler_traceback(error))


def text_of(given: object, default: str) -> str:
    """What a handler gave as its reason, which may be the exception that it has caught."""
    if isinstance(given, str):
        return given
    if given is None:
        return default
    if isinstance(given, BaseException):
        return "".join(traceback.format_exception_only(given)).strip()
    try:
        return str(given)
    except Exception:  # noqa: BLE001  an object of the handler may do anything
        return f"{default}, with a {type(given).__name__} that has no text"


def snooze_outcome(snooze: Snooze) -> Outcome:
    """Parses a textual delay here, so that the error can explain the format."""
    if isinstance(snooze.delay, timedelta):
        return Snoozed(snooze.delay)
    try:
        return Snoozed(read_span(snooze.delay, "the delay of Snooze"))
    except Invalid as error:
        return Failed(str(error))


def success_outcome(handler: Handler, value: Any) -> Outcome:
    """The work is done; if its result cannot be stored, a retry would not help."""
    try:
        return Succeeded(encode_result(handler.task, value))
    except Invalid as error:
        return Failed(str(error), retryable=False)


OURS = (__file__, threads.__file__, leased_start.__file__, fan_out.__file__, hooks.__file__)


def handler_traceback(error: BaseException) -> str:
    """The traceback with only the frames of the handler's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename not in OURS]
    return "".join([*frame_lines(own), *traceback.format_exception_only(error)]).strip()


def frame_lines(frames: Sequence[traceback.FrameSummary]) -> list[str]:
    try:
        return traceback.format_list(frames)
    except SystemError:
        # To mark the failed part of a line, Python parses the line. Python 3.11 fails at that when
        # the collector meanwhile ends an object that logs a traceback of its own (gh-106905).
        return traceback.format_list([without_columns(frame) for frame in frames])


def without_columns(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    return traceback.FrameSummary(frame.filename, frame.lineno, frame.name, line=frame.line)
