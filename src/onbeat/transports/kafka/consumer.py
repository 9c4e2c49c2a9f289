"""A consumer of one Kafka topic."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, cast

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.kafka.admin import TopicAdmin
from onbeat.transports.kafka.offsets import Receipt
from onbeat.transports.kafka.topic_reader import TopicReader

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 2  # leaving the group of an available Kafka takes far less


class KafkaConsumer:
    """Hands out messages from its reader, unless their partition was reassigned meanwhile."""

    def __init__(self, admin: TopicAdmin, topic: str, prefetch: int) -> None:
        self.admin = admin
        self.loop = asyncio.get_running_loop()
        self.arrived: deque[Delivery] = deque()
        self.fault: Unavailable | None = None
        self.news = asyncio.Event()
        self.ended = asyncio.Event()
        self.reader = TopicReader(admin, topic, prefetch, self.on_deliveries, self.on_failure)
        threading.Thread(target=self.run, name=f"onbeat-kafka-{topic}", daemon=True).start()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        end = self.loop.time() + wait
        while not (got := self.hand_out(limit)):
            self.raise_fault()
            self.raise_ended()
            if (left := end - self.loop.time()) <= 0:
                self.raise_away()
                break
            await self.wait_for_news(left)
        return got

    def hand_out(self, limit: int) -> Sequence[Delivery]:
        got: list[Delivery] = []
        while self.arrived and len(got) < limit:
            delivery = self.arrived.popleft()
            if self.reader.is_held(receipt_of(delivery)):
                got.append(delivery)
        return got

    def raise_fault(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def raise_ended(self) -> None:
        if self.ended.is_set():
            raise Unavailable(f"this consumer of {self.reader.topic} is closed; open another")

    def raise_away(self) -> None:
        if (away := self.reader.away) is not None:
            raise Unavailable(str(away)) from away

    async def wait_for_news(self, wait: float) -> None:
        try:
            async with asyncio.timeout(wait):
                await self.news.wait()
        except TimeoutError:
            return

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.reader.finish([receipt_of(delivery) for delivery in deliveries])

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Does nothing: Kafka waits as long as this consumer lives."""

    async def close(self) -> None:
        """Commits acknowledged messages and leaves the group.

        While Kafka is unavailable neither is possible, and librdkafka waits for it forever; the
        consumer is then abandoned and ends by itself.
        """
        self.reader.stop()
        if await self.ends(STOP_SECONDS):
            return
        if self.reader.away is None and await self.ends(self.admin.config.timeout):
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
            self.call_in_loop(self.ended.set)

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self.call_in_loop(lambda: self.arrived.extend(deliveries))

    def on_failure(self, fault: Unavailable) -> None:
        self.call_in_loop(lambda: self.note(fault))

    def note(self, fault: Unavailable) -> None:
        self.fault = fault

    def call_in_loop(self, act: Callable[[], None]) -> None:
        """Runs `act` in the loop and wakes all waiters; later callers wait for the next event."""

        def run_and_wake() -> None:
            act()
            self.news.set()
            self.news = asyncio.Event()

        with suppress(RuntimeError):  # the loop is closed, and nothing waits
            self.loop.call_soon_threadsafe(run_and_wake)


def receipt_of(delivery: Delivery) -> Receipt:
    return cast("Receipt", delivery.receipt)
