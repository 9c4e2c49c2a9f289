"""A broker that is away says so, within a bound, and is used again when it is back."""

import asyncio
from contextlib import suppress

import pytest

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Broker, Inbox
from onbeat.testing.broker_contract.acts import (
    an_envelope,
    bodies,
    collected,
    drained,
    envelopes,
    published,
    refused,
)
from onbeat.testing.broker_contract.line import SLICE, Line, Traits

HOT = 100
"""Failed calls in a second or two that only a loop without any pause comes to."""


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
        self, broker: Broker, line: Line, traits: Traits
    ) -> None:
        await broker.ping()
        await line.cut()
        async with asyncio.timeout(traits.patience):
            with pytest.raises(Unavailable):
                await broker.ping()
        await line.mend()
        async with asyncio.timeout(traits.patience):
            while not await answers(broker):
                pass

    async def test_opening_does_not_wait_for_a_broker_that_is_away(
        self, spare: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await line.cut()
        await spare.open()
        with pytest.raises(Unavailable):
            await spare.ping()
        await line.mend()
        await published(spare, queue, [an_envelope(b"first")], traits)
        assert b"first" in bodies(await drained(spare, queue, 1, traits))
        await spare.close()

    async def test_publishing_fails_while_the_broker_is_away_and_then_works_again(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope(b"before")])
        await line.cut()
        async with asyncio.timeout(traits.timeout + traits.patience):
            with pytest.raises(Unavailable):
                await broker.publish(queue, [an_envelope(b"during")])
        await line.mend()
        await published(broker, queue, [an_envelope(b"after")], traits)
        # What failed may have got through all the same.
        async with other.inbox(queue, prefetch=20) as inbox:
            await receives_all({b"before", b"after"}, inbox, traits)

    async def test_an_inbox_goes_on_after_an_outage(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        async with broker.inbox(queue, prefetch=5) as inbox:
            assert len(await inbox.receive(1, SLICE)) == 0
            await line.cut()
            await refused(inbox, traits)
            await line.mend()
            await published(other, queue, [an_envelope(b"after")], traits)
            await receives_all({b"after"}, inbox, traits)

    async def test_an_inbox_goes_on_after_many_outages(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        async with broker.inbox(queue, prefetch=5) as inbox:
            for number in range(3):
                await line.cut()
                await line.mend()
                # Two of one number would be a round that went by on what an earlier one left.
                sent = an_envelope(b"%d" % number)
                await published(other, queue, [sent], traits)
                await receives_all({sent.body}, inbox, traits)

    async def test_an_inbox_may_be_entered_and_left_while_the_broker_is_away(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await line.cut()
        async with asyncio.timeout(traits.patience):
            async with broker.inbox(queue, prefetch=5):
                pass
            async with broker.inbox(queue, prefetch=5) as inbox:
                await refused(inbox, traits)
                await line.mend()
                await published(other, queue, [an_envelope(b"after")], traits)
                await receives_all({b"after"}, inbox, traits)

    async def test_acknowledging_while_the_broker_is_away_is_no_error(
        self, broker: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(2))
        async with broker.inbox(queue, prefetch=5) as inbox:
            got = await collected(inbox, 2, traits)
            await line.cut()
            async with asyncio.timeout(traits.patience):
                await inbox.extend(got)
                await inbox.acknowledge(got)
            await line.mend()

    async def test_nothing_that_was_confirmed_is_lost_in_outages(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        confirmed = set[bytes]()
        for number in range(6):
            envelope = an_envelope(b"%d" % number)
            publishing = asyncio.create_task(published(broker, queue, [envelope], traits))
            await line.cut()
            await line.mend()
            await publishing
            confirmed.add(envelope.body)
        async with other.inbox(queue, prefetch=20) as inbox:
            await receives_all(confirmed, inbox, traits)

    async def test_asking_a_broker_that_is_away_again_and_again_costs_little(
        self, broker: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        async with broker.inbox(queue, prefetch=5) as inbox:
            await inbox.receive(1, SLICE)
            await line.cut()
            await refused(inbox, traits)
            assert await refusals(inbox, seconds=4 * SLICE) < HOT
            await line.mend()


async def refusals(inbox: Inbox, seconds: float) -> int:
    """How often it can be asked in vain in so many seconds."""
    count = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    await inbox.receive(1, SLICE)
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


async def receives_all(wanted: set[bytes], inbox: Inbox, traits: Traits) -> None:
    """Returns once each of these has come, at least once."""
    missing = set(wanted)
    async with asyncio.timeout(traits.patience):
        while missing:
            with suppress(Unavailable):
                got = await inbox.receive(20, SLICE)
                await inbox.acknowledge(got)
                missing -= {*bodies(got)}
