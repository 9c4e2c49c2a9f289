"""A runner that is created when the first job needs it."""

import asyncio
from collections.abc import Callable

from onbeat.model.outcome import Outcome
from onbeat.ports.target import Run, TargetRunner
from onbeat.targets.descriptors import LOADING_DESCRIPTORS, check_descriptors


class LazyRunner:
    """Implements `onbeat.ports.target.TargetRunner` by another runner that is slow to load.

    `make` is called in a thread, so it does not block the event loop.
    """

    def __init__(self, make: Callable[[], TargetRunner]) -> None:
        self.make = make
        self.runner: TargetRunner | None = None
        self.opening = asyncio.Lock()

    async def open(self) -> None:
        """Does nothing: the runner is opened for its first job."""

    async def close(self) -> None:
        runner, self.runner = self.runner, None
        if runner is not None:
            await runner.close()

    async def run(self, run: Run) -> Outcome:
        return await (self.runner or await self.open_runner()).run(run)

    async def open_runner(self) -> TargetRunner:
        """Concurrent first jobs wait for the same runner."""
        async with self.opening:
            if self.runner is None:
                check_descriptors(LOADING_DESCRIPTORS)
                runner = await asyncio.to_thread(self.make)
                await runner.open()
                self.runner = runner
            return self.runner
