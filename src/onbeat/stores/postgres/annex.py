"""A thread of the store's own, for callers in other loops than the one that opened it.

A loop that was made for one call ends without a word, and connections that belonged to it would
be lost. Here they have a loop that ends when the store is closed; and whoever keeps the first loop
busy does not hold up a heartbeat.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from onbeat.model.errors import Unavailable
from onbeat.stores.postgres.site import Site

Answer = TypeVar("Answer")


class Annex:
    """Begins with its first caller."""

    def __init__(self, build: Callable[[], Site]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._is_open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._site: Site | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        self._is_open = True

    async def run(self, act: Callable[[Site], Awaitable[Answer]]) -> Answer:
        loop, site = self._started()

        async def work() -> Answer:
            return await act(site)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))

    def _started(self) -> tuple[asyncio.AbstractEventLoop, Site]:
        with self._lock:
            if not self._is_open:
                raise Unavailable("the store is not open")
            if self._loop is None or self._site is None:
                self._loop, self._site = asyncio.new_event_loop(), self._build()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="onbeat-postgres", daemon=True
                )
                self._thread.start()
            return self._loop, self._site

    def end(self) -> None:
        """Blocks until what was asked before is done."""
        with self._lock:
            loop, site, thread = self._loop, self._site, self._thread
            self._loop = self._site = self._thread = None
            self._is_open = False
        if loop is None or site is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(site.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
