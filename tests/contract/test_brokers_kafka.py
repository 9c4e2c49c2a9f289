"""Kafka against librdkafka's own cluster, and against a server of which TEST_KAFKA has the
address (`HOST:PORT`, a server for tests alone: topics stay behind).
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from conditions import eventually
from onbeat.ports.transport import Broker, Delivery
from onbeat.testing.broker_contract import BrokerContract, BrokerLink, Traits
from onbeat.testing.broker_contract.acknowledgements import AcknowledgementContract
from onbeat.testing.broker_contract.broker_link import SLICE
from onbeat.testing.broker_contract.deliveries import DeliveryContract
from onbeat.testing.broker_contract.queues import BrokerQueueContract
from onbeat.testing.broker_contract.steps import (
    an_envelope,
    bodies,
    collect,
    drain,
    envelopes,
    find_missing,
    holds_only,
)
from onbeat.transports.kafka.admin import TopicAdmin
from onbeat.transports.kafka.broker import KafkaBroker
from onbeat.transports.kafka.config import parse_url
from onbeat.transports.kafka.consumer import KafkaConsumer
from transports.kafka.mock import Cluster

PARTITIONS = 4  # of a topic that the cluster makes by itself
PATIENCE = 30
SERVER = os.environ.get("TEST_KAFKA", "")

MakeNarrow = Callable[[str], None]


class Promises:
    """Where Kafka promises something else: nearest to what the contract says, and true."""

    async def test_some_may_be_acknowledged_in_any_order(
        self, broker: Broker, narrow: MakeNarrow, queue: str, traits: Traits
    ) -> None:
        narrow(queue)
        await broker.publish(queue, envelopes(9))
        async with broker.consumer(queue, prefetch=9) as consumer:
            got = await collect(consumer, 9, traits)
            await consumer.acknowledge(got[5:] + got[1:4] + got[:1])
        again = await drain(broker, queue, 5, traits)
        assert bodies(again) == bodies(got[4:]), "what comes after the first that is left"
        assert await holds_only(broker, queue, traits)

    async def test_what_was_not_acknowledged_comes_again_after_the_connection_died(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(4))
        async with broker.consumer(queue, prefetch=10) as consumer:
            got = await collect(consumer, 4, traits)
            await consumer.acknowledge(got[:1])
            await link.disconnect()
            await link.reconnect()
        # The end of the connection may have overtaken the acknowledgement: then all four come.
        assert not await find_missing(other, queue, got[1:], traits)

    async def test_receipts_of_a_broken_connection_acknowledge_nothing_else(
        self, broker: Broker, other: Broker, link: BrokerLink, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(3))
        async with broker.consumer(queue, prefetch=3) as consumer:
            void = await collect(consumer, 3, traits)
        await link.disconnect()
        await link.reconnect()
        async with broker.consumer(queue, prefetch=3) as consumer:
            await collect(consumer, 3, traits)
            await consumer.acknowledge(void)
        assert bodies(await drain(other, queue, 3, traits)) == bodies(void)

    async def test_an_extended_message_is_not_delivered_to_others(
        self, broker: Broker, other: Broker, narrow: MakeNarrow, queue: str, traits: Traits
    ) -> None:
        narrow(queue)
        await broker.publish(queue, [an_envelope()])
        async with broker.consumer(queue, prefetch=1) as holder:
            got = await collect(holder, 1, traits)
            async with other.consumer(queue, prefetch=1) as second:
                for _ in range(8):
                    await holder.extend(got)
                    assert len(await second.receive(1, traits.visibility / 4)) == 0
                await holder.acknowledge(got)
        assert await holds_only(other, queue, traits)

    async def test_a_message_that_nobody_extends_is_delivered_to_others(
        self, broker: Broker, other: Broker, narrow: MakeNarrow, queue: str, traits: Traits
    ) -> None:
        """As soon as its holder has left, and no sooner."""
        narrow(queue)
        await broker.publish(queue, [an_envelope()])
        async with AsyncExitStack() as holding:
            holder = await holding.enter_async_context(broker.consumer(queue, prefetch=1))
            late = await collect(holder, 1, traits)
            async with other.consumer(queue, prefetch=1) as second:
                assert len(await second.receive(1, 2 * traits.visibility)) == 0
                await holding.aclose()
                await holder.acknowledge(late)
                await collect(second, 1, traits, acknowledge=True)
        assert await holds_only(other, queue, traits)

    async def test_inboxes_share_a_queue_without_doubling(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        """Once each has its place in the group."""
        sent, got = envelopes(300), list[Delivery]()

        async def take(consumer: KafkaConsumer) -> None:
            while len(got) < len(sent):
                some = await consumer.receive(10, SLICE)
                got.extend(some)
                await consumer.acknowledge(some)

        async with AsyncExitStack() as stack:
            entered = [
                await stack.enter_async_context(place.consumer(queue, prefetch=20))
                for place in (broker, other, broker)
            ]
            consumers = [consumer for consumer in entered if isinstance(consumer, KafkaConsumer)]
            await eventually(lambda: shared_out(consumers), "each has a part", PATIENCE)
            await broker.publish(queue, sent)
            async with asyncio.timeout(traits.patience), asyncio.TaskGroup() as tasks:
                for consumer in consumers:
                    tasks.create_task(take(consumer))
        assert bodies(got) == bodies(sent)


def shared_out(consumers: list[KafkaConsumer]) -> bool:
    shares = [tuple(consumer.reader.offsets.partitions) for consumer in consumers]
    assigned = [partition for share in shares for partition in share]
    return all(shares) and sorted(assigned) == list(range(PARTITIONS))


class TestKafka(Promises, BrokerContract):  # type: ignore[misc]  # some of these ask for `narrow` too
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[Cluster]:
        cluster = Cluster()
        yield cluster
        cluster.end()

    @pytest.fixture
    def narrow(self, cluster: Cluster) -> MakeNarrow:
        def make(queue: str) -> None:
            cluster.make_topic(parse_url(cluster.url()).topic(queue), partitions=1)

        return make

    @pytest.fixture
    async def link(self, cluster: Cluster) -> AsyncIterator[BrokerLink]:
        yield cluster
        await cluster.reconnect()

    @pytest.fixture
    async def broker(self, cluster: Cluster, link: BrokerLink) -> AsyncIterator[Broker]:
        async with opened(cluster.url()) as broker:
            yield broker

    @pytest.fixture
    def spare(self, cluster: Cluster) -> Broker:
        return KafkaBroker(cluster.url())

    @pytest.fixture
    async def other(self, cluster: Cluster) -> AsyncIterator[Broker]:
        async with opened(cluster.url()) as broker:
            yield broker

    @pytest.fixture
    def traits(self) -> Traits:
        return Traits(too_large=1_000_000, visibility_ends=False, patience=PATIENCE)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Broker, None]:
    broker = KafkaBroker(url)
    await broker.open()
    yield broker
    await broker.close()


if SERVER:

    class TestKafkaServer(Promises, DeliveryContract, AcknowledgementContract, BrokerQueueContract):  # type: ignore[misc]  # some of these ask for `narrow` too
        """A server names its own address, so no line to it can be cut from here; what holds after a
        cut has to hold without one all the same.
        """

        @pytest.fixture
        def queue(self) -> str:
            return f"contract-{secrets.token_hex(6)}"

        @pytest.fixture
        def narrow(self) -> MakeNarrow:
            def make(queue: str) -> None:
                admin = TopicAdmin(parse_url(server_url(partitions=1)))
                admin.open()
                admin.make_known(admin.config.topic(queue))
                admin.close()

            return make

        @pytest.fixture
        def link(self) -> BrokerLink:
            return Whole()

        @pytest.fixture
        async def broker(self) -> AsyncIterator[Broker]:
            async with opened(server_url(partitions=PARTITIONS)) as broker:
                yield broker

        @pytest.fixture
        async def other(self) -> AsyncIterator[Broker]:
            async with opened(server_url(partitions=PARTITIONS)) as broker:
                yield broker

        @pytest.fixture
        def traits(self) -> Traits:
            return Traits(too_large=1_000_000, visibility_ends=False, patience=PATIENCE)


class Whole:
    async def disconnect(self) -> None: ...

    async def reconnect(self) -> None: ...


def server_url(partitions: int) -> str:
    return f"kafka://{SERVER}?partitions={partitions}&heartbeat.interval.ms=500"
