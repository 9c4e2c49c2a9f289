"""Common steps of the broker tests."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Broker, Consumer, Delivery, Envelope
from onbeat.testing.broker_contract.broker_link import SLICE, Traits
from onbeat.testing.build import an_id


def an_envelope(body: bytes = b"body", **headers: str) -> Envelope:
    return Envelope(id=an_id(), body=body, headers=headers)


def envelopes(count: int) -> list[Envelope]:
    """This many envelopes, each with its number as the body."""
    return [an_envelope(b"%d" % number) for number in range(count)]


def bodies(messages: Sequence[Envelope] | Sequence[Delivery]) -> list[bytes]:
    """The bodies, sorted, as order is not guaranteed."""
    return sorted(message.body for message in messages)


async def collect(
    consumer: Consumer, count: int, traits: Traits, *, acknowledge: bool = False
) -> list[Delivery]:
    """Receive this many deliveries, in any number of calls."""
    got: list[Delivery] = []
    try:
        async with asyncio.timeout(traits.patience):
            while len(got) < count:
                new = await consumer.receive(count - len(got), SLICE)
                got += new
                if acknowledge:
                    await consumer.acknowledge(new)
    except TimeoutError as error:
        raise AssertionError(f"{len(got)} of {count} messages came") from error
    return got


async def drain(broker: Broker, queue: str, count: int, traits: Traits) -> list[Delivery]:
    """Receive and acknowledge this many deliveries in a new inbox."""
    async with broker.consumer(queue, prefetch=100) as consumer:
        return await collect(consumer, count, traits, acknowledge=True)


async def find_missing(
    broker: Broker, queue: str, sent: Sequence[Envelope] | Sequence[Delivery], traits: Traits
) -> set[bytes]:
    """The bodies that never arrive. Some may arrive twice: delivery is at least once."""
    left = {*bodies(sent)}
    async with broker.consumer(queue, prefetch=100) as consumer:
        try:
            async with asyncio.timeout(traits.patience):
                while left:
                    with suppress(Unavailable):  # an outage ended only just now
                        got = await consumer.receive(len(left), SLICE)
                        await consumer.acknowledge(got)
                        left -= {*bodies(got)}
        except TimeoutError:
            return left
    return left


async def holds_only(broker: Broker, queue: str, traits: Traits) -> bool:
    """Whether the queue holds only the message published here."""
    mark = an_envelope(b"mark")
    await broker.publish(queue, [mark])
    async with broker.consumer(queue, prefetch=100) as consumer:
        got = await collect(consumer, 1, traits, acknowledge=True)
        rest = await consumer.receive(100, SLICE)
        await consumer.acknowledge(rest)
    return bodies([*got, *rest]) == [b"mark"]


async def join_all(consumers: Sequence[Consumer], traits: Traits) -> None:
    """Subscribe all consumers to an empty queue.

    Retries while the broker is unavailable: RabbitMQ has answered INTERNAL_ERROR to one of several
    consumers that joined a new quorum queue at once.
    """

    async def join(consumer: Consumer) -> Sequence[Delivery]:
        while True:
            with suppress(Unavailable):
                return await consumer.receive(1, traits.visibility)

    async with asyncio.timeout(traits.patience):
        waits = await asyncio.gather(*(join(consumer) for consumer in consumers))
    assert not any(waits), "the queue is not empty"


async def wait_until_refused(consumer: Consumer, traits: Traits) -> None:
    """Returns when `receive` raises `Unavailable`."""
    async with asyncio.timeout(traits.patience):
        while True:
            try:
                await consumer.receive(1, SLICE)
            except Unavailable:
                return


async def publish_until_confirmed(
    broker: Broker, queue: str, messages: Sequence[Envelope], traits: Traits
) -> None:
    """Returns when a publish is confirmed."""
    async with asyncio.timeout(traits.patience):
        while True:
            with suppress(Unavailable):
                return await broker.publish(queue, messages)


async def receive_after_outage(consumer: Consumer, count: int, traits: Traits) -> list[Delivery]:
    """Receive this many deliveries after an outage, during which the inbox may be unavailable."""
    got: list[Delivery] = []
    async with asyncio.timeout(traits.patience):
        while len(got) < count:
            with suppress(Unavailable):
                got += await consumer.receive(count - len(got), SLICE)
    return got
