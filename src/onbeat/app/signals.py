"""Waiting for process signals and for changes in the store."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from onbeat.ports.store import Hint, Store

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StoreChanges:
    """Wakes one waiter when the store hints at a change."""

    def __init__(self, store: Store) -> None:
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.unlisten = store.listen(self.on_hint)

    def on_hint(self, _hint: Hint) -> None:
        try:
            self.loop.call_soon_threadsafe(self.changed.set)
        except RuntimeError:
            # The waiter's loop is closed.
            return

    async def wait(self, seconds: float) -> None:
        """Returns at the next change, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            return
        self.changed.clear()

    def close(self) -> None:
        self.unlisten()


async def wait_for_signal(
    start: Callable[[], Awaitable[object]], stop: Callable[[], Coroutine[None, None, object]]
) -> bool:
    """Call `start`, wait for SIGTERM or SIGINT, call `stop`.

    A second signal interrupts `stop`; the result is then False.
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
        return await wait_for_either(
            asyncio.create_task(stop()), asyncio.create_task(at_once.wait())
        )
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def wait_for_either(work: asyncio.Task[Any], other: asyncio.Task[Any]) -> bool:
    """Wait for either and cancel the other; True when `work` completed."""
    await asyncio.wait({work, other}, return_when=asyncio.FIRST_COMPLETED)
    is_done = work.done()
    work.cancel()
    other.cancel()
    await asyncio.gather(work, other, return_exceptions=True)
    if is_done:
        work.result()
    return is_done
