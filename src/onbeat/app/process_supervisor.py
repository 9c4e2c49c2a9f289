"""Further worker processes: `--processes P` starts P - 1 beside this one and restarts them.

Each holds one end of a pipe, and drains when this process closes the other end, or dies.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from onbeat.engine.loop import pause_after

log = logging.getLogger("onbeat.siblings")

STEADY_SECONDS: Final = 30.0  # a process that ran this long did not fail at its start
KILL_AFTER: Final = 10.0  # seconds beyond the drain timeout before a process is killed

PROGRAM: Final = "onbeat.cli.worker_process"
WORK_ONLY: Final = ("--roles", "dispatcher,worker", "--processes", "1", "--no-banner")


class ProcessSupervisor:
    """Each process runs `onbeat ARGUMENTS` with only the roles that work on jobs.

    A process that ends is restarted, after a pause that grows while it keeps ending early.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        count: int,
        drain_seconds: float,
        metrics_port: int | None = None,
    ) -> None:
        self.metrics_port = metrics_port
        self.command = (sys.executable, "-m", PROGRAM, *arguments, *WORK_ONLY)
        self.count = count
        self.drain_seconds = drain_seconds
        self.running: set[asyncio.subprocess.Process] = set()
        self.tasks: list[asyncio.Task[None]] = []
        self.is_stopping = False

    def start(self) -> None:
        numbers = range(1, self.count + 1)
        self.tasks = [asyncio.create_task(self.keep_one_running(number)) for number in numbers]

    async def keep_one_running(self, number: int) -> None:
        """Run process `number`, from 1, again and again until the stop."""
        loop = asyncio.get_running_loop()
        failures = 0
        while not self.is_stopping:
            began = loop.time()
            code = await self.run_one(number)
            if self.is_stopping:
                return
            failures = 0 if loop.time() - began > STEADY_SECONDS else failures + 1
            log.warning("process.ended", extra={"code": code, "failures": failures})
            await asyncio.sleep(pause_after(failures, chance=1.0))

    async def run_one(self, number: int) -> int:
        """Start a process and wait for its end; returns its exit code."""
        # In its own session: Ctrl-C reaches only the first process, which forwards the stop.
        process = await asyncio.create_subprocess_exec(
            *self.command,
            start_new_session=True,
            stdin=asyncio.subprocess.PIPE,
            env=self.environment(number),
        )
        self.running.add(process)
        try:
            return await process.wait()
        finally:
            self.running.discard(process)

    def environment(self, number: int) -> dict[str, str]:
        """That of this process; each process has a port of its own for its metrics."""
        if not self.metrics_port:
            return dict(os.environ)
        return {**os.environ, "ONBEAT_METRICS__PORT": str(self.metrics_port + number)}

    async def stop(self) -> None:
        """Let the processes drain like this one; kill those that do not end in time."""
        self.is_stopping = True
        processes = tuple(self.running)
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.drain_seconds + KILL_AFTER):
                await asyncio.gather(*(process.wait() for process in processes))
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await asyncio.gather(*(process.wait() for process in processes))
        finally:
            for keeper in self.tasks:
                keeper.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def signal(self, number: signal.Signals) -> None:
        for process in tuple(self.running):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
