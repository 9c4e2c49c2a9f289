"""The child's side of `isolation="process"`: runs one handler at a time on command.

The child is a fresh interpreter. It imports the module in which the task was defined and finds the
task there by name; the pipe carries JSON, never a pickled object.
"""

import asyncio
import importlib
import sys
from multiprocessing.connection import Connection

import msgspec

from onbeat.model.job import Progress
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.targets.handler import Handler
from onbeat.targets.in_process import InProcessRunner
from onbeat.targets.process_tree import end_own_descendants, lead_session
from onbeat.targets.subprocess.messages import RunCommand, RunResult


class RemoteRun:
    """Implements `onbeat.ports.target.Run` inside the child; a stop comes as a signal instead."""

    def __init__(self, order: RunCommand, pipe: Connection) -> None:
        self.job = order.job
        self.deadline = None
        self.stop_reason = None
        self.pipe = pipe

    def note_progress(self, progress: Progress) -> None:
        send(self.pipe, RunResult("progress", progress=progress))

    def is_held(self) -> bool:
        """The command was sent while the lease was held."""
        return True

    def is_closed(self) -> bool:
        """The child's only coroutine is never closed: the child is killed."""
        return False

    async def confirm(self) -> None:
        return


def serve(pipe: Connection, memory_bytes: int | None) -> None:
    """Run commands from the pipe until it is closed."""
    lead_session()
    limit_memory(memory_bytes)
    caller = InProcessRunner()
    while True:
        try:
            order = msgspec.json.decode(pipe.recv_bytes(), type=RunCommand)
        except EOFError:
            return
        report = asyncio.run(report_on(order, pipe, caller))
        end_own_descendants()
        send(pipe, report)


def limit_memory(memory_bytes: int | None) -> None:
    """An allocation beyond the limit raises MemoryError, or ends only this process."""
    if memory_bytes is not None and sys.platform != "win32":
        import resource  # noqa: PLC0415  not available on Windows

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


async def report_on(order: RunCommand, pipe: Connection, caller: InProcessRunner) -> RunResult:
    try:
        handler = find_handler(order)
    except Exception as error:  # noqa: BLE001  importing a program may raise anything
        return RunResult("failed", f"its process could not load {order.module}: {error}")
    return run_result(await caller.run(handler, RemoteRun(order, pipe)))


def find_handler(order: RunCommand) -> Handler:
    """The handler of the command's task, from the module that defines it. Raises LookupError."""
    task = getattr(order.job.target, "task", None)
    module = sys.modules["__main__"] if order.module == "__main__" else None
    module = module or importlib.import_module(order.module)
    for value in vars(module).values():
        handler = getattr(value, "handler", None)
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
    pipe.send_bytes(msgspec.json.encode(report))
