"""Further worker processes: `--processes P` starts P - 1 beside this one and keeps them up.

Each has one end of a pipe, and drains when this process, however it ended, holds the other no more.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Final

from onbeat.engine.keeper import pause_after

log = logging.getLogger("onbeat.siblings")

STEADY_SECONDS: Final = 30.0  # one that lived so long did not die of its start
KILL_AFTER: Final = 10.0  # seconds beyond the drain timeout, in which a process may settle and end

PROGRAM: Final = "onbeat.cli.sibling"
WORK_ONLY: Final = ("--roles", "dispatcher,worker", "--processes", "1")


class Siblings:
    """Each runs `onbeat ARGUMENTS` with the roles of work alone.

    One that ends is started again, after a pause that grows while it keeps ending early.
    """

    def __init__(self, arguments: Sequence[str], count: int, drain_seconds: float) -> None:
        self.command = (sys.executable, "-m", PROGRAM, *arguments, *WORK_ONLY)
        self.count = count
        self.drain_seconds = drain_seconds
        self.running: set[asyncio.subprocess.Process] = set()
        self.keepers: list[asyncio.Task[None]] = []
        self.is_stopping = False

    def start(self) -> None:
        self.keepers = [asyncio.create_task(self.keep()) for _ in range(self.count)]

    async def keep(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while not self.is_stopping:
            began = loop.time()
            code = await self.lived()
            if self.is_stopping:
                return
            failures = 0 if loop.time() - began > STEADY_SECONDS else failures + 1
            log.warning("sibling.ended", extra={"code": code, "failures": failures})
            await asyncio.sleep(pause_after(failures, chance=1.0))

    async def lived(self) -> int:
        """Start one and wait for its end; the answer is its exit code."""
        # In a session of its own: Ctrl-C is for the first process, which passes on what it means.
        process = await asyncio.create_subprocess_exec(
            *self.command, start_new_session=True, stdin=asyncio.subprocess.PIPE
        )
        self.running.add(process)
        try:
            return await process.wait()
        finally:
            self.running.discard(process)

    async def stop(self) -> None:
        """Let them drain as this process does; one that does not end in time is killed."""
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
            for keeper in self.keepers:
                keeper.cancel()
            await asyncio.gather(*self.keepers, return_exceptions=True)

    def signal(self, number: signal.Signals) -> None:
        for process in tuple(self.running):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
