"""Runs commands: a program of the worker's machine for each attempt."""

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import msgspec

from onbeat.model.credentials import secrets_in_env
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.target import CommandTarget
from onbeat.ports.clock import Clock
from onbeat.ports.job_log import ATTEMPT_LOG, AttemptLog
from onbeat.ports.target import Run
from onbeat.rules.shortage import Shortage
from onbeat.targets.command.environment import environment_of
from onbeat.targets.command.gate import order_of
from onbeat.targets.command.output import CommandOutput
from onbeat.targets.command.process import CommandProcess, NotStarted, start_process
from onbeat.targets.descriptors import check_descriptors
from onbeat.targets.process_reaper import ProcessReaper
from onbeat.wire.cloud_events import delivered

ERROR_OUTPUT_CHARS: Final = 4_000
DESCRIPTORS: Final = 8  # the pipes of a process, and those that exist only while it starts


class CommandRunner:
    """Implements `onbeat.ports.target.TargetRunner` for commands.

    Exit code 0 is success; any other one is a failure, which is tried again by the job's policy.
    Only programs in `allowed`, absolute paths, are run.
    """

    def __init__(self, clock: Clock, allowed: Sequence[str] = ()) -> None:
        self.clock = clock
        # Sessions and signals to them are of POSIX.
        self.allowed = frozenset(allowed) if os.name == "posix" else frozenset[str]()
        self.reaper = ProcessReaper()
        self.processes: set[CommandProcess] = set()

    async def open(self) -> None:
        """Does nothing: the reaper is started for the first command."""

    async def close(self) -> None:
        for process in tuple(self.processes):
            await asyncio.to_thread(process.kill)
        await asyncio.to_thread(self.reaper.close)

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, CommandTarget), "runs commands only"
        if target.program not in self.allowed:
            return Failed(
                f"this worker does not allow the program {target.program}; its setting "
                "commands.allow lists those that it allows",
                retryable=False,
            )
        check_descriptors(DESCRIPTORS)
        output = CommandOutput(secrets_in_env(target), kept_log(), self.clock.now)
        process = await self.start(output)
        try:
            code = await self.run_in(process, run, target)
        except NotStarted as error:
            return Failed(f"{target.program} could not be run: {error}")
        finally:
            self.processes.discard(process)
            process.close()
            output.end()
        return outcome_of(target, code, output)

    async def start(self, output: CommandOutput) -> CommandProcess:
        try:
            process = await start_process(self.reaper, output.add)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise Shortage("processes") from error
            raise
        self.processes.add(process)
        return process

    async def run_in(self, process: CommandProcess, run: Run, target: CommandTarget) -> int:
        """The exit code of the program. Cancelling this task ends its processes first."""
        try:
            if not run.is_held():
                await run.confirm()
            await process.begin(order_for(run, target), stdin_of(run, target))
            return await process.end()
        except GeneratorExit:  # the coroutine is being closed, and cannot wait
            process.kill()
            raise
        except asyncio.CancelledError:
            await unless_cancelled(process.stop())
            raise


def kept_log() -> AttemptLog | None:
    """The log of the attempt, unless it leaves out what is only information."""
    log = ATTEMPT_LOG.get()
    level = None if log is None else log.kept_level
    return None if level is None or level > logging.INFO else log


def order_for(run: Run, target: CommandTarget) -> bytes:
    return order_of(target.argv, environment_of(run.job, target), target.cwd or "")


def stdin_of(run: Run, target: CommandTarget) -> bytes:
    """Without an input of its own, the command gets the events."""
    if run.events and target.stdin is None:
        return delivered(run.events)[0]
    return (target.stdin or "").encode()


async def unless_cancelled(work: Coroutine[Any, Any, None]) -> None:
    """Waits for the end of `work`, also while this task is cancelled again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue


def outcome_of(target: CommandTarget, code: int, output: CommandOutput) -> Outcome:
    if code == 0:
        result = {"exit_code": 0, "output": output.kept.text()}
        return Succeeded(msgspec.Raw(msgspec.json.encode(result)))
    end = output.kept.end(ERROR_OUTPUT_CHARS)
    return Failed(f"{target.program} {how_it_ended(code)}" + (f"\n{end}" if end else ""))


def how_it_ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was ended by signal {-code}"
