"""What the tests of brokers do over and over."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Broker, Delivery, Envelope, Inbox
from onbeat.testing.broker_contract.line import SLICE, Traits
from onbeat.testing.build import an_id


def an_envelope(body: bytes = b"body", **headers: str) -> Envelope:
    return Envelope(id=an_id(), body=body, headers=headers)


def envelopes(count: int) -> list[Envelope]:
    """As many, each with its number as the body."""
    return [an_envelope(b"%d" % number) for number in range(count)]


def bodies(messages: Sequence[Envelope] | Sequence[Delivery]) -> list[bytes]:
    """Sorted, as order is not promised."""
    return sorted(message.body for message in messages)


async def collected(
    inbox: Inbox, count: int, traits: Traits, *, acknowledge: bool = False
) -> list[Delivery]:
    """So many deliveries, in as many calls as it takes."""
    got: list[Delivery] = []
    try:
        async with asyncio.timeout(traits.patience):
            while len(got) < count:
                new = await inbox.receive(count - len(got), SLICE)
                got += new
                if acknowledge:
                    await inbox.acknowledge(new)
    except TimeoutError as error:
        raise AssertionError(f"{len(got)} of {count} messages came") from error
    return got


async def drained(broker: Broker, queue: str, count: int, traits: Traits) -> list[Delivery]:
    """So many deliveries of an inbox that is entered for them alone, acknowledged."""
    async with broker.inbox(queue, prefetch=100) as inbox:
        return await collected(inbox, count, traits, acknowledge=True)


async def missing(
    broker: Broker, queue: str, sent: Sequence[Envelope], traits: Traits
) -> set[bytes]:
    """The bodies that never come. Some may come twice: a broker promises at least once."""
    left = {envelope.body for envelope in sent}
    async with broker.inbox(queue, prefetch=100) as inbox:
        try:
            async with asyncio.timeout(traits.patience):
                while left:
                    got = await inbox.receive(len(left), SLICE)
                    await inbox.acknowledge(got)
                    left -= {delivery.body for delivery in got}
        except TimeoutError:
            return left
    return left


async def only(broker: Broker, queue: str, traits: Traits) -> bool:
    """Whether the queue holds nothing but what is published here."""
    mark = an_envelope(b"mark")
    await broker.publish(queue, [mark])
    async with broker.inbox(queue, prefetch=100) as inbox:
        got = await collected(inbox, 1, traits, acknowledge=True)
        rest = await inbox.receive(100, SLICE)
        await inbox.acknowledge(rest)
    return bodies([*got, *rest]) == [b"mark"]


async def joined(inboxes: Sequence[Inbox], traits: Traits) -> None:
    """Lets all of them take their places at a queue that is empty."""
    waits = (inbox.receive(1, traits.visibility) for inbox in inboxes)
    assert not any(await asyncio.gather(*waits)), "the queue is not empty"


async def refused(inbox: Inbox, traits: Traits) -> None:
    """Returns once `receive` has raised `Unavailable`."""
    async with asyncio.timeout(traits.patience):
        while True:
            try:
                await inbox.receive(1, SLICE)
            except Unavailable:
                return


async def published(
    broker: Broker, queue: str, messages: Sequence[Envelope], traits: Traits
) -> None:
    """Returns once a publish has got through."""
    async with asyncio.timeout(traits.patience):
        while True:
            with suppress(Unavailable):
                return await broker.publish(queue, messages)


async def received_again(inbox: Inbox, count: int, traits: Traits) -> list[Delivery]:
    """So many deliveries after an outage, until whose end the inbox may be away."""
    got: list[Delivery] = []
    async with asyncio.timeout(traits.patience):
        while len(got) < count:
            with suppress(Unavailable):
                got += await inbox.receive(count - len(got), SLICE)
    return got
