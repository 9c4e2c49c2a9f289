"""A consumer that reconnects after a failure."""

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Broker, Consumer, Delivery

LEAVE_SECONDS: Final = 2.0


class ReconnectingConsumer:
    """Opens the consumer on first use and reopens it after a failure."""

    def __init__(self, broker: Broker, queue: str, prefetch: int) -> None:
        self.broker = broker
        self.queue = queue
        self.prefetch = prefetch
        self.stack = AsyncExitStack()
        self.consumer: Consumer | None = None

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Receive messages; on `Unavailable` the consumer is closed, and the error is raised."""
        consumer = self.consumer or await self.enter()
        try:
            return await consumer.receive(limit, wait)
        except Unavailable:
            # A failed consumer may keep its retry delays; a new one starts without them.
            await self.close()
            raise

    async def enter(self) -> Consumer:
        self.consumer = await self.stack.enter_async_context(
            self.broker.consumer(self.queue, self.prefetch)
        )
        return self.consumer

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if self.consumer is not None:
            await self.consumer.acknowledge(deliveries)

    async def close(self) -> None:
        """Return unacknowledged messages to the queue, within `LEAVE_SECONDS` at most."""
        self.consumer = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.stack.aclose()
