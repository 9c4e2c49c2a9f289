"""Waiting for things to happen, in the process as a whole."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from onbeat.ports.store import Hint, Store


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
    start: Callable[[], Awaitable[object]], stop: Callable[[], Awaitable[object]]
) -> None:
    """`start`, wait for SIGTERM or SIGINT, `stop`; a second signal does not wait for `stop`."""
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()
    main = asyncio.current_task()

    def on_signal() -> None:
        if signalled.is_set() and main is not None:
            main.cancel()
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        await start()
        await signalled.wait()
        await stop()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
