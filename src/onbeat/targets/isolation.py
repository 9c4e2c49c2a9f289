"""Runs handlers in processes of their own: for work that computes, hangs or crashes.

A child does one attempt at a time and is used again. It is killed when its attempt is stopped or
takes too long, so a handler that never looks up ends all the same; and when it dies by itself, its
attempt is lost, and nothing else.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final

import msgspec

from onbeat.model.outcome import Cancelled, Failed, Lost, Outcome, Snoozed, Succeeded
from onbeat.ports.target import Run
from onbeat.targets.orders import Order, Report

# Never fork: a copy of a process with threads may hold locks that nobody will release.
SPAWN: Final = multiprocessing.get_context("spawn")
TERMINATE_GRACE: Final = 1.0  # seconds from the polite signal to the one that cannot be refused


Serve = Callable[[Connection, int | None], None]
"""What a child does with its end of the pipe and its memory limit."""


class Child:
    """One process and the pipe to it."""

    def __init__(self, serve: Serve, memory_bytes: int | None) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: SpawnProcess = SPAWN.Process(
            target=serve, args=(theirs, memory_bytes), name="onbeat-isolated", daemon=True
        )
        self.process.start()
        theirs.close()

    def run(self, order: Order, progress: Callable[[Report], None]) -> Report | None:
        """Blocks until the attempt has ended; None when the child died first."""
        try:
            self.pipe.send_bytes(msgspec.json.encode(order))
            while True:
                report = msgspec.json.decode(self.pipe.recv_bytes(), type=Report)
                if report.kind != "progress":
                    return report
                progress(report)
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        """End the process, politely first. Blocks until it is gone."""
        self.process.terminate()
        self.process.join(TERMINATE_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def close(self) -> None:
        """Let an idle child end by itself."""
        self.pipe.close()
        self.process.join(TERMINATE_GRACE)
        if self.process.is_alive():
            self.kill()

    def how_it_died(self) -> str:
        self.process.join(TERMINATE_GRACE)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"


class Processes:
    """Idle children by their memory limit, and as many busy ones as there are attempts."""

    def __init__(self, serve: Serve, children_max: int | None = None) -> None:
        self.serve = serve
        self.idle: dict[int | None, list[Child]] = {}
        self.lock = threading.Lock()
        self.free = asyncio.Semaphore(children_max or os.cpu_count() or 1)

    async def run(self, run: Run, module: str, memory_bytes: int | None) -> Outcome:
        """Do one attempt in a child. A cancel of this task kills the child."""
        async with self.free:
            child = await asyncio.to_thread(self.taken, memory_bytes)
            order = Order(module, msgspec.structs.replace(run.job, result=None))
            work = asyncio.ensure_future(
                asyncio.to_thread(child.run, order, lambda report: note(run, report))
            )
            try:
                report = await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.to_thread(child.kill)
                await work
                raise
            if report is None:
                return Lost(await asyncio.to_thread(child.how_it_died))
            self.put_back(child, memory_bytes)
            return outcome_of(report)

    def taken(self, memory_bytes: int | None) -> Child:
        with self.lock:
            idle = self.idle.get(memory_bytes)
            child = idle.pop() if idle else None
        return child or Child(self.serve, memory_bytes)

    def put_back(self, child: Child, memory_bytes: int | None) -> None:
        with self.lock:
            self.idle.setdefault(memory_bytes, []).append(child)

    def close(self) -> None:
        with self.lock:
            children = [child for idle in self.idle.values() for child in idle]
            self.idle.clear()
        for child in children:
            child.close()


def note(run: Run, report: Report) -> None:
    if report.progress is not None:
        run.note_progress(report.progress)


def outcome_of(report: Report) -> Outcome:
    match report.kind:
        case "succeeded":
            return Succeeded(msgspec.Raw(report.text.encode()) if report.text else None)
        case "snoozed":
            return Snoozed(timedelta(seconds=report.seconds))
        case "cancelled":
            return Cancelled(report.text)
        case _:
            return Failed(report.text, retryable=report.retryable)
