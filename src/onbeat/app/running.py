"""Waiting for things to happen, in the process as a whole."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from onbeat.ports.store import Hint, Store

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StoreChanges:
    """Wakes one waiter when the store says that something may have changed."""

    def __init__(self, store: Store) -> None:
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.unlisten = store.listen(self.heard)

    def heard(self, _hint: Hint) -> None:
        try:
            self.loop.call_soon_threadsafe(self.changed.set)
        except RuntimeError:
            # The waiter's loop has ended; nobody waits any more.
            return

    async def wait(self, seconds: float) -> None:
        """Returns at the next change, at the latest after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            return
        self.changed.clear()

    def close(self) -> None:
        self.unlisten()


async def until_signalled(
    start: Callable[[], Awaitable[object]], stop: Callable[[], Coroutine[None, None, object]]
) -> bool:
    """`start`, wait for SIGTERM or SIGINT, `stop`.

    A second signal does not wait for `stop`, and the answer is then False.
    """
    loop = asyncio.get_running_loop()
    signalled, at_once = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if signalled.is_set():
            at_once.set()
        signalled.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        await start()
        await signalled.wait()
        return await first_of(asyncio.create_task(stop()), asyncio.create_task(at_once.wait()))
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def first_of(work: asyncio.Task[Any], other: asyncio.Task[Any]) -> bool:
    """Wait for either and cancel the other; True when `work` came to its end."""
    await asyncio.wait({work, other}, return_when=asyncio.FIRST_COMPLETED)
    is_done = work.done()
    work.cancel()
    other.cancel()
    await asyncio.gather(work, other, return_exceptions=True)
    if is_done:
        work.result()
    return is_done
