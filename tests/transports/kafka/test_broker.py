import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from conditions import eventually
from onbeat.model.errors import TooLarge, Unavailable
from onbeat.ports.transport import Delivery, Envelope
from onbeat.transports.kafka import topic_reader
from onbeat.transports.kafka.broker import KafkaBroker
from onbeat.transports.kafka.consumer import KafkaConsumer, receipt_of
from transports.kafka.mock import OFFSET_COMMIT, PRODUCE, Cluster

QUEUE = "onbeat.work.default"
PATIENCE = 20


def envelopes(count: int, first: int = 0) -> list[Envelope]:
    return [Envelope(body=b"%d" % one, id=str(one)) for one in range(first, first + count)]


def bodies(messages: Sequence[Delivery | Envelope]) -> list[bytes]:
    return sorted(message.body for message in messages)


def consuming(broker: KafkaBroker, prefetch: int) -> AbstractAsyncContextManager[KafkaConsumer]:
    """With its reader, of which a `Consumer` says nothing."""
    consumer = broker.consumer(QUEUE, prefetch)
    return cast("AbstractAsyncContextManager[KafkaConsumer]", consumer)


async def collected(consumer: Any, count: int) -> list[Delivery]:
    got: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while len(got) < count:
            got += await consumer.receive(count - len(got), 1)
    return got


async def depth_is(broker: KafkaBroker, count: int) -> None:
    async def there() -> bool:
        return await broker.depth(QUEUE) == count

    await eventually(there, f"the depth is {count}", PATIENCE)


async def test_messages_of_one_key_keep_their_order(broker: KafkaBroker) -> None:
    sent = [
        Envelope(body=b"%d" % one, id=str(one), key=f"customer {one % 5}") for one in range(100)
    ]
    await broker.publish(QUEUE, sent)
    async with broker.consumer(QUEUE, 100) as consumer:
        got = [int(delivery.body) for delivery in await collected(consumer, 100)]
    for customer in range(5):
        own = [one for one in got if one % 5 == customer]
        assert own == sorted(own)
        assert len(own) == 20


async def test_a_program_in_any_language_reads_and_writes(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    text = b'{"jsonrpc":"2.0","method":"export","params":{"objectID":23},"id":"1"}'
    await broker.publish(QUEUE, [Envelope(body=text, id="1", headers={"onbeat-token": "7"})])
    settings = {"bootstrap.servers": cluster.servers, "group.id": "theirs", "log_level": 2}
    theirs = Consumer({**settings, "auto.offset.reset": "earliest"})
    theirs.subscribe([QUEUE])
    seen = await eventually(lambda: theirs.poll(0), "they read it", PATIENCE)
    assert (seen.value(), seen.key()) == (text, b"1")
    assert ("onbeat-token", b"7") in seen.headers()
    theirs.close()
    writer = Producer({"bootstrap.servers": cluster.servers, "log_level": 2})
    writer.produce(QUEUE, b"plain")
    writer.produce(QUEUE, None, headers=[("bytes", b"\xff"), ("none", None)])
    writer.flush(PATIENCE)
    async with broker.consumer(QUEUE, 10) as consumer:
        got = {one.body: one for one in await collected(consumer, 3)}
        assert got[b"plain"].headers == {}
        assert got[b"plain"].id == ""
        assert got[b""].headers == {"bytes": "\ufffd", "none": ""}


async def test_a_gap_holds_back_what_kafka_is_told(broker: KafkaBroker, cluster: Cluster) -> None:
    cluster.make_topic(QUEUE, partitions=1)
    await broker.publish(QUEUE, envelopes(10))
    async with broker.consumer(QUEUE, 10) as consumer:
        got = await collected(consumer, 10)
        await consumer.acknowledge(got[:3] + got[4:])
        await depth_is(broker, 7)
        await consumer.acknowledge(got[3:4])
        await depth_is(broker, 0)


async def test_a_full_inbox_pauses_and_goes_on(broker: KafkaBroker, cluster: Cluster) -> None:
    cluster.make_topic(QUEUE, partitions=1)
    await broker.publish(QUEUE, envelopes(6))
    async with consuming(broker, 2) as consumer:
        got = await collected(consumer, 2)
        await eventually(lambda: consumer.reader.paused, "it is paused")
        assert len(await consumer.receive(10, 0)) == 0
        await consumer.acknowledge(got[:1])
        got += await collected(consumer, 1)
        await eventually(lambda: consumer.reader.paused, "it is paused again")
        await consumer.acknowledge(got[1:])
        assert bodies(got + await collected(consumer, 2)) == bodies(envelopes(5))


async def test_a_full_inbox_shares_with_one_that_comes(
    cluster: Cluster, broker: KafkaBroker
) -> None:
    await broker.publish(QUEUE, envelopes(40))
    async with consuming(broker, 3) as full, AsyncExitStack() as later:
        held = await collected(full, 3)
        await eventually(lambda: full.reader.paused, "it is paused")
        second = await later.enter_async_context(consuming(broker, 100))
        await eventually(lambda: second.reader.offsets.partitions, "it has a part", PATIENCE)
        assert await collected(second, 1)
        assert full.reader.offsets.partitions
        assert held


async def test_acknowledgements_after_a_partition_changed_hands_are_void(
    broker: KafkaBroker,
) -> None:
    await broker.publish(QUEUE, envelopes(40))
    async with consuming(broker, 100) as first:
        got = await collected(first, 40)
        async with consuming(broker, 100) as second:
            await eventually(lambda: second.reader.offsets.partitions, "it has a part", PATIENCE)
            moved = set(second.reader.offsets.partitions)
            void = [one for one in got if receipt_of(one).partition in moved]
            await first.acknowledge(void)
            again = await collected(second, len(void))
            assert bodies(again) == bodies(void)
            await second.acknowledge(again)
            await first.acknowledge([one for one in got if receipt_of(one).partition not in moved])
            await depth_is(broker, 0)


async def test_what_is_done_before_a_partition_changes_hands_does_not_come_again(
    broker: KafkaBroker,
) -> None:
    await broker.publish(QUEUE, envelopes(40))
    async with consuming(broker, 100) as first:
        await first.acknowledge(await collected(first, 40))
        await depth_is(broker, 0)  # a commit on its way may be refused while groups are joined
        async with consuming(broker, 100) as second:
            await eventually(lambda: second.reader.offsets.partitions, "it has a part", PATIENCE)
            await broker.publish(QUEUE, envelopes(40, first=100))
            got: list[Any] = []
            async with asyncio.timeout(PATIENCE):
                while len(got) < 40:
                    for consumer in (first, second):
                        got += await consumer.receive(100, 0.1)
            assert bodies(got) == bodies(envelopes(40, first=100))


async def test_a_position_that_kafka_did_not_take_is_told_again(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    await broker.publish(QUEUE, envelopes(5))
    async with broker.consumer(QUEUE, 10) as consumer:
        got = await collected(consumer, 5)
        cluster.refuse(OFFSET_COMMIT, *[KafkaError.INVALID_COMMIT_OFFSET_SIZE] * 2)
        await consumer.acknowledge(got)
        await depth_is(broker, 0)


async def test_a_consumer_that_leaves_during_a_rebalance_commits_what_it_acknowledged(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    await broker.publish(QUEUE, envelopes(1))
    async with consuming(broker, 10) as consumer:
        got = await collected(consumer, 1)
        cluster.refuse(OFFSET_COMMIT, *[KafkaError.REBALANCE_IN_PROGRESS] * 3)
        await consumer.acknowledge(got)
    async with consuming(broker, 10) as consumer:
        await eventually(lambda: consumer.reader.offsets.partitions, "it has a part", PATIENCE)
        await broker.publish(QUEUE, envelopes(4, first=1))
        assert bodies(await collected(consumer, 4)) == bodies(envelopes(4, first=1))


async def test_a_publish_that_kafka_puts_off_is_made_again(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    cluster.refuse(PRODUCE, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_LEADER_FOR_PARTITION)
    await broker.publish(QUEUE, envelopes(1))
    await depth_is(broker, 1)


async def test_a_publish_that_kafka_refuses_says_why(broker: KafkaBroker, cluster: Cluster) -> None:
    cluster.refuse(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(Unavailable, match="refused the user; check the credentials"):
        await broker.publish(QUEUE, envelopes(1))


async def test_a_size_that_only_kafka_knows_is_too_large(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    cluster.refuse(PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(TooLarge, match="takes no message of this size"):
        await broker.publish(QUEUE, envelopes(1))
    await broker.publish(QUEUE, envelopes(1))


async def test_a_producer_that_can_go_on_no_more_is_followed_by_another(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    await broker.publish(QUEUE, envelopes(1))
    first = broker.publisher.producer
    cluster.refuse(PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    with pytest.raises(Unavailable):
        await broker.publish(QUEUE, envelopes(1, first=1))
    await eventually(lambda: broker.publisher.fatal, "it knows")
    await broker.publish(QUEUE, envelopes(1, first=2))
    assert broker.publisher.producer is not first
    async with broker.consumer(QUEUE, 10) as consumer:
        assert {b"0", b"2"} <= {*bodies(await collected(consumer, 2))}


async def test_a_topic_that_was_deleted_is_made_again(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    await broker.publish(QUEUE, envelopes(1))
    cluster.delete_topic(QUEUE)

    async def published() -> bool:
        try:
            await broker.publish(QUEUE, envelopes(1, first=1))
        except Unavailable:
            return False
        return True

    await eventually(published, "it is published", PATIENCE)
    async with broker.consumer(QUEUE, 10) as consumer:
        assert b"1" in bodies(await collected(consumer, 1))


async def test_more_than_librdkafka_keeps_waits_for_room(cluster: Cluster) -> None:
    broker = KafkaBroker(cluster.url())
    await broker.open()
    count = 120_000  # it keeps 100,000
    await broker.publish(QUEUE, [Envelope(body=b"x", id=str(one)) for one in range(count)])
    assert await broker.depth(QUEUE) == count
    await broker.close()


async def test_an_outage_is_told_once(
    broker: KafkaBroker, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=topic_reader.__name__)
    async with consuming(broker, 10) as consumer:
        await eventually(lambda: consumer.reader.offsets.partitions, "it has its place", PATIENCE)
        await cluster.disconnect()
        await eventually(lambda: consumer.reader.away, "it knows", PATIENCE)
        with pytest.raises(Unavailable, match="brokers are down"):
            await consumer.receive(1, 0)
        await cluster.reconnect()
        await eventually(lambda: not consumer.reader.away, "it is back", PATIENCE)
        assert len(await consumer.receive(1, 0)) == 0
    own = [record.levelname for record in caplog.records if record.name == topic_reader.__name__]
    assert own == ["WARNING", "INFO"]


async def test_leaving_and_closing_do_not_hang_while_kafka_is_away(
    broker: KafkaBroker, cluster: Cluster
) -> None:
    await broker.publish(QUEUE, envelopes(5))
    async with consuming(broker, 10) as consumer:
        await consumer.acknowledge(await collected(consumer, 5))
        publishing = asyncio.create_task(broker.publish(QUEUE, envelopes(5)))
        await cluster.disconnect()
        async with asyncio.timeout(PATIENCE):
            await broker.close()
    await asyncio.gather(publishing, return_exceptions=True)
    await cluster.reconnect()
    await eventually(consumer.ended.is_set, "what was left behind has ended", PATIENCE)


async def test_an_inbox_that_is_used_after_it_was_left_does_no_harm(broker: KafkaBroker) -> None:
    await broker.publish(QUEUE, envelopes(2))
    async with broker.consumer(QUEUE, 10) as consumer:
        got = await collected(consumer, 2)
    await consumer.extend(got)
    await consumer.acknowledge(got)
    with pytest.raises(Unavailable, match="is closed; open another"):
        await consumer.receive(1, 1)
    await depth_is(broker, 2)


async def test_a_broker_that_is_not_open_says_so(cluster: Cluster) -> None:
    broker = KafkaBroker(cluster.url())
    for call in (broker.publish(QUEUE, envelopes(1)), broker.depth(QUEUE), broker.ping()):
        with pytest.raises(Unavailable, match="is closed"):
            await call


async def test_a_purge_while_somebody_consumes_needs_a_kafka_that_deletes(
    broker: KafkaBroker,
) -> None:
    """The cluster here does not, and says so; see the contract against a server."""
    await broker.publish(QUEUE, envelopes(5))
    async with broker.consumer(QUEUE, 2) as consumer:
        await collected(consumer, 2)
        with pytest.raises(Unavailable, match="not supported"):
            await broker.purge(QUEUE)
