"""Threads for plain functions, kept for the next one and in nobody's way at the end."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Call = Callable[[], Any]
Inbox = SimpleQueue[Callable[[], None] | None]


class Threads:
    """As many threads as there are functions running.

    There is no bound here: whoever calls has one. A function that nobody waits for any more keeps
    its thread and takes none from others; as the threads are daemons, it does not hold up the end
    of the process either, which an executor of the standard library would.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: deque[Inbox] = deque()
        self.is_closed = False

    async def run(self, call: Call) -> Any:
        """Call it in a thread; answers or raises as it does."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def told(value: Any, error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result((value, error))

        def work() -> Callable[[], None]:
            value, error = called(call)
            return lambda: in_loop(loop, lambda: told(value, error))

        self.hand_over(work)
        value, error = await ended
        if error is not None:
            raise error
        return value

    def hand_over(self, work: Callable[[], Callable[[], None]]) -> None:
        with self.lock:
            inbox = self.idle.pop() if self.idle else self.started()
        inbox.put(lambda: self.serve_one(inbox, work))

    def serve_one(self, inbox: Inbox, work: Callable[[], Callable[[], None]]) -> None:
        """Work, and be free again before anybody hears of it: what follows finds this thread."""
        tell = work()
        with self.lock:
            if self.is_closed:
                inbox.put(None)
            else:
                self.idle.append(inbox)
        tell()

    def started(self) -> Inbox:
        inbox: Inbox = SimpleQueue()
        threading.Thread(target=serve, args=(inbox,), name="onbeat-handler", daemon=True).start()
        return inbox

    def close(self) -> None:
        """End the idle threads now and the others once they are done."""
        with self.lock:
            self.is_closed = True
            idle, self.idle = self.idle, deque()
        for inbox in idle:
            inbox.put(None)


def serve(inbox: Inbox) -> None:
    while (work := inbox.get()) is not None:
        work()
        # What it holds shall not live on in an idle thread.
        del work


def called(call: Call) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  it is raised where the function was called
        return None, error


def in_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        # The loop has ended; nobody waits any more.
        return
