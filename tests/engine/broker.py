"""A broker inside the test's own process, which loses, doubles and withholds as it is told."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery, Envelope


class LocalQueue:
    """One queue: what waits, and what is handed out and not acknowledged."""

    def __init__(self) -> None:
        self.waiting: list[Delivery] = []
        self.handed_out: dict[Any, Delivery] = {}


class LocalBroker:
    url = "local://"

    def __init__(self) -> None:
        self.lines: dict[str, LocalQueue] = defaultdict(LocalQueue)
        self.count = 0
        self.is_away = False
        self.loses = False
        self.copies = 1
        self.published: list[tuple[str, Envelope]] = []

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None:
        if self.is_away:
            raise Unavailable("the broker is away")

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        await self.ping()
        for envelope in envelopes:
            self.published.append((queue, envelope))
            for _ in range(0 if self.loses else self.copies):
                self.put(queue, envelope)

    def put(self, queue: str, envelope: Envelope) -> None:
        self.count += 1
        self.lines[queue].waiting.append(
            Delivery(
                body=envelope.body, headers=envelope.headers, receipt=self.count, id=envelope.id
            )
        )

    @asynccontextmanager
    async def consumer(self, queue: str, prefetch: int) -> AsyncIterator["LocalConsumer"]:
        inbox = LocalConsumer(self, self.lines[queue], prefetch)
        yield inbox
        inbox.give_back()

    async def depth(self, queue: str) -> int | None:
        return len(self.lines[queue].waiting)

    async def purge(self, queue: str) -> None:
        self.lines[queue].waiting.clear()


class LocalConsumer:
    """Never waits: a test steps it when there is something."""

    def __init__(self, broker: LocalBroker, line: LocalQueue, prefetch: int) -> None:
        self.broker = broker
        self.line = line
        self.prefetch = prefetch
        self.mine: set[Any] = set()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        await self.broker.ping()
        count = min(limit, self.prefetch - len(self.mine))
        taken, self.line.waiting[:count] = self.line.waiting[:count], []
        for delivery in taken:
            self.line.handed_out[delivery.receipt] = delivery
            self.mine.add(delivery.receipt)
        return taken

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        await self.broker.ping()
        for delivery in deliveries:
            self.line.handed_out.pop(delivery.receipt, None)
            self.mine.discard(delivery.receipt)

    async def extend(self, deliveries: Sequence[Delivery]) -> None: ...

    def give_back(self) -> None:
        self.line.waiting[:0] = [self.line.handed_out.pop(receipt) for receipt in sorted(self.mine)]
        self.mine.clear()
