"""A consumer of one SQS queue."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.sqs.batch_retry import FailedEntry, all_done, in_tens
from onbeat.transports.sqs.connection import POLLS_MAX
from onbeat.transports.sqs.messages import BATCH_MAX, delivery_of
from onbeat.transports.sqs.queues import SqsQueues

log = logging.getLogger(__name__)

# Delay in seconds before a failed poll is reported, so that retries in a loop cost little.
FAILURE_PAUSE: Final = 0.25


class SqsConsumer:
    """Polls only while a caller waits, since the visibility of unused messages would run out.

    An empty queue has one long poll at a time, since each costs money; a full one up to ten.

    A poll cannot be cancelled. If its caller stops waiting it continues, and the next caller
    receives its messages; after the consumer is closed, they are given back.
    """

    def __init__(self, queues: SqsQueues, queue: str, prefetch: int) -> None:
        self.queues = queues
        self.queue = queue
        self.prefetch = prefetch
        self.config = queues.connection.config
        self.threads = ThreadPoolExecutor(POLLS_MAX, thread_name_prefix="onbeat-sqs-poll")
        self.polls: dict[asyncio.Task[None], int] = {}
        self.arrived: deque[Delivery] = deque()
        # When the visibility of each message ends, in the loop's time.
        self.held: dict[str, float] = {}
        self.fault: Unavailable | None = None
        self.filled = False
        self.left = False
        self.news = asyncio.Event()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        if self.left:
            raise Unavailable(f"this consumer of {self.queue} is closed; open another")
        if wait <= 0:
            await self.look(limit)
            return self.hand_out(limit)
        end = now() + wait
        while not (got := self.hand_out(limit)) and now() < end:
            self.poll_more(limit, end - now())
            await self.wait_for_news(end - now())
        return got

    async def look(self, limit: int) -> None:
        """Polls once without waiting, unless messages or a poll are pending."""
        if self.arrived or self.polls:
            return
        self.poll_more(limit, 0)
        if self.polls:
            await asyncio.wait(self.polls)

    def hand_out(self, limit: int) -> Sequence[Delivery]:
        self.forget_expired()
        got: list[Delivery] = []
        while self.arrived and len(got) < limit:
            delivery = self.arrived.popleft()
            if delivery.receipt in self.held:
                got.append(delivery)
        if not got and self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        return got

    def poll_more(self, limit: int, wait: float) -> None:
        """Starts as many polls as there is room for if the queue is full; else one."""
        self.forget_expired()
        request = sum(self.polls.values())
        room = min(limit, self.prefetch - len(self.held)) - request
        polls_max = POLLS_MAX if self.filled else 1
        while room > 0 and len(self.polls) < polls_max:
            count = min(room, BATCH_MAX)
            # A poll with a wait of 0 asks only some of the SQS servers, so it would miss messages.
            seconds = min(math.ceil(wait), self.config.wait)
            task = asyncio.create_task(self.poll(count, seconds))
            self.polls[task] = count
            task.add_done_callback(self.on_poll_end)
            room -= count

    async def poll(self, count: int, seconds: int) -> None:
        try:
            messages = await self.queues.receive(self.queue, count, seconds, self.threads)
        except Unavailable as error:
            await asyncio.sleep(FAILURE_PAUSE)
            self.fault, self.filled = error, False
            return
        except RuntimeError:
            if self.left:  # its threads ended before the call began
                return
            raise
        deliveries = [delivery_of(message) for message in messages]
        self.fault, self.filled = None, len(deliveries) == count
        self.hold([str(delivery.receipt) for delivery in deliveries])
        self.arrived.extend(deliveries)
        if self.left:
            await self.hand_back()

    def on_poll_end(self, task: asyncio.Task[None]) -> None:
        del self.polls[task]
        self.wake_waiters()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a poll of %s failed: %s", self.queue, error, exc_info=error)

    def wake_waiters(self) -> None:
        """Wakes current waiters; later callers wait for the next event."""
        self.news.set()
        self.news = asyncio.Event()

    async def wait_for_news(self, wait: float) -> None:
        """Waits for an event, at most until a message whose visibility ends makes room."""
        if not self.polls:
            wait = min([wait, *(until - now() for until in self.held.values())])
        try:
            async with asyncio.timeout(max(0, wait)):
                await self.news.wait()
        except TimeoutError:
            return

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        receipts = [str(delivery.receipt) for delivery in deliveries]
        for receipt in receipts:
            self.held.pop(receipt, None)
        self.wake_waiters()
        await self.do_in_batches(partial(self.queues.delete, self.queue), receipts)

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        self.forget_expired()
        receipts = [
            str(delivery.receipt) for delivery in deliveries if delivery.receipt in self.held
        ]
        act = partial(self.queues.hide, self.queue, self.config.visibility)
        done, refused = await self.do_in_batches(act, receipts)
        self.hold(done)
        for receipt in refused:
            self.held.pop(receipt, None)
        self.wake_waiters()

    async def close(self) -> None:
        """Gives back messages within the time of a call; running polls do so later."""
        self.left = True
        self.threads.shutdown(wait=False)
        await self.hand_back()

    async def hand_back(self) -> None:
        self.forget_expired()
        receipts = list(self.held)
        self.held.clear()
        self.arrived.clear()
        await self.do_in_batches(partial(self.queues.hide, self.queue, 0), receipts)

    async def do_in_batches(
        self,
        act: Callable[[Sequence[str]], Awaitable[list[tuple[str, FailedEntry]]]],
        receipts: Sequence[str],
    ) -> tuple[list[str], list[str]]:
        """Calls `act` in batches of ten, all at once.

        Returns the receipts that succeeded, and those that SQS no longer knows. Messages whose call
        failed are delivered again, which is harmless.
        """
        done: list[str] = []
        refused: list[str] = []

        async def do_batch(batch: Sequence[str]) -> None:
            left = await act(batch)
            refused.extend(receipt for receipt, refusal in left if refusal.ours)
            done.extend({*batch} - {receipt for receipt, _ in left})

        try:
            await all_done([do_batch(batch) for batch in in_tens(receipts)])
        except Unavailable as error:
            log.warning("messages of %s may come once more: %s", self.queue, error)
        return done, refused

    def hold(self, receipts: Sequence[str]) -> None:
        self.held |= dict.fromkeys(receipts, now() + self.config.visibility)

    def forget_expired(self) -> None:
        """Forgets messages whose visibility has ended: others may have received them."""
        self.held = {receipt: until for receipt, until in self.held.items() if until > now()}


def now() -> float:
    return asyncio.get_running_loop().time()
