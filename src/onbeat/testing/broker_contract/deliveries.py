"""Published messages are received: all of them, unchanged, and by one inbox at a time."""

import asyncio
from time import monotonic

import pytest

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Broker, Consumer, Delivery
from onbeat.testing.broker_contract.broker_link import SLICE, Traits
from onbeat.testing.broker_contract.steps import (
    an_envelope,
    bodies,
    collect,
    drain,
    envelopes,
    find_missing,
    holds_only,
    join_all,
    publish_until_confirmed,
)


class DeliveryContract:
    async def test_a_message_is_received_as_it_was_published(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        sent = an_envelope(bytes(range(256)), job="1", note="")
        await broker.publish(queue, [sent])
        (got,) = await drain(broker, queue, 1, traits)
        assert (got.body, got.headers, got.id) == (sent.body, sent.headers, sent.id)

    async def test_an_empty_body_is_received(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [an_envelope(b"")])
        (got,) = await drain(broker, queue, 1, traits)
        assert got.body == b""

    async def test_headers_keep_text_of_any_script(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        sent = an_envelope(a="Größe 測試 🎉", b=" \t two\nlines ", c='"quoted", \\ and %41')
        await broker.publish(queue, [sent])
        (got,) = await drain(broker, queue, 1, traits)
        assert got.headers == sent.headers

    async def test_a_thousand_are_published_in_one_call(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        sent = envelopes(1_000)
        await broker.publish(queue, sent)
        assert await find_missing(broker, queue, sent, traits) == set()

    async def test_publishing_nothing_is_no_error(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, [])
        assert await holds_only(broker, queue, traits)

    async def test_many_may_publish_at_once(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        sent = envelopes(200)
        batches = [sent[start : start + 10] for start in range(0, 200, 10)]
        places = [broker, other] * 10
        await asyncio.gather(
            # RabbitMQ has refused messages while a new quorum queue chose its leader.
            *(
                publish_until_confirmed(place, queue, batch, traits)
                for place, batch in zip(places, batches, strict=True)
            )
        )
        assert await find_missing(broker, queue, sent, traits) == set()

    async def test_another_broker_object_receives_it(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        sent = envelopes(3)
        await broker.publish(queue, sent)
        assert bodies(await drain(other, queue, 3, traits)) == bodies(sent)

    async def test_what_is_published_while_an_inbox_waits_is_received(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        async with broker.consumer(queue, prefetch=10) as consumer:
            await join_all([consumer], traits)
            waiting = asyncio.create_task(collect(consumer, 1, traits, acknowledge=True))
            await other.publish(queue, [an_envelope(b"late")])
            assert bodies(await waiting) == [b"late"]

    async def test_receive_answers_with_nothing_after_its_wait(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        async with broker.consumer(queue, prefetch=10) as consumer:
            async with asyncio.timeout(traits.patience):
                assert len(await consumer.receive(10, 0)) == 0
                assert len(await consumer.receive(10, SLICE)) == 0

    async def test_receive_answers_with_no_more_than_its_limit(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(30))
        async with broker.consumer(queue, prefetch=30) as consumer:
            got: list[Delivery] = []
            while len(got) < 30:
                some = await consumer.receive(7, SLICE)
                assert len(some) <= 7
                got += some
            await consumer.acknowledge(got)
        assert bodies(got) == bodies(envelopes(30))

    async def test_a_cancelled_receive_loses_nothing(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        sent, got = envelopes(20), list[Delivery]()
        async with broker.consumer(queue, prefetch=100) as consumer:
            for envelope in sent:
                receiving = asyncio.create_task(consumer.receive(1, traits.patience))
                await broker.publish(queue, [envelope])
                receiving.cancel()
                for answer in await asyncio.gather(receiving, return_exceptions=True):
                    got += [] if isinstance(answer, BaseException) else answer
            got += await collect(consumer, len(sent) - len(got), traits)
            await consumer.acknowledge(got)
        assert bodies(got) == bodies(sent)

    async def test_inboxes_share_a_queue_without_doubling(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        """Where this process stood still, a message whose visibility ended may come again."""
        sent, got = envelopes(300), list[Delivery]()
        rounds: list[float] = []

        async def take(consumer: Consumer) -> None:
            while len({one.body for one in got}) < len(sent):
                began = monotonic()
                some = await consumer.receive(10, SLICE)
                got.extend(some)
                await consumer.acknowledge(some)
                rounds.append(monotonic() - began)

        async with (
            broker.consumer(queue, prefetch=20) as first,
            other.consumer(queue, prefetch=20) as second,
            broker.consumer(queue, prefetch=20) as third,
        ):
            await join_all([first, second, third], traits)
            await broker.publish(queue, sent)
            async with asyncio.timeout(traits.patience), asyncio.TaskGroup() as tasks:
                for consumer in (first, second, third):
                    tasks.create_task(take(consumer))
        assert {one.body for one in got} == {one.body for one in sent}
        # A message is acknowledged one round after it was fetched, or two.
        stood_still = traits.visibility_ends and max(rounds) > traits.visibility / 2
        assert stood_still or len(got) == len(sent)

    async def test_one_that_is_too_large_is_refused_before_any_is_sent(
        self, broker: Broker, queue: str, traits: Traits
    ) -> None:
        with pytest.raises(TooLarge):
            await broker.publish(queue, [an_envelope(), an_envelope(bytes(traits.too_large))])
        assert await holds_only(broker, queue, traits)
