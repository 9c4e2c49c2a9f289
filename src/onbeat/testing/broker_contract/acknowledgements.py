"""What was acknowledged is done with, what was not comes again."""

import asyncio

from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract.acts import (
    an_envelope,
    bodies,
    collected,
    drained,
    envelopes,
    only,
    received_again,
)
from onbeat.testing.broker_contract.line import SLICE, Line, Traits


class AcknowledgementContract:
    async def test_prefetch_bounds_what_is_handed_out(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(10))
        async with broker.inbox(queue, prefetch=3) as inbox:
            got = await collected(inbox, 3, traits)
            assert len(await inbox.receive(10, SLICE)) == 0
            await inbox.acknowledge(got[:1])
            got += await collected(inbox, 1, traits)
            assert len(await inbox.receive(10, SLICE)) == 0
            await inbox.acknowledge(got[1:])
            await collected(inbox, 6, traits, acknowledge=True)

    async def test_what_was_acknowledged_does_not_come_again(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(5))
        await drained(broker, queue, 5, traits)
        assert await only(broker, queue, traits)

    async def test_what_was_acknowledged_does_not_come_again_to_others(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(5))
        await drained(broker, queue, 5, traits)
        assert await only(other, queue, traits)

    async def test_some_may_be_acknowledged_in_any_order(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(9))
        async with broker.inbox(queue, prefetch=9) as inbox:
            got = await collected(inbox, 9, traits)
            kept, done = got[0::3], got[2::3] + got[1::3]
            await inbox.acknowledge(done)
        assert bodies(await drained(broker, queue, 3, traits)) == bodies(kept)
        assert await only(broker, queue, traits)

    async def test_leaving_an_inbox_gives_back_what_was_not_acknowledged(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(4))
        async with broker.inbox(queue, prefetch=10) as inbox:
            await inbox.acknowledge((await collected(inbox, 4, traits))[:1])
        again = await drained(other, queue, 3, traits)
        assert len({*bodies(again)}) == 3
        assert await only(other, queue, traits)

    async def test_leaving_an_inbox_gives_back_what_it_had_not_handed_out(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(20))
        async with broker.inbox(queue, prefetch=20) as inbox:
            await collected(inbox, 1, traits)
        assert bodies(await drained(other, queue, 20, traits)) == bodies(envelopes(20))

    async def test_closing_a_broker_gives_back_what_was_not_acknowledged(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(2))
        async with broker.inbox(queue, prefetch=10) as inbox:
            await collected(inbox, 2, traits)
            await broker.close()
        assert bodies(await drained(other, queue, 2, traits)) == bodies(envelopes(2))

    async def test_what_was_not_acknowledged_comes_again_after_the_connection_died(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(4))
        async with broker.inbox(queue, prefetch=10) as inbox:
            got = await collected(inbox, 4, traits)
            await inbox.acknowledge(got[:2])
            # Nobody confirms an acknowledgement; what comes after it says it has arrived.
            await broker.publish(queue, [an_envelope(b"last")])
            await collected(inbox, 1, traits)
            await line.cut()
            await line.mend()
            again = await drained(other, queue, 3, traits)
        assert {*bodies(got[2:]), b"last"} <= {*bodies(again)}

    async def test_acknowledging_twice_is_no_error(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(3))
        async with broker.inbox(queue, prefetch=10) as inbox:
            got = await collected(inbox, 3, traits)
            await inbox.acknowledge(got)
            await inbox.acknowledge(got)
            await inbox.acknowledge([])
            await broker.publish(queue, [an_envelope(b"still there")])
            assert bodies(await collected(inbox, 1, traits)) == [b"still there"]

    async def test_receipts_of_a_broken_connection_acknowledge_nothing_else(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(3))
        async with broker.inbox(queue, prefetch=10) as inbox:
            void = await collected(inbox, 3, traits)
            await line.cut()
            await line.mend()
            await returned(other, queue, 3, traits)
            fresh = [an_envelope(b"fresh %d" % number) for number in range(3)]
            await other.publish(queue, fresh)
            await received_again(inbox, 3, traits)
            await inbox.acknowledge(void)
        assert bodies(await drained(other, queue, 3, traits)) == bodies(fresh)

    async def test_an_extended_message_is_not_delivered_to_others(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope()])
        async with (
            broker.inbox(queue, prefetch=1) as holder,
            other.inbox(queue, prefetch=1) as second,
        ):
            got = await collected(holder, 1, traits)
            for _ in range(8):
                await holder.extend(got)
                assert len(await second.receive(1, traits.visibility / 4)) == 0
            await holder.acknowledge(got)
        assert await only(other, queue, traits)

    async def test_a_message_that_nobody_extends_is_delivered_to_others(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope()])
        async with (
            broker.inbox(queue, prefetch=1) as holder,
            other.inbox(queue, prefetch=1) as second,
        ):
            late = await collected(holder, 1, traits)
            if traits.visibility_ends:
                await collected(second, 1, traits, acknowledge=True)
            else:
                assert len(await second.receive(1, 2 * traits.visibility)) == 0
            await holder.acknowledge(late)
        assert await only(other, queue, traits)

    async def test_extending_what_is_done_with_is_no_error(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(2))
        async with broker.inbox(queue, prefetch=10) as inbox:
            got = await collected(inbox, 2, traits)
            await inbox.acknowledge(got)
            await inbox.extend(got)
            await inbox.extend([])
        assert await only(broker, queue, traits)


async def returned(broker: Broker, queue: str, count: int, traits: Traits) -> None:
    """Takes as many different messages that come back; some may come twice meanwhile."""
    came = set[bytes]()
    async with broker.inbox(queue, prefetch=10) as inbox, asyncio.timeout(traits.patience):
        while len(came) < count:
            got = await inbox.receive(10, SLICE)
            await inbox.acknowledge(got)
            came.update(bodies(got))
