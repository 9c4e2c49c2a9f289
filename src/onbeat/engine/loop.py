"""Runs a step in a loop: at once while work remains, else after a wakeup or a delay."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from onbeat.ports.randomness import Randomness
from onbeat.ports.telemetry import Telemetry

Step = Callable[[], Awaitable[float]]
"""One round of a loop; returns the seconds until the next, 0 for at once."""

PAUSE_MIN = 0.1
PAUSE_MAX = 5.0


class Wakeup:
    """Wakes one loop. A wakeup is a hint: several count as one, and it may be spurious."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_awake = False
        self.waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake the loop. Must be called in its own event loop."""
        self.is_awake = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def wake_threadsafe(self) -> None:
        """Wake the loop from any thread. Does nothing if its event loop has ended."""
        try:
            self.loop.call_soon_threadsafe(self.wake)
        except RuntimeError:
            return

    async def wait(self, seconds: float) -> None:
        """Returns after a wakeup, or after `seconds` at the latest. For one caller at a time."""
        if not self.is_awake:
            self.waiter = self.loop.create_future()
            timer = self.loop.call_later(seconds, self.wake)
            try:
                await self.waiter
            finally:
                timer.cancel()
        self.is_awake = False


class Rest(float):
    """Seconds until the next round, after a round in which no work was possible.

    Does not count as success: a loop that failed before has not recovered.
    """


async def run_loop(
    name: str,
    step: Step,
    wakeup: Wakeup,
    randomness: Randomness,
    telemetry: Telemetry,
    *,
    pause_max: float = PAUSE_MAX,
) -> None:
    """Run `step` until cancelled. A step that raises is retried after a growing delay."""
    failures = 0
    while True:
        try:
            delay = await step()
        except Exception as error:  # noqa: BLE001  the loop survives any error of its step
            telemetry.loop_failed(name, error)
            delay = min(pause_max, pause_after(failures, randomness.fraction()))
            failures += 1
        else:
            if isinstance(delay, Rest):
                telemetry.loop_rested(name)
            else:
                telemetry.loop_beat(name)
                failures = 0
        # A loop that is never idle still lets other tasks run.
        await (wakeup.wait(delay) if delay > 0 else asyncio.sleep(0))


def pause_after(failures: int, chance: float) -> float:
    """Seconds to wait after so many failures in a row: doubling, with jitter against stampedes."""
    full = min(PAUSE_MAX, PAUSE_MIN * (1 << min(failures, 10)))
    return full * (0.5 + chance / 2)


async def cancel_all(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for their end, however each ends."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    # From Python 3.12 on `gather` returns sooner where all have ended; a simulated history is to
    # be the same on each.
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
