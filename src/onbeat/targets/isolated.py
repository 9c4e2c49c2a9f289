"""The child's side of `isolation="process"`: runs one handler at a time, as it is told.

The child is a fresh interpreter. It imports the module in which the task was defined and finds the
task there by name; what goes over the pipe is JSON, never a pickled object.
"""

import asyncio
import importlib
import sys
from multiprocessing.connection import Connection

import msgspec

from onbeat.model.job import Progress
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.targets.calling import Caller
from onbeat.targets.handler import Handler
from onbeat.targets.orders import Order, Report


class RemoteRun:
    """Implements `onbeat.ports.target.Run` inside the child; a stop comes as a signal instead."""

    def __init__(self, order: Order, pipe: Connection) -> None:
        self.job = order.job
        self.deadline = None
        self.stop_reason = None
        self.pipe = pipe

    def note_progress(self, progress: Progress) -> None:
        send(self.pipe, Report("progress", progress=progress))


def serve(pipe: Connection, memory_bytes: int | None) -> None:
    """Run orders from the pipe until it is closed."""
    limit_memory(memory_bytes)
    caller = Caller()
    while True:
        try:
            order = msgspec.json.decode(pipe.recv_bytes(), type=Order)
        except EOFError:
            return
        send(pipe, asyncio.run(report_on(order, pipe, caller)))


def limit_memory(memory_bytes: int | None) -> None:
    """An allocation past the limit raises MemoryError, or ends this process and no other."""
    if memory_bytes is not None and sys.platform != "win32":
        import resource  # noqa: PLC0415  there is none on Windows

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


async def report_on(order: Order, pipe: Connection, caller: Caller) -> Report:
    try:
        handler = found(order)
    except Exception as error:  # noqa: BLE001  importing a program may raise anything
        return Report("failed", f"its process could not load {order.module}: {error}")
    return told(await caller.run(handler, RemoteRun(order, pipe)))


def found(order: Order) -> Handler:
    """The handler of the order's task, in the module that defined it. Raises LookupError."""
    task = getattr(order.job.target, "task", None)
    module = sys.modules["__main__"] if order.module == "__main__" else None
    module = module or importlib.import_module(order.module)
    for value in vars(module).values():
        handler = getattr(value, "handler", None)
        if isinstance(handler, Handler) and handler.task == task:
            return handler
    raise LookupError(f"module {order.module} has no task {task!r} at its top level")


def told(outcome: Outcome) -> Report:
    match outcome:
        case Succeeded(result=result):
            return Report("succeeded", "" if result is None else bytes(result).decode())
        case Snoozed(delay=delay):
            return Report("snoozed", seconds=delay.total_seconds())
        case Cancelled(reason=reason):
            return Report("cancelled", reason)
        case Failed(error=error, retryable=retryable):
            return Report("failed", error, retryable=retryable)
        case _:
            return Report("failed", f"a handler cannot come to {outcome}")


def send(pipe: Connection, report: Report) -> None:
    pipe.send_bytes(msgspec.json.encode(report))
