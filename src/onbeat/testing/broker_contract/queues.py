"""Queues: names, depth and purge."""

import asyncio

import pytest

from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract.broker_link import SLICE, Traits
from onbeat.testing.broker_contract.steps import an_envelope, bodies, drain, envelopes, holds_only

ODD_NAMES = [
    "a b",
    "a_b",
    "a/b",
    "a:b",
    "a.b",
    "A.B",
    "a*#b",
    "{a}b",
    "größe 🎉",
    "größe 🎊",
    "%41",
    "onbeat",
]


class BrokerQueueContract:
    async def test_queues_with_odd_names_are_kept_apart(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        names = [queue + name for name in ODD_NAMES]
        for name in names:
            await broker.publish(name, [an_envelope(name.encode())])
        for name in names:
            assert bodies(await drain(other, name, 1, traits)) == [name.encode()]

    @pytest.mark.parametrize("letter", ["x", "ß", "🎉"])
    async def test_long_names_are_kept_apart(
        self, letter: str, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        stem = queue.ljust(NAME_CHARS_MAX - 1, letter)
        await broker.publish(stem + "1", [an_envelope(b"1")])
        await broker.publish(stem + "2", [an_envelope(b"2")])
        assert bodies(await drain(other, stem + "2", 1, traits)) == [b"2"]
        assert bodies(await drain(other, stem + "1", 1, traits)) == [b"1"]

    async def test_depth_counts_what_waits(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(5))
        await settles_at(5, other, queue, traits)
        await drain(broker, queue, 5, traits)
        await settles_at(0, other, queue, traits)

    async def test_a_queue_that_was_never_used_is_empty(self, broker: Broker, queue: str) -> None:
        assert await broker.depth(queue) in (0, None)

    async def test_purging_drops_what_waits(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(50))
        await other.purge(queue)
        await settles_at(0, broker, queue, traits)
        assert await holds_only(broker, queue, traits)

    async def test_purging_a_queue_that_was_never_used_is_no_error(
        self, broker: Broker, queue: str
    ) -> None:
        await broker.purge(queue)

    async def test_an_inbox_goes_on_after_a_purge(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        async with broker.consumer(queue, prefetch=5) as consumer:
            await consumer.receive(1, SLICE)
            await other.purge(queue)
            await other.publish(queue, [an_envelope(b"after")])
            async with asyncio.timeout(traits.patience):
                while not (got := await consumer.receive(1, SLICE)):
                    pass
            assert bodies(got) == [b"after"]
            await consumer.acknowledge(got)


async def settles_at(count: int, broker: Broker, queue: str, traits: Traits) -> None:
    """The depth soon has this value, if the broker reports it."""
    async with asyncio.timeout(traits.patience):
        while await broker.depth(queue) not in (count, None):
            pass
