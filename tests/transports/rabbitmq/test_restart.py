"""A node that is killed, comes back with what it keeps, and one that has no memory left."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from conditions import eventually
from onbeat.model.errors import Unavailable
from onbeat.testing.broker_contract.broker_link import Traits
from onbeat.testing.broker_contract.steps import (
    an_envelope,
    bodies,
    collect,
    envelopes,
    publish_until_confirmed,
    receive_after_outage,
    wait_until_refused,
)
from onbeat.transports.amqp.broker import RabbitMqBroker
from transports.rabbitmq.server import Private

TRAITS = Traits(too_large=0, patience=60.0)


@pytest.fixture(scope="module")
def node() -> Iterator[Private]:
    node = Private()
    node.start()
    yield node
    node.stop()


@pytest.fixture
async def broker(node: Private) -> AsyncIterator[RabbitMqBroker]:
    broker = RabbitMqBroker(f"{node.url}?timeout=2")
    yield broker
    await broker.close()


@pytest.mark.parametrize("options", ["", "&quorum=true&prefix=quorum."])
async def test_confirmed_messages_survive_the_death_of_the_node(
    node: Private, options: str
) -> None:
    broker = RabbitMqBroker(f"{node.url}?timeout=2{options}")
    sent = envelopes(500)
    async with broker.consumer("kept", prefetch=1_000) as consumer:
        await broker.publish("kept", sent[:1])
        # A node keeps the list of its quorum queues in memory for minutes, and writes it down when
        # it stops. One that dies with a queue just made has its messages and cannot open them.
        await asyncio.to_thread(node.control, "stop_app")
        await asyncio.to_thread(node.control, "start_app")
        await publish_until_confirmed(broker, "kept", sent[1:], TRAITS)
        await receive_after_outage(consumer, 500, TRAITS)
        node.kill()
        await wait_until_refused(consumer, TRAITS)
        with pytest.raises(Unavailable):
            await broker.publish("kept", envelopes(1))
        await asyncio.to_thread(node.start)
        got = await receive_after_outage(consumer, 500, TRAITS)
        await consumer.acknowledge(got)
    assert bodies(got) == bodies(sent)
    await publish_until_confirmed(broker, "kept", [an_envelope(b"after")], TRAITS)
    await broker.close()


async def test_a_node_without_memory_refuses_in_time_and_takes_acknowledgements(
    node: Private, broker: RabbitMqBroker
) -> None:
    await broker.publish("full", envelopes(20))
    async with broker.consumer("full", prefetch=5) as consumer:
        got = await collect(consumer, 5, TRAITS)
        await asyncio.to_thread(node.control, "set_vm_memory_high_watermark", "absolute", "1MB")
        try:
            await eventually(lambda: refuses(broker), "the node notices that it is full")
            await consumer.acknowledge(got)
            rest = await collect(consumer, 15, TRAITS, acknowledge=True)
            assert bodies([*got, *rest]) == bodies(envelopes(20))
            await broker.ping()
            async with broker.consumer("new", prefetch=5) as late:
                assert len(await late.receive(1, 1.0)) == 0
                assert await broker.depth("new") == 0
        finally:
            await asyncio.to_thread(node.control, "set_vm_memory_high_watermark", "0.4")
        await publish_until_confirmed(broker, "full", [an_envelope(b"after")], TRAITS)


async def test_a_node_that_forgot_everything_is_told_of_the_queues_again(
    node: Private, broker: RabbitMqBroker
) -> None:
    await broker.publish("forgotten", envelopes(1))
    async with broker.consumer("forgotten", prefetch=5) as consumer:
        await collect(consumer, 1, TRAITS, acknowledge=True)
        await asyncio.to_thread(node.control, "stop_app")
        await asyncio.to_thread(node.control, "reset")
        await asyncio.to_thread(node.control, "start_app")
        await publish_until_confirmed(broker, "forgotten", [an_envelope(b"anew")], TRAITS)
        assert bodies(await receive_after_outage(consumer, 1, TRAITS)) == [b"anew"]
    await eventually(lambda: empty(broker, "onbeat.dead"), "the queue of dead letters is back")


async def refuses(broker: RabbitMqBroker) -> bool:
    try:
        await broker.publish("aside", envelopes(1))
    except Unavailable:
        return True
    return False


async def empty(broker: RabbitMqBroker, queue: str) -> bool:
    return await broker.depth(queue) == 0
