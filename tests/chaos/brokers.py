"""The brokers under attack: what they hold are hints, so whatever is done to them may cost time only."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from crash.brokers import KINDS, Server

FAULTS: Final = ("kill_broker", "empty_broker")


class Broker:
    """A private server. Its methods that `FAULTS` names attack it."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def url(self) -> str:
        return f"{self.server.url}?timeout=3"

    async def kill_broker(self, seconds: float) -> None:
        await asyncio.to_thread(self.server.kill)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.server.start)

    async def empty_broker(self, seconds: float) -> None:
        """All messages are gone, and with RabbitMQ the queues too."""
        await asyncio.to_thread(self.server.forget)


@contextlib.contextmanager
def broker(kind: str | None) -> Iterator[Broker | None]:
    """None for a fleet whose workers ask the store."""
    if kind is None:
        yield None
        return
    server = KINDS[kind]()
    server.start()
    try:
        yield Broker(server)
    finally:
        server.stop()
