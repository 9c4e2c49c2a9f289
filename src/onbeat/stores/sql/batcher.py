"""Group commit: calls that arrive during a commit share the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from onbeat.model.errors import Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

BATCH_MAX = 5_000
FLIGHTS_MAX = 2  # one batch is prepared while the server writes the other


Asks = list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]
"""The rows of each caller, and the future that receives its answers."""


class Batcher(Generic[Item, Answer]):
    """Passes the rows of several callers to one call of `write`.

    Callers stay independent: when a batch fails, the rows of each caller are written separately,
    and only the caller at fault gets the error.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        flights_max: int = FLIGHTS_MAX,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._write = write
        self._batches_max = flights_max
        self._batch_max = batch_max
        self._waiting: Asks[Item, Answer] = []
        self._is_scheduled: set[asyncio.Task[None]] = set()  # flushes that still take waiting calls
        self._in_flight: set[asyncio.Task[None]] = set()

    async def submit(self, items: Sequence[Item]) -> Sequence[Answer]:
        if not items:
            return []
        future: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if len(self._is_scheduled) < self._batches_max:
            self._start_flush()
        return await future

    async def drain(self) -> None:
        """Returns when all submitted rows are written or have failed."""
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    def _start_flush(self) -> None:
        """In its own task, so that a cancelled caller does not cancel other callers' writes."""
        task = asyncio.get_running_loop().create_task(self._flush())
        self._is_scheduled.add(task)
        self._in_flight.add(task)
        task.add_done_callback(self._on_flushed)

    async def _flush(self) -> None:
        """No `await` may stand between the last empty batch and the removal of this task."""
        task = asyncio.current_task()
        try:
            while requests := self._next_batch():
                await self._write_batch(requests)
        finally:
            self._is_scheduled = {one for one in self._is_scheduled if one is not task}

    def _on_flushed(self, task: "asyncio.Task[None]") -> None:
        """Start again if calls wait: an ending loop cancels flushes, some before they began."""
        self._in_flight.discard(task)
        self._is_scheduled.discard(task)
        self._drop_cancelled()
        if self._waiting and not self._is_scheduled:
            self._start_flush()

    def _drop_cancelled(self) -> None:
        """Remove the calls whose caller was cancelled."""
        self._waiting = [ask for ask in self._waiting if not ask[1].done()]

    def _next_batch(self) -> Asks[Item, Answer]:
        self._drop_cancelled()
        count = 0
        for place, (items, _) in enumerate(self._waiting):
            count += len(items)
            if count >= self._batch_max:
                boarded, self._waiting = self._waiting[: place + 1], self._waiting[place + 1 :]
                return boarded
        boarded, self._waiting = self._waiting, []
        return boarded

    async def _write_batch(self, requests: Asks[Item, Answer]) -> None:
        try:
            await self._answer_batch(requests)
        except asyncio.CancelledError:
            fail_all(requests, Unavailable("the write was cancelled; try again"))
            raise

    async def _answer_batch(self, requests: Asks[Item, Answer]) -> None:
        try:
            answers = await self._write([item for items, _ in requests for item in items])
        except Exception as error:  # noqa: BLE001  it is the callers' answer
            if len(requests) > 1 and not isinstance(error, Unavailable):
                for ask in requests:
                    await self._answer_batch([ask])
                return
            fail_all(requests, error)
            return
        start = 0
        for items, future in requests:
            end = start + len(items)
            if not future.done():
                future.set_result(answers[start:end])
            start = end


def fail_all(requests: Asks[Item, Answer], error: Exception) -> None:
    """Set the error on every request without an answer."""
    for _, future in requests:
        if not future.done():
            future.set_exception(error)
