"""A background thread with an event loop: how plain code calls what is asynchronous."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


class Portal:
    """Starts with the first call, and lives until `close` or the end of the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None

    def call(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run `work` in the portal's loop and wait for it.

        From a coroutine use the asynchronous form instead: this would block its loop.
        """
        loop = self.opened()
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("called from Onbeat's own event loop; use the asynchronous form")
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def opened(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                self.thread = threading.Thread(
                    target=self.loop.run_forever, name="onbeat-portal", daemon=True
                )
                self.thread.start()
            return self.loop

    def close(self) -> None:
        with self.lock:
            loop, thread = self.loop, self.thread
            self.loop = self.thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
