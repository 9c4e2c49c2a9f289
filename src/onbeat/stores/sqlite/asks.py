"""What a coroutine asks of a store's thread, and how the answers come back to its loop."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from onbeat.model.errors import Unavailable


class Ask(msgspec.Struct, frozen=True, eq=False):
    """`run` with `argument`, for whoever awaits `future` in `loop`.

    With `merges`, the arguments of all asks of the same `run` are joined into one sequence, and so
    are the answers.
    """

    run: Callable[..., Any]
    argument: Any
    merges: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


Answer = tuple[Ask, Any]
"""An ask and its result, or the exception that it raises."""


class Signal(Enum):
    WAKE = auto()
    STOP = auto()


class Inbox:
    """A queue of asks into one thread; every ask is answered, also those that come too late."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Ask | Signal] = SimpleQueue()
        self._ended = True

    def begin(self) -> None:
        self._ended = False

    async def put(self, run: Callable[..., Any], argument: Any, *, merges: bool = False) -> Any:
        loop = asyncio.get_running_loop()
        ask = Ask(run, argument, merges, loop, loop.create_future())
        self._queue.put(ask)
        if self._ended:
            self.refuse_rest()
        return await ask.future

    def stop(self) -> None:
        """What was put before is still answered."""
        self._queue.put(Signal.STOP)

    def wake(self) -> None:
        """Let the thread look round."""
        self._queue.put(Signal.WAKE)

    def take(self, limit: int, timeout: float | None) -> tuple[list[Ask], bool]:
        """Wait for one ask and take what else is there; True when the end was reached.

        `limit` is reached by rows, where asks merge, so that no batch keeps others waiting long.
        """
        asks: list[Ask] = []
        size = 0
        try:
            item = self._queue.get(timeout=timeout)
            while isinstance(item, Ask):
                asks.append(item)
                size += len(item.argument) if item.merges else 1
                if size >= limit:
                    return asks, False
                item = self._queue.get_nowait()
        except Empty:
            return asks, False
        return asks, item is Signal.STOP

    def end(self) -> None:
        """From now on every ask is refused."""
        self._ended = True
        self.refuse_rest()

    def refuse_rest(self) -> None:
        asks: list[Ask] = []
        with contextlib.suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, Ask):
                    asks.append(item)
        answer_all((ask, Unavailable("the store is not open")) for ask in asks)


def answer_all(answers: Iterable[Answer]) -> None:
    """Hand the answers over, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for loop, its_answers in by_loop.items():
        # A loop that was closed meanwhile has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve, its_answers)


def resolve(answers: Iterable[Answer]) -> None:
    for ask, result in answers:
        if ask.future.done():
            continue
        if isinstance(result, Exception):
            ask.future.set_exception(result)
        else:
            ask.future.set_result(result)
