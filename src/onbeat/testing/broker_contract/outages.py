"""An unavailable broker raises within a bound, and is used again after the outage."""

import asyncio
from contextlib import suppress

import pytest

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Broker, Consumer
from onbeat.testing.broker_contract.broker_link import SLICE, BrokerLink, Traits
from onbeat.testing.broker_contract.steps import (
    an_envelope,
    bodies,
    collect,
    drain,
    envelopes,
    publish_until_confirmed,
    wait_until_refused,
)

HOT = 100
"""A number of failed calls in a second or two that only a loop without pauses reaches."""


class OutageContract:
    async def test_a_broker_that_is_there_answers(self, broker: Broker) -> None:
        await broker.ping()

    async def test_a_broker_says_where_it_is(self, broker: Broker) -> None:
        assert "://" in broker.url

    async def test_a_broker_may_be_closed_twice(self, broker: Broker, queue: str) -> None:
        await broker.publish(queue, [an_envelope()])
        await broker.close()
        await broker.close()

    async def test_a_broker_that_was_never_opened_may_be_closed(self, spare: Broker) -> None:
        await spare.close()

    async def test_a_broker_that_is_away_does_not_answer(
        self, broker: Broker, link: BrokerLink, traits: Traits
    ) -> None:
        await broker.ping()
        await link.disconnect()
        async with asyncio.timeout(traits.patience):
            with pytest.raises(Unavailable):
                await broker.ping()
        await link.reconnect()
        async with asyncio.timeout(traits.patience):
            while not await answers(broker):
                pass

    async def test_opening_does_not_wait_for_a_broker_that_is_away(
        self, spare: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await link.disconnect()
        await spare.open()
        with pytest.raises(Unavailable):
            await spare.ping()
        await link.reconnect()
        await publish_until_confirmed(spare, queue, [an_envelope(b"first")], traits)
        assert b"first" in bodies(await drain(spare, queue, 1, traits))
        await spare.close()

    async def test_publishing_fails_while_the_broker_is_away_and_then_works_again(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope(b"before")])
        await link.disconnect()
        async with asyncio.timeout(traits.timeout + traits.patience):
            with pytest.raises(Unavailable):
                await broker.publish(queue, [an_envelope(b"during")])
        await link.reconnect()
        await publish_until_confirmed(broker, queue, [an_envelope(b"after")], traits)
        # A failed publish may have reached the server.
        async with other.consumer(queue, prefetch=20) as consumer:
            await receives_all({b"before", b"after"}, consumer, traits)

    async def test_an_inbox_goes_on_after_an_outage(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        async with broker.consumer(queue, prefetch=5) as consumer:
            assert len(await consumer.receive(1, SLICE)) == 0
            await link.disconnect()
            await wait_until_refused(consumer, traits)
            await link.reconnect()
            await publish_until_confirmed(other, queue, [an_envelope(b"after")], traits)
            await receives_all({b"after"}, consumer, traits)

    async def test_an_inbox_goes_on_after_many_outages(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        async with broker.consumer(queue, prefetch=5) as consumer:
            for number in range(3):
                await link.disconnect()
                await link.reconnect()
                # Distinct bodies, so that a round cannot pass with messages of an earlier one.
                sent = an_envelope(b"%d" % number)
                await publish_until_confirmed(other, queue, [sent], traits)
                await receives_all({sent.body}, consumer, traits)

    async def test_an_inbox_may_be_entered_and_left_while_the_broker_is_away(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await link.disconnect()
        async with asyncio.timeout(traits.patience):
            async with broker.consumer(queue, prefetch=5):
                pass
            async with broker.consumer(queue, prefetch=5) as consumer:
                await wait_until_refused(consumer, traits)
                await link.reconnect()
                await publish_until_confirmed(other, queue, [an_envelope(b"after")], traits)
                await receives_all({b"after"}, consumer, traits)

    async def test_acknowledging_while_the_broker_is_away_is_no_error(
        self, broker: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(2))
        async with broker.consumer(queue, prefetch=5) as consumer:
            got = await collect(consumer, 2, traits)
            await link.disconnect()
            async with asyncio.timeout(traits.patience):
                await consumer.extend(got)
                await consumer.acknowledge(got)
            await link.reconnect()

    async def test_nothing_that_was_confirmed_is_lost_in_outages(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        confirmed = set[bytes]()
        for number in range(6):
            envelope = an_envelope(b"%d" % number)
            publishing = asyncio.create_task(
                publish_until_confirmed(broker, queue, [envelope], traits)
            )
            await link.disconnect()
            await link.reconnect()
            await publishing
            confirmed.add(envelope.body)
        async with other.consumer(queue, prefetch=20) as consumer:
            await receives_all(confirmed, consumer, traits)

    async def test_asking_a_broker_that_is_away_again_and_again_costs_little(
        self, broker: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        async with broker.consumer(queue, prefetch=5) as consumer:
            await consumer.receive(1, SLICE)
            await link.disconnect()
            await wait_until_refused(consumer, traits)
            assert await refusals(consumer, seconds=4 * SLICE) < HOT
            await link.reconnect()


async def refusals(consumer: Consumer, seconds: float) -> int:
    """The number of failed calls of `receive` in this many seconds."""
    count = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    await consumer.receive(1, SLICE)
                except Unavailable:
                    count += 1
    except TimeoutError:
        return count


async def answers(broker: Broker) -> bool:
    try:
        await broker.ping()
    except Unavailable:
        return False
    return True


async def receives_all(wanted: set[bytes], consumer: Consumer, traits: Traits) -> None:
    """Returns when each of these has arrived at least once."""
    missing = set(wanted)
    async with asyncio.timeout(traits.patience):
        while missing:
            with suppress(Unavailable):
                got = await consumer.receive(20, SLICE)
                await consumer.acknowledge(got)
                missing -= {*bodies(got)}
