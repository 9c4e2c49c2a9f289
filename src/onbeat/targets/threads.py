"""Reusable daemon threads for plain functions."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from onbeat.rules.shortage import Shortage

Call = Callable[[], Any]
Inbox = SimpleQueue[Callable[[], None] | None]


class Threads:
    """A thread for each running function, reused when idle.

    The caller limits the number. An abandoned function keeps its thread and takes none from others.
    As the threads are daemons, it does not delay the end of the process, unlike with a
    `ThreadPoolExecutor`.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: deque[Inbox] = deque()
        self.is_closed = False

    async def run(self, call: Call) -> Any:
        """Run the call in a thread; returns or raises as it does."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def resolve(value: Any, error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result((value, error))

        def work() -> Callable[[], None]:
            value, error = run_call(call)
            return lambda: in_loop(loop, lambda: resolve(value, error))

        self.hand_over(work)
        value, error = await ended
        if error is not None:
            raise error
        return value

    def hand_over(self, work: Callable[[], Callable[[], None]]) -> None:
        with self.lock:
            inbox = self.idle.pop() if self.idle else self.start_thread()
        inbox.put(lambda: self.serve_one(inbox, work))

    def serve_one(self, inbox: Inbox, work: Callable[[], Callable[[], None]]) -> None:
        """Run the work, and become idle before notifying the caller, so that it can reuse this."""
        tell = work()
        with self.lock:
            if self.is_closed:
                inbox.put(None)
            else:
                self.idle.append(inbox)
        tell()

    def start_thread(self) -> Inbox:
        inbox: Inbox = SimpleQueue()
        thread = threading.Thread(target=serve, args=(inbox,), name="onbeat-handler", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise Shortage("threads") from error
        return inbox

    def close(self) -> None:
        """End idle threads now and the others once they are done."""
        with self.lock:
            self.is_closed = True
            idle, self.idle = self.idle, deque()
        for inbox in idle:
            inbox.put(None)


def serve(inbox: Inbox) -> None:
    while (work := inbox.get()) is not None:
        work()
        # An idle thread must not keep references of the work alive.
        del work


def run_call(call: Call) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  raised again in the caller
        return None, error


def in_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        # The loop has ended, and nothing waits for the call.
        return
