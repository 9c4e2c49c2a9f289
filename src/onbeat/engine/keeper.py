"""Runs a step for ever: at once while work remains, else when woken or after a while."""

import asyncio
from collections.abc import Awaitable, Callable

from onbeat.ports.chance import Chance
from onbeat.ports.telemetry import Telemetry

Step = Callable[[], Awaitable[float]]
"""One round of a loop; answers in how many seconds it wants its next, 0 for at once."""

PAUSE_MIN = 0.1
PAUSE_MAX = 5.0


class Alarm:
    """Wakes one keeper. Ringing is a hint: rung twice is rung once, and it may be rung in vain."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.rung = asyncio.Event()

    def ring(self) -> None:
        """To be called in the keeper's own loop."""
        self.rung.set()

    def ring_from_anywhere(self) -> None:
        """To be called from any thread; a loop that is gone needs no waking."""
        try:
            self.loop.call_soon_threadsafe(self.rung.set)
        except RuntimeError:
            return

    async def wait(self, seconds: float) -> None:
        """Returns when rung, at the latest after so many seconds."""
        if not self.rung.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self.rung.wait()
            except TimeoutError:
                pass
        self.rung.clear()


async def keep(name: str, step: Step, alarm: Alarm, chance: Chance, telemetry: Telemetry) -> None:
    """Run `step` until cancelled. A step that raises is tried again after a growing pause."""
    failures = 0
    while True:
        try:
            delay = await step()
        except Exception as error:  # noqa: BLE001  a loop outlives whatever its step meets
            telemetry.loop_failed(name, error)
            delay = pause_after(failures, chance.fraction())
            failures += 1
        else:
            telemetry.loop_beat(name)
            failures = 0
        # Even a loop that is never idle lets others have their turn.
        await (alarm.wait(delay) if delay > 0 else asyncio.sleep(0))


def pause_after(failures: int, chance: float) -> float:
    """Seconds to wait after so many failures in a row: doubling, with jitter against stampedes."""
    full = min(PAUSE_MAX, PAUSE_MIN * (1 << min(failures, 10)))
    return full * (0.5 + chance / 2)
