"""CPU-bound work, such as the search for occurrences: kept short on the event loop.

Nearly all work fits the budget for the loop and runs in place. The rest is started again in a
thread, at most two per process, because more would only take CPU time from the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from onbeat.model.errors import TooCostly
from onbeat.model.limits import LOOP_STEPS_MAX, RECURRENCE_STEPS_MAX
from onbeat.recurrence import Budget

Found = TypeVar("Found")

Work = Callable[[Budget], Found]
"""Work that depends only on its arguments, so that it can be started a second time."""

Gone = Callable[[], Awaitable[None]]
"""Waits until the caller no longer wants the answer."""

THREADS_MAX: Final = 2

_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def compute(
    work: Work[Found], within: Budget | None = None, gone: Gone | None = None
) -> Found:
    """The result of `work`. Raises `TooCostly` when the budget `within` (or the default) runs out.

    In a thread, the work stops at its next step when this is cancelled, or when `gone` returns.
    """
    try:
        return work(Budget(LOOP_STEPS_MAX, within))
    except TooCostly:
        return await compute_aside(work, within, gone)


async def compute_aside(
    work: Work[Found], within: Budget | None = None, gone: Gone | None = None
) -> Found:
    """The same for work that is known to be long: in a thread at once."""
    budget = Budget(RECURRENCE_STEPS_MAX if within is None else within.steps, within)
    leaving = None if gone is None else asyncio.ensure_future(cancel_when_gone(gone, budget))
    try:
        async with slots():
            return await asyncio.to_thread(work, budget)
    finally:
        # Also on cancellation, which does not stop a thread.
        budget.cancel()
        if leaving is not None:
            leaving.cancel()


async def cancel_when_gone(gone: Gone, budget: Budget) -> None:
    await gone()
    budget.cancel()


def slots() -> asyncio.Semaphore:
    """The semaphore of the running loop: a semaphore belongs to one loop."""
    loop = asyncio.get_running_loop()
    if loop not in _places:
        _places[loop] = asyncio.Semaphore(THREADS_MAX)
    return _places[loop]
