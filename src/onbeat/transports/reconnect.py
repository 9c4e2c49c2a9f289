"""Limits the rate of reconnection attempts, shared by all callers."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Final

from onbeat.model.errors import Unavailable

PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_SECONDS_MAX: Final = 1.0  # a broker that has recovered is used again within this time

Fraction = Callable[[], float]
"""Returns a number from 0 to below 1, uniformly."""


class Reconnector:
    """Runs `make` once at a time, each time after a delay that grows with earlier failures.

    A caller may stop waiting at any time; the attempt continues without it, so that callers with
    short timeouts do not prevent it from ever finishing. `make` raises `Unavailable` when it fails.
    """

    def __init__(
        self, make: Callable[[], Awaitable[None]], fraction: Fraction = random.random
    ) -> None:
        self._make = make
        self._fraction = fraction
        self._task: asyncio.Task[bool] | None = None
        self._failures = 0
        self._failure: Unavailable | None = None
        self._made_at = -math.inf

    async def succeeds_by(self, until: float) -> bool:
        """Whether an attempt has succeeded by then, in the loop's time.

        Raises `Unavailable` if it failed, or if it still runs after an earlier failure.
        """
        task = self._task = self._task or asyncio.create_task(self._attempt())
        left = until - asyncio.get_running_loop().time()
        await asyncio.wait({task}, timeout=max(0.0, left))
        if task.done() and self._task is task:
            self._task = None
        if task.done() and not task.cancelled() and task.result():
            return True
        if (failure := self._failure) is not None:
            raise Unavailable(str(failure)) from failure
        return False

    def note_loss(self) -> None:
        """The connection was lost. If that was soon, it counts as a failure."""
        if asyncio.get_running_loop().time() - self._made_at < PAUSE_SECONDS_MAX:
            self._failures += 1
        else:
            self._failures = 0

    async def wait_until_idle(self) -> None:
        """Returns when no attempt is running."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def cancel(self) -> None:
        """Cancels the running attempt, if there is one."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _attempt(self) -> bool:
        await asyncio.sleep(pause_after(self._failures, self._fraction()))
        try:
            await self._make()
        except Unavailable as failure:
            self._failures += 1
            self._failure = failure
            return False
        self._failure = None
        self._made_at = asyncio.get_running_loop().time()
        return True


def pause_after(failures: int, fraction: float) -> float:
    """Half of the delay is random, so that processes that lose a broker at once return apart."""
    if failures == 0:
        return 0.0
    full = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * float(1 << min(failures, 20)))
    return full * (1 + fraction) / 2
