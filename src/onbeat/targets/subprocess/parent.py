"""Runs handlers in separate processes: for work that computes, hangs or crashes.

A child runs one attempt at a time and is reused. It is killed when its attempt is stopped or
reaches its timeout, so a handler that ignores its stop ends too. If a child crashes, only its own
attempt is lost. Processes that a handler has started end with its attempt.
"""

import asyncio
import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final

import msgspec

from onbeat.model.outcome import Cancelled, Evidence, Failed, Lost, Outcome, Snoozed, Succeeded
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.ports.target import Run
from onbeat.rules.shortage import Shortage
from onbeat.targets.app_context import AppContext
from onbeat.targets.leased_start import LeaseUnsure, begin
from onbeat.targets.predecessors import PriorJob
from onbeat.targets.process_reaper import ProcessReaper
from onbeat.targets.process_tree import (
    Identity,
    descendants,
    identity,
    kill_tree,
    send,
    signal_session,
)
from onbeat.targets.subprocess.messages import RunCommand, RunResult, run_command, stamped

# Never fork: the copy of a process with threads may hold locks that are never released.
SPAWN: Final = multiprocessing.get_context("spawn")
TERMINATE_GRACE: Final = 1.0  # seconds from SIGTERM to SIGKILL


Serve = Callable[[Connection, int | None], None]
"""The child's main function, with its end of the pipe and its memory limit."""


class ChildProcess:
    """A child process, its descendants, and the pipe to it."""

    def __init__(self, serve: Serve, memory_bytes: int | None, keeper: ProcessReaper) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: SpawnProcess = SPAWN.Process(
            target=serve, args=(theirs, memory_bytes), name="onbeat-isolated", daemon=True
        )
        try:
            keeper.open()
            self.process.start()
        except OSError as error:
            self.pipe.close()
            if error.errno == errno.EAGAIN:
                raise Shortage("processes") from error
            raise
        finally:
            theirs.close()
        assert self.process.pid is not None, "a started process has a number"
        self.leader = identity(self.process.pid)
        self.reaper = keeper
        keeper.add(self.leader)

    def run(self, order: RunCommand, note: Callable[[RunResult], None]) -> RunResult | None:
        """Blocks until the attempt has ended; None when the child died first."""
        try:
            self.pipe.send_bytes(msgspec.json.encode(order))
            while True:
                report = msgspec.json.decode(self.pipe.recv_bytes(), type=RunResult)
                if report.is_outcome:
                    return report
                note(report)
        except (EOFError, OSError):
            return None

    def run_order(
        self, order: RunCommand, run: Run, program: AppContext | None
    ) -> Callable[[], RunResult | None]:
        return lambda: self.run(stamped(order, program), lambda report: note(run, report))

    def kill(self) -> None:
        """End the process and its descendants, first with SIGTERM. Blocks until it has ended.

        Descendants that left its session are listed before, as they leave its tree when it ends.
        """
        below = descendants(self.leader.pid)
        signal_session(self.leader.pid, signal.SIGTERM)
        self.process.join(TERMINATE_GRACE)
        self.end_rest(below)

    def end_rest(self, below: Sequence[Identity] = ()) -> None:
        """End the remaining processes. A leader's pid is not reused while its group exists."""
        if self.process.is_alive():
            kill_tree(self.leader)
        send(below, signal.SIGKILL)
        signal_session(self.leader.pid, signal.SIGKILL)
        self.process.join()
        self.reaper.discard(self.leader)

    def close(self) -> None:
        """Let an idle child end by itself."""
        self.pipe.close()
        self.process.join(TERMINATE_GRACE)
        if self.process.is_alive():
            self.kill()
        else:
            self.reaper.discard(self.leader)

    def how_it_died(self) -> str:
        self.process.join(TERMINATE_GRACE)
        self.end_rest()
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"


class ChildProcesses:
    """Idle children by memory limit, and one busy child for each attempt."""

    def __init__(
        self,
        serve: Serve,
        children_max: int | None = None,
        program: AppContext | None = None,
    ) -> None:
        self.serve = serve
        self.app = program
        self.idle: dict[int | None, list[ChildProcess]] = {}
        self.lock = threading.Lock()
        self.reaper = ProcessReaper()
        self.free = asyncio.Semaphore(children_max or os.cpu_count() or 1)

    async def run(
        self, run: Run, module: str, memory_bytes: int | None, earlier: Sequence[PriorJob] = ()
    ) -> Outcome:
        """Run one attempt in a child. Cancelling this task kills the child."""
        async with self.free:
            child = await asyncio.to_thread(self.take_child, memory_bytes)
            order = run_command(module, run.job, run.events, earlier)
            report = await self.report_of(child, order, run)
            if report is None:
                reason = await asyncio.to_thread(child.how_it_died)
                return Lost(reason, Evidence.ENDED, company=0)
            self.put_back(child, memory_bytes)
            return outcome_of(report)

    async def report_of(self, child: ChildProcess, order: RunCommand, run: Run) -> RunResult | None:
        """The result of the attempt, which begins while the lease is certainly held."""
        start = child.run_order(order, run, self.app)
        while True:
            work = asyncio.ensure_future(asyncio.to_thread(begin, run, start))
            try:
                return await asyncio.shield(work)
            except LeaseUnsure:
                await self.confirm_or_close(child, run)
            except asyncio.CancelledError:
                await asyncio.to_thread(child.kill)
                await asyncio.wait([work])
                raise

    async def confirm_or_close(self, child: ChildProcess, run: Run) -> None:
        try:
            await run.confirm()
        except BaseException:
            await asyncio.to_thread(child.close)
            raise

    def take_child(self, memory_bytes: int | None) -> ChildProcess:
        with self.lock:
            idle = self.idle.get(memory_bytes)
            child = idle.pop() if idle else None
        return child or ChildProcess(self.serve, memory_bytes, self.reaper)

    def put_back(self, child: ChildProcess, memory_bytes: int | None) -> None:
        with self.lock:
            self.idle.setdefault(memory_bytes, []).append(child)

    def close(self) -> None:
        with self.lock:
            children = [child for idle in self.idle.values() for child in idle]
            self.idle.clear()
        for child in children:
            child.close()
        self.reaper.close()


def note(run: Run, report: RunResult) -> None:
    if report.progress is not None:
        run.note_progress(report.progress)
    log = ATTEMPT_LOG.get()
    if report.entry is not None and log is not None:
        log.add_entry(report.entry)


def outcome_of(report: RunResult) -> Outcome:
    match report.kind:
        case "succeeded":
            return Succeeded(msgspec.Raw(report.text.encode()) if report.text else None)
        case "snoozed":
            return Snoozed(timedelta(seconds=report.seconds))
        case "cancelled":
            return Cancelled(report.text)
        case _:
            return Failed(report.text, retryable=report.retryable)
