"""A runner that is made when the first job needs it."""

import asyncio
from collections.abc import Callable

from onbeat.model.outcome import Outcome
from onbeat.ports.target import Run, TargetRunner


class LateRunner:
    """Implements `onbeat.ports.target.TargetRunner` by another, which is slow to load.

    `make` is called in a thread: the loop goes on meanwhile.
    """

    def __init__(self, make: Callable[[], TargetRunner]) -> None:
        self.make = make
        self.runner: TargetRunner | None = None
        self.opening = asyncio.Lock()

    async def open(self) -> None:
        """Nothing is opened before a job needs it."""

    async def close(self) -> None:
        runner, self.runner = self.runner, None
        if runner is not None:
            await runner.close()

    async def run(self, run: Run) -> Outcome:
        return await (self.runner or await self.opened()).run(run)

    async def opened(self) -> TargetRunner:
        """Jobs that begin together wait for the same one."""
        async with self.opening:
            if self.runner is None:
                runner = await asyncio.to_thread(self.make)
                await runner.open()
                self.runner = runner
            return self.runner
