"""An inbox that outlasts its failures."""

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Broker, Delivery, Inbox

LEAVE_SECONDS: Final = 2.0


class LastingInbox:
    """Entered when it is first needed, and entered anew when it has failed."""

    def __init__(self, broker: Broker, queue: str, prefetch: int) -> None:
        self.broker = broker
        self.queue = queue
        self.prefetch = prefetch
        self.stack = AsyncExitStack()
        self.inbox: Inbox | None = None

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """As the inbox does. Raises `Unavailable`, having left it."""
        inbox = self.inbox or await self.enter()
        try:
            return await inbox.receive(limit, wait)
        except Unavailable:
            # One that has failed may go on at the pace of its failures; a fresh one knows of none.
            await self.leave()
            raise

    async def enter(self) -> Inbox:
        self.inbox = await self.stack.enter_async_context(
            self.broker.inbox(self.queue, self.prefetch)
        )
        return self.inbox

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if self.inbox is not None:
            await self.inbox.acknowledge(deliveries)

    async def leave(self) -> None:
        """Give back what was not acknowledged; a broker that does not answer is not waited for."""
        self.inbox = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.stack.aclose()
