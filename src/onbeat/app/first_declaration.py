"""The declared schedules at the start of a program, also where a cell is away just then."""

import asyncio

from onbeat.app.backend import Backend
from onbeat.engine.loop import cancel_all, pause_after
from onbeat.model.errors import Unavailable


class FirstDeclaration:
    """Stores the declared schedules of a program that starts.

    Over several cells it goes on in the background while one of them is away: callers of the others
    are not to wait for that.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.again: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises what `Backend.put_declared` does, but for a cell that is away."""
        try:
            await self.backend.put_declared()
        except Unavailable as error:
            if not self.backend.store.has_slots:
                raise
            self.backend.telemetry.undeclared(error)
            self.again = asyncio.create_task(self.repeat())

    async def repeat(self) -> None:
        """Try again until all cells have answered. Each try does what the ones before have not."""
        failures = 0
        while True:
            await asyncio.sleep(pause_after(failures, self.backend.randomness.fraction()))
            try:
                await self.backend.put_declared()
            except Exception as error:  # noqa: BLE001  logged; the requests of callers go on
                self.backend.telemetry.undeclared(error)
                failures += 1
            else:
                self.backend.telemetry.declared()
                return

    async def stop(self) -> None:
        if self.again is not None:
            await cancel_all([self.again])
            self.again = None
