"""A model broker: it loses, doubles and delays messages, delivers again, and goes away."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import count
from types import TracebackType
from typing import Self

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Consumer, Delivery, Envelope
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.journal import Journal
from onbeat.testing.simulation.loop import Process, SimulationLoop
from onbeat.testing.simulation.options import SimulationOptions

LATE_MAX = 5.0


class BrokerServer:
    """The queues. `is_down`: nothing is answered, and consumers lose what they hold."""

    def __init__(
        self, loop: SimulationLoop, options: SimulationOptions, chance: Chance, journal: Journal
    ) -> None:
        self.loop = loop
        self.options = options
        self.chance = chance
        self.journal = journal
        self.is_down = False
        self.is_healed = False
        self.process = loop.new_process("broker")
        self.waiting: dict[str, list[Envelope]] = {}
        self.consumers: list[ModelConsumer] = []
        self.receipts = count(1)

    def draws(self, rate: float) -> bool:
        return rate > 0 and not self.is_healed and self.chance.happens(rate)

    def require_up(self) -> None:
        if self.is_down:
            raise Unavailable("the broker does not answer")

    def accept(self, queue: str, envelope: Envelope) -> None:
        """Add a message that was published; it may be lost, come twice, or come late."""
        if self.draws(self.options.messages_lost):
            self.journal.note(self.loop.at, "broker", "message lost", queue)
            return
        for _ in range(2 if self.draws(self.options.messages_doubled) else 1):
            is_late = self.draws(self.options.messages_late)
            delay = LATE_MAX * self.chance.fraction() if is_late else 0.0
            self.loop.call_in(self.process, delay, self.put, queue, envelope)

    def put(self, queue: str, envelope: Envelope) -> None:
        self.waiting.setdefault(queue, []).append(envelope)
        for consumer in self.consumers:
            if consumer.queue == queue:
                consumer.arrived.set()

    def take(self, consumer: "ModelConsumer", limit: int) -> list[Delivery]:
        waiting = self.waiting.get(consumer.queue, [])
        room = min(limit, consumer.prefetch - len(consumer.held), len(waiting))
        taken: list[Delivery] = []
        for _ in range(max(0, room)):
            envelope = waiting.pop(0)
            receipt = next(self.receipts)
            consumer.held[receipt] = envelope
            taken.append(
                Delivery(
                    body=envelope.body,
                    headers=dict(envelope.headers),
                    receipt=receipt,
                    id=envelope.id,
                )
            )
        return taken

    def return_held(self, consumer: "ModelConsumer") -> None:
        """What is not acknowledged is delivered again."""
        held, consumer.held = consumer.held, {}
        for envelope in held.values():
            self.put(consumer.queue, envelope)

    def stop(self) -> None:
        self.is_down = True
        for consumer in self.consumers:
            self.return_held(consumer)

    def forget(self, process: Process) -> None:
        """The connections of a process that has died are closed."""
        for consumer in [one for one in self.consumers if one.process is process]:
            self.consumers.remove(consumer)
            self.return_held(consumer)


class ModelBroker:
    """Implements `Broker` for one process."""

    url = "memory://model"

    def __init__(self, server: BrokerServer, process: Process) -> None:
        self.server = server
        self.process = process

    async def open(self) -> None:
        """Does nothing."""

    async def close(self) -> None:
        self.server.forget(self.process)

    async def answer(self) -> None:
        """The way there and back. Raises `Unavailable`."""
        await asyncio.sleep(self.server.options.latency * 2)
        self.server.require_up()

    async def ping(self) -> None:
        await self.answer()

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        await self.answer()
        for envelope in envelopes:
            self.server.accept(queue, envelope)
        if self.server.draws(self.server.options.lost_answers):
            raise Unavailable("the broker's answer was lost")

    def consumer(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        return ModelConsumer(self.server, self.process, queue, max(1, prefetch))

    async def depth(self, queue: str) -> int | None:
        await self.answer()
        return len(self.server.waiting.get(queue, ()))

    async def purge(self, queue: str) -> None:
        await self.answer()
        self.server.waiting.pop(queue, None)


class ModelConsumer:
    """Implements `Consumer`, and the context that opens and closes it."""

    def __init__(self, server: BrokerServer, process: Process, queue: str, prefetch: int) -> None:
        self.server = server
        self.process = process
        self.queue = queue
        self.prefetch = prefetch
        self.arrived = asyncio.Event()
        self.held: dict[int, Envelope] = {}

    async def __aenter__(self) -> Self:
        self.server.consumers.append(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self in self.server.consumers:
            self.server.consumers.remove(self)
        self.server.return_held(self)

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        until = self.server.loop.time() + wait
        while True:
            self.arrived.clear()
            await asyncio.sleep(self.server.options.latency)
            self.server.require_up()
            taken = self.server.take(self, limit)
            left = until - self.server.loop.time()
            if taken or left <= 0:
                return taken
            try:
                async with asyncio.timeout(left):
                    await self.arrived.wait()
            except TimeoutError:
                return []

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            assert isinstance(delivery.receipt, int)
            envelope = self.held.pop(delivery.receipt, None)
            if envelope is not None and self.server.draws(self.server.options.redeliveries):
                self.server.put(self.queue, envelope)

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Does nothing: a message is held as long as its consumer is connected."""
