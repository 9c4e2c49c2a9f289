"""The child's side of `isolation="process"`: runs one handler at a time on command.

The child is a fresh interpreter. It imports the module in which the task was defined and finds the
task there by name; the pipe carries JSON, never a pickled object.
"""

import asyncio
import importlib
import inspect
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from typing import Final

import msgspec

from onbeat.model.job import Progress
from onbeat.model.log_line import LogEntry
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.model.trace_context import TraceContext
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.targets.handler import Handler
from onbeat.targets.handler_log import INSTALLATION
from onbeat.targets.in_process import InProcessRunner
from onbeat.targets.process_tree import end_own_descendants, lead_session
from onbeat.targets.subprocess.messages import RunCommand, RunResult


class RemoteRun:
    """Implements `onbeat.ports.target.Run` inside the child; a stop comes as a signal instead.

    Also the log of the attempt, whose lines go to the worker.
    """

    def __init__(self, order: RunCommand, pipe: Connection) -> None:
        self.order = order
        self.is_over = False
        self.job = order.job
        self.events = order.events
        self.deadline = None
        self.stop_reason = None
        self.is_question = False
        self.pipe = pipe

    def note_progress(self, progress: Progress) -> None:
        send(self.pipe, RunResult("progress", progress=progress))

    @property
    def kept_level(self) -> int | None:
        return self.order.kept_level

    def add_entry(self, entry: LogEntry) -> None:
        """Of another thread after the end of the attempt, the worker would take it for the next."""
        if not self.is_over:
            send(self.pipe, RunResult("line", entry=entry))

    def is_held(self) -> bool:
        """The command was sent while the lease was held."""
        return True

    def is_closed(self) -> bool:
        """The child's only coroutine is never closed: the child is killed."""
        return False

    async def confirm(self) -> None:
        return


class WorkerClock:
    """Implements `onbeat.ports.clock.Clock`: the worker's time at the command, and what passed."""

    def __init__(self, at: datetime, *, stands: bool) -> None:
        self.at = at
        self.stands = stands
        self.begun = time.monotonic()

    def now(self) -> datetime:
        return self.at + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return 0.0 if self.stands else time.monotonic() - self.begun


SENDING: Final = threading.Lock()


def clock_of(order: RunCommand) -> WorkerClock | None:
    return None if order.now is None else WorkerClock(order.now, stands=order.clock_stands)


Within = Callable[[TraceContext], AbstractContextManager[None]]
"""Makes the span of a trace context the active one."""


def serve(pipe: Connection, memory_bytes: int | None, within: Within | None = None) -> None:
    """Run commands from the pipe until it is closed, each within the worker's span."""
    lead_session()
    INSTALLATION.attach()
    limit_memory(memory_bytes)
    while True:
        try:
            order = msgspec.json.decode(pipe.recv_bytes(), type=RunCommand)
        except EOFError:
            return
        with span_of(order, within):
            report = asyncio.run(report_on(order, pipe))
        end_own_descendants()
        send(pipe, report)


def span_of(order: RunCommand, within: Within | None) -> AbstractContextManager[None]:
    if within is None or order.trace is None:
        return nullcontext()
    return within(order.trace)


def limit_memory(memory_bytes: int | None) -> None:
    """An allocation beyond the limit raises MemoryError, or ends only this process."""
    if memory_bytes is not None and sys.platform != "win32":
        import resource  # noqa: PLC0415  not available on Windows

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


async def report_on(order: RunCommand, pipe: Connection) -> RunResult:
    caller = InProcessRunner(clock=clock_of(order))
    try:
        handler = find_handler(order)
    except Exception as error:  # noqa: BLE001  importing a program may raise anything
        return RunResult("failed", f"its process could not load {order.module}: {error}")
    run = RemoteRun(order, pipe)
    ATTEMPT_LOG.set(run)
    outcome = await caller.run(handler, run, order.earlier)
    run.is_over = True
    return run_result(outcome)


def find_handler(order: RunCommand) -> Handler:
    """The handler of the command's task, from the module that defines it. Raises LookupError."""
    task = getattr(order.job.target, "task", None)
    module = sys.modules["__main__"] if order.module == "__main__" else None
    module = module or importlib.import_module(order.module)
    for value in vars(module).values():
        # Statically: a value of the program, such as `CURRENT`, may raise for any attribute.
        handler = inspect.getattr_static(value, "handler", None)
        if isinstance(handler, Handler) and handler.task == task:
            return handler
    raise LookupError(f"module {order.module} has no task {task!r} at its top level")


def run_result(outcome: Outcome) -> RunResult:
    match outcome:
        case Succeeded(result=result):
            return RunResult("succeeded", "" if result is None else bytes(result).decode())
        case Snoozed(delay=delay):
            return RunResult("snoozed", seconds=delay.total_seconds())
        case Cancelled(reason=reason):
            return RunResult("cancelled", reason)
        case Failed(error=error, retryable=retryable):
            return RunResult("failed", error, retryable=retryable)
        case _:
            return RunResult("failed", f"a handler cannot come to {outcome}")


def send(pipe: Connection, report: RunResult) -> None:
    """Threads of the handler may log at the same time, and a pipe takes one message at a time."""
    with SENDING:
        pipe.send_bytes(msgspec.json.encode(report))
