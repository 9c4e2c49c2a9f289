"""A background thread with an event loop, for synchronous callers, and for what outlives theirs."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from onbeat.app.event_loop import run_forever

Value = TypeVar("Value")

LOOK_AGAIN: Final = 1.0  # seconds between checks that the thread is still alive
GONE: Final = (
    "Onbeat's background thread has ended in this process; a forked process needs an Onbeat of its "
    "own, made after the fork"
)


class Portal:
    """Starts with the first call, and runs until `close` or the end of the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None

    def call(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run `work` in the portal's loop and wait for it.

        In a coroutine use the asynchronous form: this would block its loop.
        """
        try:
            loop, thread = self.ensure_open()
        except RuntimeError:
            work.close()
            raise
        answer = asyncio.run_coroutine_threadsafe(work, loop)
        while not wait({answer}, LOOK_AGAIN).done:
            if not thread.is_alive():
                raise RuntimeError(GONE)
        return answer.result()

    async def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run `work` in the portal's loop, and wait for it in another loop or in that one."""
        if self.loop is asyncio.get_running_loop():
            return await work
        try:
            loop, thread = self.ensure_open()
        except RuntimeError:
            work.close()
            raise
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        try:
            while not (await asyncio.wait({answer}, timeout=LOOK_AGAIN))[0]:
                if not thread.is_alive():
                    raise RuntimeError(GONE)
            return answer.result()
        finally:
            answer.cancel()  # of a caller that is cancelled; otherwise it is done

    def ensure_open(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        """Raises RuntimeError in the portal's own thread, and when a fork has ended that thread."""
        if threading.current_thread() is self.thread:
            raise RuntimeError("called from Onbeat's own event loop; use the asynchronous form")
        with self.lock:
            if self.loop is None or self.thread is None:
                loop = self.loop = asyncio.new_event_loop()
                self.thread = threading.Thread(
                    target=lambda: run_forever(loop), name="onbeat-portal", daemon=True
                )
                self.thread.start()
            elif not self.thread.is_alive():
                raise RuntimeError(GONE)
            return self.loop, self.thread

    @property
    def is_alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def close(self) -> None:
        """Stop the thread. The next call opens it again."""
        with self.lock:
            loop, thread = self.loop, self.thread
            self.loop = self.thread = None
        if loop is not None and thread is not None:
            if thread.is_alive():
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
            loop.close()

    def end(
        self,
        work: Callable[[], Coroutine[Any, Any, object]],
        executor: ThreadPoolExecutor,
        seconds: float,
    ) -> None:
        """Run the last `work` at the end of the program, for at most `seconds`."""
        loop, _ = self.ensure_open()
        loop.call_soon_threadsafe(loop.set_default_executor, executor)
        ended = asyncio.run_coroutine_threadsafe(finish_loop(work, seconds), loop)
        if wait({ended}, seconds + LOOK_AGAIN).done:
            self.close()


async def finish_loop(work: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> None:
    """Run the work, then cancel all other tasks of the loop, so that none is left pending."""
    with contextlib.suppress(Exception):  # no caller is left to report to
        await asyncio.wait_for(work(), seconds)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=seconds)
