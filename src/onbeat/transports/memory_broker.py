"""A broker within the process: for trying out and for tests, without a server."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.ports.transport import Delivery, Envelope, Inbox
from onbeat.transports.lots import check, lots
from onbeat.transports.memory_server import Bell, Consumer, MemoryServer, server_named

SCHEME: Final = "memory://"
NAME_FORM: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class MemoryBroker:
    """`memory://NAME`. All that name it in one process share its queues, whatever their threads.

    A message is given to another inbox when the one that holds it is left, as with RabbitMQ.
    Nothing outlasts the process. Raises `Misconfigured`.
    """

    def __init__(self, url: str) -> None:
        self.server = server_named(name_in(url))
        self.inboxes: set[MemoryInbox] = set()
        self.is_closed = False

    @property
    def url(self) -> str:
        return self.server.url

    async def open(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        for inbox in self.inboxes:
            self.server.take_back(inbox.consumer)

    def reached(self) -> MemoryServer:
        """Raises `Unavailable` when this broker is closed."""
        if self.is_closed:
            raise Unavailable(f"{self.url} is closed here")
        return self.server

    async def ping(self) -> None:
        await asyncio.sleep(0)  # who asks again and again lets others run
        self.reached().answer()

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            check(envelope)
        own = [replace(envelope, headers=dict(envelope.headers)) for envelope in envelopes]
        for lot in lots(own):
            await asyncio.sleep(0)  # as above
            self.reached().put(queue, lot)

    @asynccontextmanager
    async def inbox(self, queue: str, prefetch: int) -> AsyncGenerator[Inbox, None]:
        inbox = MemoryInbox(self, Consumer(queue, max(1, prefetch), Bell()))
        self.server.join(inbox.consumer)
        self.inboxes.add(inbox)
        try:
            yield inbox
        finally:
            self.inboxes.discard(inbox)
            self.server.part(inbox.consumer)

    async def depth(self, queue: str) -> int | None:
        return self.reached().depth(queue)

    async def purge(self, queue: str) -> None:
        self.reached().purge(queue)


class MemoryInbox:
    """What it holds is held for as long as it is not left."""

    def __init__(self, broker: MemoryBroker, consumer: Consumer) -> None:
        self.broker = broker
        self.consumer = consumer

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        await asyncio.sleep(0)  # as above
        while True:
            self.consumer.bell.hush()
            is_last = loop.time() >= until
            try:
                taken = self.broker.reached().take(self.consumer, limit)
            except Unavailable:
                if is_last:
                    raise
            else:
                if taken or is_last:
                    return taken
            await self.consumer.bell.wait(until)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.broker.server.drop(self.consumer, [one.receipt for one in deliveries])

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing: they are not given to others while this inbox lives."""


def name_in(url: str) -> str:
    name = url[len(SCHEME) :]
    if not url.lower().startswith(SCHEME) or not NAME_FORM.fullmatch(name):
        raise Misconfigured(
            "a broker within this process is memory://NAME, with a name of up to 100 letters, "
            "digits, _, . and -, and nothing after it",
            key="transport",
        )
    return name
