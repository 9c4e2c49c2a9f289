"""A background thread with an event loop, for callers outside the loop that opened the store.

A loop made for one call ends without notice, and its connections would be lost. This loop runs
until the store is closed, and a busy first loop does not delay heartbeats.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from onbeat.model.errors import Unavailable
from onbeat.stores.postgres.loop_connections import LoopConnections

Answer = TypeVar("Answer")


class BackgroundLoop:
    """Starts at the first call."""

    def __init__(self, build: Callable[[], LoopConnections]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._is_open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: LoopConnections | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        self._is_open = True

    async def run(self, act: Callable[[LoopConnections], Awaitable[Answer]]) -> Answer:
        loop, connections = self._ensure_started()

        async def work() -> Answer:
            return await act(connections)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))

    def _ensure_started(self) -> tuple[asyncio.AbstractEventLoop, LoopConnections]:
        with self._lock:
            if not self._is_open:
                raise Unavailable("the store is not open")
            if self._loop is None or self._connections is None:
                self._loop, self._connections = asyncio.new_event_loop(), self._build()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="onbeat-postgres", daemon=True
                )
                self._thread.start()
            return self._loop, self._connections

    def close(self) -> None:
        """Blocks until all earlier requests are done."""
        with self._lock:
            loop, connections, thread = self._loop, self._connections, self._thread
            self._loop = self._connections = self._thread = None
            self._is_open = False
        if loop is None or connections is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(connections.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
