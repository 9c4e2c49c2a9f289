"""Group commit: what comes while a commit is under way goes into the next one together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from onbeat.model.errors import Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

BATCH_MAX = 5_000
FLIGHTS_MAX = 2  # one is made ready while the server works at the other


class Gatherer(Generic[Item, Answer]):
    """`write` takes the rows of several callers in one go.

    Each caller's rows stand by themselves all the same: when a batch is refused, each caller's are
    written apart, so that the one at fault hears of it alone.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        flights_max: int = FLIGHTS_MAX,
    ) -> None:
        self._write = write
        self._flights_max = flights_max
        self._waiting: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]] = []
        self._flights: set[asyncio.Task[None]] = set()

    async def put(self, items: Sequence[Item]) -> Sequence[Answer]:
        if not items:
            return []
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[Answer]] = loop.create_future()
        self._waiting.append((items, future))
        if len(self._flights) < self._flights_max:
            # A task of its own, so that a caller that is cancelled takes nobody with it.
            self._flights.add(loop.create_task(self._fly()))
        return await future

    async def landed(self) -> None:
        """Returns once all that was put is written, or could not be."""
        while self._flights:
            await asyncio.wait(self._flights)

    async def _fly(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._board())
        finally:
            # Not by a callback: whoever was just answered may put again before that is called.
            self._flights = {one for one in self._flights if one is not asyncio.current_task()}

    def _board(self) -> list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]:
        count = 0
        for place, (items, _) in enumerate(self._waiting):
            count += len(items)
            if count >= BATCH_MAX:
                boarded, self._waiting = self._waiting[: place + 1], self._waiting[place + 1 :]
                return boarded
        boarded, self._waiting = self._waiting, []
        return boarded

    async def _answer(
        self, asks: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]
    ) -> None:
        try:
            answers = await self._write([item for items, _ in asks for item in items])
        except Exception as error:  # noqa: BLE001  it is the callers' answer
            if len(asks) > 1 and not isinstance(error, Unavailable):
                for ask in asks:
                    await self._answer([ask])
                return
            for _, future in asks:
                if not future.done():
                    future.set_exception(error)
            return
        start = 0
        for items, future in asks:
            end = start + len(items)
            if not future.done():
                future.set_result(answers[start:end])
            start = end
