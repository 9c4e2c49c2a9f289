"""A broker within the process, for trials and tests without a server."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.ports.transport import Consumer, Delivery, Envelope
from onbeat.transports.batches import batches, check_size
from onbeat.transports.memory_server import LoopWakeup, MemoryServer, Subscription, server_named

SCHEME: Final = "memory://"
NAME_FORM: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class MemoryBroker:
    """`memory://NAME`. All brokers with this name in one process share queues, across threads.

    A message is redelivered to another consumer when the one that holds it closes, as with
    RabbitMQ. Nothing survives the process. Raises `Misconfigured`.
    """

    def __init__(self, url: str) -> None:
        self.server = server_named(name_in(url))
        self.consumers: set[MemoryConsumer] = set()
        self.is_closed = False

    @property
    def url(self) -> str:
        return self.server.url

    async def open(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        for consumer in self.consumers:
            self.server.take_back(consumer.subscription)

    def require_open(self) -> MemoryServer:
        """Raises `Unavailable` when this broker is closed."""
        if self.is_closed:
            raise Unavailable(f"{self.url} is closed here")
        return self.server

    async def ping(self) -> None:
        await asyncio.sleep(0)  # a caller in a tight loop lets other tasks run
        self.require_open().answer()

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            check_size(envelope)
        own = [replace(envelope, headers=dict(envelope.headers)) for envelope in envelopes]
        for batch in batches(own):
            await asyncio.sleep(0)  # as above
            self.require_open().put(queue, batch)

    @asynccontextmanager
    async def consumer(self, queue: str, prefetch: int) -> AsyncGenerator[Consumer, None]:
        inbox = MemoryConsumer(self, Subscription(queue, max(1, prefetch), LoopWakeup()))
        self.server.join(inbox.subscription)
        self.consumers.add(inbox)
        try:
            yield inbox
        finally:
            self.consumers.discard(inbox)
            self.server.part(inbox.subscription)

    async def depth(self, queue: str) -> int | None:
        return self.require_open().depth(queue)

    async def purge(self, queue: str) -> None:
        self.require_open().purge(queue)


class MemoryConsumer:
    """Messages are held until they are acknowledged or the consumer closes."""

    def __init__(self, broker: MemoryBroker, consumer: Subscription) -> None:
        self.broker = broker
        self.subscription = consumer

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        await asyncio.sleep(0)  # as above
        while True:
            self.subscription.wakeup.clear()
            is_last = loop.time() >= until
            try:
                taken = self.broker.require_open().take(self.subscription, limit)
            except Unavailable:
                if is_last:
                    raise
            else:
                if taken or is_last:
                    return taken
            await self.subscription.wakeup.wait(until)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.broker.server.drop(self.subscription, [delivery.receipt for delivery in deliveries])

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Does nothing: messages are not redelivered while this consumer is open."""


def name_in(url: str) -> str:
    name = url[len(SCHEME) :]
    if not url.lower().startswith(SCHEME) or not NAME_FORM.fullmatch(name):
        raise Misconfigured(
            "a broker within this process is memory://NAME, with a name of up to 100 letters, "
            "digits, _, . and -, and nothing after it",
            key="transport",
        )
    return name
