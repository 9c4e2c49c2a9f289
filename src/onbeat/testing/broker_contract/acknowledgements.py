"""Acknowledged messages are gone; others are delivered again."""

import asyncio

from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract.broker_link import SLICE, BrokerLink, Traits
from onbeat.testing.broker_contract.steps import (
    an_envelope,
    bodies,
    collect,
    drain,
    envelopes,
    holds_only,
    receive_after_outage,
)


class AcknowledgementContract:
    async def test_prefetch_bounds_what_is_handed_out(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(10))
        async with broker.consumer(queue, prefetch=3) as consumer:
            got = await collect(consumer, 3, traits)
            assert len(await consumer.receive(10, SLICE)) == 0
            await consumer.acknowledge(got[:1])
            got += await collect(consumer, 1, traits)
            assert len(await consumer.receive(10, SLICE)) == 0
            await consumer.acknowledge(got[1:])
            await collect(consumer, 6, traits, acknowledge=True)

    async def test_what_was_acknowledged_does_not_come_again(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(5))
        await drain(broker, queue, 5, traits)
        assert await holds_only(broker, queue, traits)

    async def test_what_was_acknowledged_does_not_come_again_to_others(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(5))
        await drain(broker, queue, 5, traits)
        assert await holds_only(other, queue, traits)

    async def test_some_may_be_acknowledged_in_any_order(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(9))
        async with broker.consumer(queue, prefetch=9) as consumer:
            got = await collect(consumer, 9, traits)
            kept, done = got[0::3], got[2::3] + got[1::3]
            await consumer.acknowledge(done)
        assert bodies(await drain(broker, queue, 3, traits)) == bodies(kept)
        assert await holds_only(broker, queue, traits)

    async def test_leaving_an_inbox_gives_back_what_was_not_acknowledged(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(4))
        async with broker.consumer(queue, prefetch=10) as consumer:
            await consumer.acknowledge((await collect(consumer, 4, traits))[:1])
        again = await drain(other, queue, 3, traits)
        assert len({*bodies(again)}) == 3
        assert await holds_only(other, queue, traits)

    async def test_leaving_an_inbox_gives_back_what_it_had_not_handed_out(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(20))
        async with broker.consumer(queue, prefetch=20) as consumer:
            await collect(consumer, 1, traits)
        assert bodies(await drain(other, queue, 20, traits)) == bodies(envelopes(20))

    async def test_closing_a_broker_gives_back_what_was_not_acknowledged(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(2))
        async with broker.consumer(queue, prefetch=10) as consumer:
            await collect(consumer, 2, traits)
            await broker.close()
        assert bodies(await drain(other, queue, 2, traits)) == bodies(envelopes(2))

    async def test_what_was_not_acknowledged_comes_again_after_the_connection_died(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(4))
        async with broker.consumer(queue, prefetch=10) as consumer:
            got = await collect(consumer, 4, traits)
            await consumer.acknowledge(got[:2])
            # Acknowledgements are not confirmed; a later message shows that they have arrived.
            await broker.publish(queue, [an_envelope(b"last")])
            await collect(consumer, 1, traits)
            await link.disconnect()
            await link.reconnect()
            again = await drain(other, queue, 3, traits)
        assert {*bodies(got[2:]), b"last"} <= {*bodies(again)}

    async def test_acknowledging_twice_is_no_error(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(3))
        async with broker.consumer(queue, prefetch=10) as consumer:
            got = await collect(consumer, 3, traits)
            await consumer.acknowledge(got)
            await consumer.acknowledge(got)
            await consumer.acknowledge([])
            await broker.publish(queue, [an_envelope(b"still there")])
            assert bodies(await collect(consumer, 1, traits)) == [b"still there"]

    async def test_receipts_of_a_broken_connection_acknowledge_nothing_else(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(3))
        async with broker.consumer(queue, prefetch=10) as consumer:
            void = await collect(consumer, 3, traits)
            await link.disconnect()
            await link.reconnect()
            await receive_again(other, queue, 3, traits)
            fresh = [an_envelope(b"fresh %d" % number) for number in range(3)]
            await other.publish(queue, fresh)
            await receive_after_outage(consumer, 3, traits)
            await consumer.acknowledge(void)
        assert bodies(await drain(other, queue, 3, traits)) == bodies(fresh)

    async def test_an_extended_message_is_not_delivered_to_others(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope()])
        async with (
            broker.consumer(queue, prefetch=1) as holder,
            other.consumer(queue, prefetch=1) as second,
        ):
            got = await collect(holder, 1, traits)
            for _ in range(8):
                await holder.extend(got)
                assert len(await second.receive(1, traits.visibility / 4)) == 0
            await holder.acknowledge(got)
        assert await holds_only(other, queue, traits)

    async def test_a_message_that_nobody_extends_is_delivered_to_others(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope()])
        async with (
            broker.consumer(queue, prefetch=1) as holder,
            other.consumer(queue, prefetch=1) as second,
        ):
            late = await collect(holder, 1, traits)
            if traits.visibility_ends:
                await collect(second, 1, traits, acknowledge=True)
            else:
                assert len(await second.receive(1, 2 * traits.visibility)) == 0
            await holder.acknowledge(late)
        assert await holds_only(other, queue, traits)

    async def test_extending_what_is_done_with_is_no_error(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(2))
        async with broker.consumer(queue, prefetch=10) as consumer:
            got = await collect(consumer, 2, traits)
            await consumer.acknowledge(got)
            await consumer.extend(got)
            await consumer.extend([])
        assert await holds_only(broker, queue, traits)


async def receive_again(broker: Broker, queue: str, count: int, traits: Traits) -> None:
    """Receive this many distinct redelivered messages; some may come twice."""
    came = set[bytes]()
    async with broker.consumer(queue, prefetch=10) as consumer, asyncio.timeout(traits.patience):
        while len(came) < count:
            got = await consumer.receive(10, SLICE)
            await consumer.acknowledge(got)
            came.update(bodies(got))
