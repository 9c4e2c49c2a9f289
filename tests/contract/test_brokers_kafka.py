"""Kafka against librdkafka's own cluster, and against a server of which ONBEAT_TEST_KAFKA has the
address (`HOST:PORT`, a server for tests alone: topics stay behind).
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from onbeat.ports.transport import Broker, Delivery
from onbeat.testing.broker_contract import BrokerContract, Line, Traits
from onbeat.testing.broker_contract.acknowledgements import AcknowledgementContract
from onbeat.testing.broker_contract.acts import (
    an_envelope,
    bodies,
    collected,
    drained,
    envelopes,
    only,
)
from onbeat.testing.broker_contract.deliveries import DeliveryContract
from onbeat.testing.broker_contract.line import SLICE
from onbeat.testing.broker_contract.queues import QueueContract
from onbeat.transports.kafka.broker import KafkaBroker
from onbeat.transports.kafka.clerk import Clerk
from onbeat.transports.kafka.inbox import KafkaInbox
from onbeat.transports.kafka.place import read_place
from transports.kafka.mock import Cluster
from waiting import eventually

PARTITIONS = 4  # of a topic that the cluster makes by itself
PATIENCE = 30
SERVER = os.environ.get("ONBEAT_TEST_KAFKA", "")

MakeNarrow = Callable[[str], None]


class Promises:
    """Where Kafka promises something else: nearest to what the contract says, and true."""

    async def test_some_may_be_acknowledged_in_any_order(
        self, broker: Broker, narrow: MakeNarrow, queue: str, traits: Traits
    ) -> None:
        narrow(queue)
        await broker.publish(queue, envelopes(9))
        async with broker.inbox(queue, prefetch=9) as inbox:
            got = await collected(inbox, 9, traits)
            await inbox.acknowledge(got[5:] + got[1:4] + got[:1])
        again = await drained(broker, queue, 5, traits)
        assert bodies(again) == bodies(got[4:]), "what comes after the first that is left"
        assert await only(broker, queue, traits)

    async def test_what_was_not_acknowledged_comes_again_after_the_connection_died(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(4))
        async with broker.inbox(queue, prefetch=10) as inbox:
            got = await collected(inbox, 4, traits)
            await inbox.acknowledge(got[:1])
            await line.cut()
            await line.mend()
        assert {*bodies(got[1:])} <= {*bodies(await drained(other, queue, 3, traits))}

    async def test_receipts_of_a_broken_connection_acknowledge_nothing_else(
        self, broker: Broker, other: Broker, line: Line, queue: str, traits: Traits
    ) -> None:
        await broker.publish(queue, envelopes(3))
        async with broker.inbox(queue, prefetch=3) as inbox:
            void = await collected(inbox, 3, traits)
        await line.cut()
        await line.mend()
        async with broker.inbox(queue, prefetch=3) as inbox:
            await collected(inbox, 3, traits)
            await inbox.acknowledge(void)
        assert bodies(await drained(other, queue, 3, traits)) == bodies(void)

    async def test_an_extended_message_is_not_delivered_to_others(
        self, broker: Broker, other: Broker, narrow: MakeNarrow, queue: str, traits: Traits
    ) -> None:
        narrow(queue)
        await broker.publish(queue, [an_envelope()])
        async with broker.inbox(queue, prefetch=1) as holder:
            got = await collected(holder, 1, traits)
            async with other.inbox(queue, prefetch=1) as second:
                for _ in range(8):
                    await holder.extend(got)
                    assert len(await second.receive(1, traits.visibility / 4)) == 0
                await holder.acknowledge(got)
        assert await only(other, queue, traits)

    async def test_a_message_that_nobody_extends_is_delivered_to_others(
        self, broker: Broker, other: Broker, narrow: MakeNarrow, queue: str, traits: Traits
    ) -> None:
        """As soon as its holder has left, and no sooner."""
        narrow(queue)
        await broker.publish(queue, [an_envelope()])
        async with AsyncExitStack() as holding:
            holder = await holding.enter_async_context(broker.inbox(queue, prefetch=1))
            late = await collected(holder, 1, traits)
            async with other.inbox(queue, prefetch=1) as second:
                assert len(await second.receive(1, 2 * traits.visibility)) == 0
                await holding.aclose()
                await holder.acknowledge(late)
                await collected(second, 1, traits, acknowledge=True)
        assert await only(other, queue, traits)

    async def test_inboxes_share_a_queue_without_doubling(
        self, broker: Broker, other: Broker, queue: str, traits: Traits
    ) -> None:
        """Once each has its place in the group."""
        sent, got = envelopes(300), list[Delivery]()

        async def take(inbox: KafkaInbox) -> None:
            while len(got) < len(sent):
                some = await inbox.receive(10, SLICE)
                got.extend(some)
                await inbox.acknowledge(some)

        async with AsyncExitStack() as stack:
            entered = [
                await stack.enter_async_context(place.inbox(queue, prefetch=20))
                for place in (broker, other, broker)
            ]
            inboxes = [inbox for inbox in entered if isinstance(inbox, KafkaInbox)]
            await eventually(lambda: shared_out(inboxes), "each has a part", PATIENCE)
            await broker.publish(queue, sent)
            async with asyncio.timeout(traits.patience), asyncio.TaskGroup() as tasks:
                for inbox in inboxes:
                    tasks.create_task(take(inbox))
        assert bodies(got) == bodies(sent)


def shared_out(inboxes: list[KafkaInbox]) -> bool:
    shares = [tuple(inbox.reader.ledger.lines) for inbox in inboxes]
    assigned = [partition for share in shares for partition in share]
    return all(shares) and sorted(assigned) == list(range(PARTITIONS))


class TestKafka(Promises, BrokerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[Cluster]:
        cluster = Cluster()
        yield cluster
        cluster.end()

    @pytest.fixture
    def narrow(self, cluster: Cluster) -> MakeNarrow:
        def make(queue: str) -> None:
            cluster.make_topic(read_place(cluster.url()).topic(queue), partitions=1)

        return make

    @pytest.fixture
    async def line(self, cluster: Cluster) -> AsyncIterator[Line]:
        yield cluster
        await cluster.mend()

    @pytest.fixture
    async def broker(self, cluster: Cluster, line: Line) -> AsyncIterator[Broker]:
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

    class TestKafkaServer(Promises, DeliveryContract, AcknowledgementContract, QueueContract):
        """A server names its own address, so no line to it can be cut from here; what holds after a
        cut has to hold without one all the same.
        """

        @pytest.fixture
        def queue(self) -> str:
            return f"contract-{secrets.token_hex(6)}"

        @pytest.fixture
        def narrow(self) -> MakeNarrow:
            def make(queue: str) -> None:
                clerk = Clerk(read_place(server_url(partitions=1)))
                clerk.open()
                clerk.make_known(clerk.place.topic(queue))
                clerk.close()

            return make

        @pytest.fixture
        def line(self) -> Line:
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
    async def cut(self) -> None: ...

    async def mend(self) -> None: ...


def server_url(partitions: int) -> str:
    return f"kafka://{SERVER}?partitions={partitions}&heartbeat.interval.ms=500"
