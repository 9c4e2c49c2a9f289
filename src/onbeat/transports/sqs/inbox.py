"""A consumer of one queue of SQS."""

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
from onbeat.transports.sqs.letters import BATCH_MAX, delivery_of
from onbeat.transports.sqs.link import POLLS_MAX
from onbeat.transports.sqs.queues import Queues
from onbeat.transports.sqs.repeating import Refusal, all_done, tens

log = logging.getLogger(__name__)

# Seconds from a poll that failed to the answer that it did, so asking in a loop costs little.
FAILURE_PAUSE: Final = 0.25


class SqsInbox:
    """Polls while somebody asks, and no longer: what was received and lies about runs out of its
    visibility. One long poll waits at a queue that is empty, since each costs money; up to ten
    fetch at once from one that fills them.

    A poll cannot be called off. One that is under way when its receiver gives up goes on, and what
    it brings is handed to the next; after the inbox was left, it is given back.
    """

    def __init__(self, queues: Queues, queue: str, prefetch: int) -> None:
        self.queues = queues
        self.queue = queue
        self.prefetch = prefetch
        self.place = queues.link.place
        self.threads = ThreadPoolExecutor(POLLS_MAX, thread_name_prefix="onbeat-sqs-poll")
        self.polls: dict[asyncio.Task[None], int] = {}
        self.arrived: deque[Delivery] = deque()
        # Until when SQS keeps a message from others, by the clock of the loop.
        self.held: dict[str, float] = {}
        self.fault: Unavailable | None = None
        self.filled = False
        self.left = False
        self.news = asyncio.Event()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        if self.left:
            raise Unavailable(f"this inbox of {self.queue} was left; enter another")
        if wait <= 0:
            await self.look(limit)
            return self.handed_out(limit)
        end = now() + wait
        while not (got := self.handed_out(limit)) and now() < end:
            self.poll_more(limit, end - now())
            await self.heard(end - now())
        return got

    async def look(self, limit: int) -> None:
        """Asks once for what is there, unless a poll is waiting for just that."""
        if self.arrived or self.polls:
            return
        self.poll_more(limit, 0)
        if self.polls:
            await asyncio.wait(self.polls)

    def handed_out(self, limit: int) -> Sequence[Delivery]:
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
        """As many polls as there is room for, where they find enough; else one."""
        self.forget_expired()
        asked = sum(self.polls.values())
        room = min(limit, self.prefetch - len(self.held)) - asked
        polls_max = POLLS_MAX if self.filled else 1
        while room > 0 and len(self.polls) < polls_max:
            count = min(room, BATCH_MAX)
            # A wait of no second asks only some of SQS's machines, so it would miss messages.
            seconds = min(math.ceil(wait), self.place.wait)
            task = asyncio.create_task(self.poll(count, seconds))
            self.polls[task] = count
            task.add_done_callback(self.polled)
            room -= count

    async def poll(self, count: int, seconds: int) -> None:
        try:
            messages = await self.queues.receive(self.queue, count, seconds, self.threads)
        except Unavailable as error:
            await asyncio.sleep(FAILURE_PAUSE)
            self.fault, self.filled = error, False
            return
        deliveries = [delivery_of(message) for message in messages]
        self.fault, self.filled = None, len(deliveries) == count
        self.hold([str(delivery.receipt) for delivery in deliveries])
        self.arrived.extend(deliveries)
        if self.left:
            await self.give_back()

    def polled(self, task: asyncio.Task[None]) -> None:
        del self.polls[task]
        self.tell()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a poll of %s failed: %s", self.queue, error, exc_info=error)

    def tell(self) -> None:
        """Wakes who waits; whoever comes later waits for other news."""
        self.news.set()
        self.news = asyncio.Event()

    async def heard(self, wait: float) -> None:
        """Waits for news, but only until a message whose visibility ends makes room."""
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
        self.tell()
        await self.tried(partial(self.queues.delete, self.queue), receipts)

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        self.forget_expired()
        receipts = [str(one.receipt) for one in deliveries if one.receipt in self.held]
        act = partial(self.queues.hide, self.queue, self.place.visibility)
        done, refused = await self.tried(act, receipts)
        self.hold(done)
        for receipt in refused:
            self.held.pop(receipt, None)
        self.tell()

    async def leave(self) -> None:
        """Gives back what is here, within the bounds of a call; polls under way do so later."""
        self.left = True
        self.threads.shutdown(wait=False)
        await self.give_back()

    async def give_back(self) -> None:
        self.forget_expired()
        receipts = list(self.held)
        self.held.clear()
        self.arrived.clear()
        await self.tried(partial(self.queues.hide, self.queue, 0), receipts)

    async def tried(
        self,
        act: Callable[[Sequence[str]], Awaitable[list[tuple[str, Refusal]]]],
        receipts: Sequence[str],
    ) -> tuple[list[str], list[str]]:
        """Does it by tens, all at once; returns what it was done to, and what SQS no longer knows
        by this receipt. What fails comes once more, which is no harm.
        """
        done: list[str] = []
        refused: list[str] = []

        async def ten(lot: Sequence[str]) -> None:
            left = await act(lot)
            refused.extend(receipt for receipt, refusal in left if refusal.ours)
            done.extend({*lot} - {receipt for receipt, _ in left})

        try:
            await all_done([ten(lot) for lot in tens(receipts)])
        except Unavailable as error:
            log.warning("messages of %s may come once more: %s", self.queue, error)
        return done, refused

    def hold(self, receipts: Sequence[str]) -> None:
        self.held |= dict.fromkeys(receipts, now() + self.place.visibility)

    def forget_expired(self) -> None:
        """What others may have by now counts no longer as handed out."""
        self.held = {receipt: until for receipt, until in self.held.items() if until > now()}


def now() -> float:
    return asyncio.get_running_loop().time()
