"""Group commit: what comes while a commit is under way goes into the next one together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from onbeat.model.errors import Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

BATCH_MAX = 5_000
FLIGHTS_MAX = 2  # one is made ready while the server works at the other


Asks = list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]
"""What callers gave, and where each waits for its answers."""


class Gatherer(Generic[Item, Answer]):
    """`write` takes the rows of several callers in one go.

    Each caller's rows stand by themselves all the same: when a batch is refused, each caller's are
    written apart, so that the one at fault hears of it alone.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        flights_max: int = FLIGHTS_MAX,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._write = write
        self._flights_max = flights_max
        self._batch_max = batch_max
        self._waiting: Asks[Item, Answer] = []
        self._boarding: set[asyncio.Task[None]] = set()  # flights that still take who waits
        self._flights: set[asyncio.Task[None]] = set()

    async def put(self, items: Sequence[Item]) -> Sequence[Answer]:
        if not items:
            return []
        future: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if len(self._boarding) < self._flights_max:
            self._take_off()
        return await future

    async def landed(self) -> None:
        """Returns once all that was put is written, or could not be."""
        while self._flights:
            await asyncio.wait(self._flights)

    def _take_off(self) -> None:
        """In a task of its own, so that a caller that is cancelled takes nobody with it."""
        flight = asyncio.get_running_loop().create_task(self._fly())
        self._boarding.add(flight)
        self._flights.add(flight)
        flight.add_done_callback(self._touch_down)

    async def _fly(self) -> None:
        """Nothing comes between finding nobody waiting and boarding no more."""
        flight = asyncio.current_task()
        try:
            while asks := self._board():
                await self._carry(asks)
        finally:
            self._boarding = {one for one in self._boarding if one is not flight}

    def _touch_down(self, flight: "asyncio.Task[None]") -> None:
        """A loop that ends cancels all that flies, some before it began; others may wait still."""
        self._flights.discard(flight)
        self._boarding.discard(flight)
        self._forget_gone()
        if self._waiting and not self._boarding:
            self._take_off()

    def _forget_gone(self) -> None:
        """Those whose caller was cancelled."""
        self._waiting = [ask for ask in self._waiting if not ask[1].done()]

    def _board(self) -> Asks[Item, Answer]:
        self._forget_gone()
        count = 0
        for place, (items, _) in enumerate(self._waiting):
            count += len(items)
            if count >= self._batch_max:
                boarded, self._waiting = self._waiting[: place + 1], self._waiting[place + 1 :]
                return boarded
        boarded, self._waiting = self._waiting, []
        return boarded

    async def _carry(self, asks: Asks[Item, Answer]) -> None:
        try:
            await self._answer(asks)
        except asyncio.CancelledError:
            refuse(asks, Unavailable("it was given up while it was written; try again"))
            raise

    async def _answer(self, asks: Asks[Item, Answer]) -> None:
        try:
            answers = await self._write([item for items, _ in asks for item in items])
        except Exception as error:  # noqa: BLE001  it is the callers' answer
            if len(asks) > 1 and not isinstance(error, Unavailable):
                for ask in asks:
                    await self._answer([ask])
                return
            refuse(asks, error)
            return
        start = 0
        for items, future in asks:
            end = start + len(items)
            if not future.done():
                future.set_result(answers[start:end])
            start = end


def refuse(asks: Asks[Item, Answer], error: Exception) -> None:
    """Tell those that have no answer yet."""
    for _, future in asks:
        if not future.done():
            future.set_exception(error)
