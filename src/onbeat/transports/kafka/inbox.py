"""A consumer of one topic of Kafka."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, cast

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.kafka.clerk import Clerk
from onbeat.transports.kafka.ledger import Receipt
from onbeat.transports.kafka.reader import Reader

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 2  # to leave a group of a Kafka that is there takes far less


class KafkaInbox:
    """Hands out what its reader brings, unless the partition has gone to another meanwhile."""

    def __init__(self, clerk: Clerk, topic: str, prefetch: int) -> None:
        self.clerk = clerk
        self.loop = asyncio.get_running_loop()
        self.arrived: deque[Delivery] = deque()
        self.fault: Unavailable | None = None
        self.news = asyncio.Event()
        self.ended = asyncio.Event()
        self.reader = Reader(clerk, topic, prefetch, self.taken, self.failed)
        threading.Thread(target=self.run, name=f"onbeat-kafka-{topic}", daemon=True).start()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        end = self.loop.time() + wait
        while not (got := self.handed_out(limit)):
            self.raise_fault()
            self.raise_ended()
            if (left := end - self.loop.time()) <= 0:
                self.raise_away()
                break
            await self.heard(left)
        return got

    def handed_out(self, limit: int) -> Sequence[Delivery]:
        got: list[Delivery] = []
        while self.arrived and len(got) < limit:
            delivery = self.arrived.popleft()
            if self.reader.held(receipt_of(delivery)):
                got.append(delivery)
        return got

    def raise_fault(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def raise_ended(self) -> None:
        if self.ended.is_set():
            raise Unavailable(f"this inbox of {self.reader.topic} has ended; enter another")

    def raise_away(self) -> None:
        if (away := self.reader.away) is not None:
            raise Unavailable(str(away)) from away

    async def heard(self, wait: float) -> None:
        try:
            async with asyncio.timeout(wait):
                await self.news.wait()
        except TimeoutError:
            return

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.reader.finish([receipt_of(delivery) for delivery in deliveries])

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing to do: Kafka waits for as long as this consumer lives."""

    async def leave(self) -> None:
        """Commits what is done with, and leaves the group. Where Kafka is away neither can be, and
        librdkafka waits for it for ever; then the consumer is left behind, to end by itself.
        """
        self.reader.stop()
        if await self.ends(STOP_SECONDS):
            return
        if self.reader.away is None and await self.ends(self.clerk.place.timeout):
            return
        log.warning("a consumer of %s ends when Kafka is back", self.reader.topic)

    async def ends(self, wait: float) -> bool:
        try:
            async with asyncio.timeout(wait):
                return await self.ended.wait()
        except TimeoutError:
            return False

    def run(self) -> None:
        try:
            self.reader.run()
        finally:
            self.tell(self.ended.set)

    def taken(self, deliveries: Sequence[Delivery]) -> None:
        self.tell(lambda: self.arrived.extend(deliveries))

    def failed(self, fault: Unavailable) -> None:
        self.tell(lambda: self.note(fault))

    def note(self, fault: Unavailable) -> None:
        self.fault = fault

    def tell(self, act: Callable[[], None]) -> None:
        """Does it in the loop, and wakes who waits; whoever comes later waits for other news."""

        def done() -> None:
            act()
            self.news.set()
            self.news = asyncio.Event()

        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self.loop.call_soon_threadsafe(done)


def receipt_of(delivery: Delivery) -> Receipt:
    return cast("Receipt", delivery.receipt)
