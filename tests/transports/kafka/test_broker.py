import asyncio
import logging
from contextlib import AsyncExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.ports.transport import Envelope
from onbeat.transports.kafka import reader
from onbeat.transports.kafka.broker import KafkaBroker
from transports.kafka.mock import OFFSET_COMMIT, PRODUCE
from waiting import eventually

QUEUE = "onbeat.work.default"
PATIENCE = 20


def envelopes(count, first=0):
    return [Envelope(body=b"%d" % one, id=str(one)) for one in range(first, first + count)]


def bodies(messages):
    return sorted(message.body for message in messages)


async def collected(inbox, count):
    got = []
    async with asyncio.timeout(PATIENCE):
        while len(got) < count:
            got += await inbox.receive(count - len(got), 1)
    return got


async def depth_is(broker, count):
    async def there():
        return await broker.depth(QUEUE) == count

    await eventually(there, f"the depth is {count}", PATIENCE)


async def test_messages_of_one_key_keep_their_order(broker):
    sent = [
        Envelope(body=b"%d" % one, id=str(one), key=f"customer {one % 5}") for one in range(100)
    ]
    await broker.publish(QUEUE, sent)
    async with broker.inbox(QUEUE, 100) as inbox:
        got = [int(delivery.body) for delivery in await collected(inbox, 100)]
    for customer in range(5):
        own = [one for one in got if one % 5 == customer]
        assert own == sorted(own)
        assert len(own) == 20


async def test_a_program_in_any_language_reads_and_writes(broker, cluster):
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
    async with broker.inbox(QUEUE, 10) as inbox:
        got = {one.body: one for one in await collected(inbox, 3)}
        assert got[b"plain"].headers == {}
        assert got[b"plain"].id == ""
        assert got[b""].headers == {"bytes": "\ufffd", "none": ""}


async def test_a_gap_holds_back_what_kafka_is_told(broker, cluster):
    cluster.make_topic(QUEUE, partitions=1)
    await broker.publish(QUEUE, envelopes(10))
    async with broker.inbox(QUEUE, 10) as inbox:
        got = await collected(inbox, 10)
        await inbox.acknowledge(got[:3] + got[4:])
        await depth_is(broker, 7)
        await inbox.acknowledge(got[3:4])
        await depth_is(broker, 0)


async def test_a_full_inbox_pauses_and_goes_on(broker, cluster):
    cluster.make_topic(QUEUE, partitions=1)
    await broker.publish(QUEUE, envelopes(6))
    async with broker.inbox(QUEUE, 2) as inbox:
        got = await collected(inbox, 2)
        await eventually(lambda: inbox.reader.paused, "it is paused")
        assert len(await inbox.receive(10, 0)) == 0
        await inbox.acknowledge(got[:1])
        got += await collected(inbox, 1)
        await eventually(lambda: inbox.reader.paused, "it is paused again")
        await inbox.acknowledge(got[1:])
        assert bodies(got + await collected(inbox, 2)) == bodies(envelopes(5))


async def test_a_full_inbox_shares_with_one_that_comes(cluster, broker):
    await broker.publish(QUEUE, envelopes(40))
    async with broker.inbox(QUEUE, 3) as full, AsyncExitStack() as later:
        held = await collected(full, 3)
        await eventually(lambda: full.reader.paused, "it is paused")
        second = await later.enter_async_context(broker.inbox(QUEUE, 100))
        await eventually(lambda: second.reader.ledger.lines, "it has a part", PATIENCE)
        assert await collected(second, 1)
        assert full.reader.ledger.lines
        assert held


async def test_acknowledgements_after_a_partition_changed_hands_are_void(broker):
    await broker.publish(QUEUE, envelopes(40))
    async with broker.inbox(QUEUE, 100) as first:
        got = await collected(first, 40)
        async with broker.inbox(QUEUE, 100) as second:
            await eventually(lambda: second.reader.ledger.lines, "it has a part", PATIENCE)
            moved = set(second.reader.ledger.lines)
            void = [one for one in got if one.receipt.partition in moved]
            await first.acknowledge(void)
            again = await collected(second, len(void))
            assert bodies(again) == bodies(void)
            await second.acknowledge(again)
            await first.acknowledge([one for one in got if one.receipt.partition not in moved])
            await depth_is(broker, 0)


async def test_what_is_done_before_a_partition_changes_hands_does_not_come_again(broker):
    await broker.publish(QUEUE, envelopes(40))
    async with broker.inbox(QUEUE, 100) as first:
        await first.acknowledge(await collected(first, 40))
        async with broker.inbox(QUEUE, 100) as second:
            await eventually(lambda: second.reader.ledger.lines, "it has a part", PATIENCE)
            await broker.publish(QUEUE, envelopes(40, first=100))
            got = []
            async with asyncio.timeout(PATIENCE):
                while len(got) < 40:
                    for inbox in (first, second):
                        got += await inbox.receive(100, 0.1)
            assert bodies(got) == bodies(envelopes(40, first=100))


async def test_a_position_that_kafka_did_not_take_is_told_again(broker, cluster):
    await broker.publish(QUEUE, envelopes(5))
    async with broker.inbox(QUEUE, 10) as inbox:
        got = await collected(inbox, 5)
        cluster.refuse(OFFSET_COMMIT, *[KafkaError.INVALID_COMMIT_OFFSET_SIZE] * 2)
        await inbox.acknowledge(got)
        await depth_is(broker, 0)


async def test_a_publish_that_kafka_puts_off_is_made_again(broker, cluster):
    cluster.refuse(PRODUCE, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_LEADER_FOR_PARTITION)
    await broker.publish(QUEUE, envelopes(1))
    await depth_is(broker, 1)


async def test_a_publish_that_kafka_refuses_says_why(broker, cluster):
    cluster.refuse(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(Unavailable, match="refused the user; check the credentials"):
        await broker.publish(QUEUE, envelopes(1))


async def test_a_size_that_only_kafka_knows_is_too_large(broker, cluster):
    cluster.refuse(PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(TooLarge, match="takes no message of this size"):
        await broker.publish(QUEUE, envelopes(1))
    await broker.publish(QUEUE, envelopes(1))


async def test_a_producer_that_can_go_on_no_more_is_followed_by_another(broker, cluster):
    await broker.publish(QUEUE, envelopes(1))
    first = broker.sender.producer
    cluster.refuse(PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    with pytest.raises(Unavailable):
        await broker.publish(QUEUE, envelopes(1, first=1))
    await eventually(lambda: broker.sender.fatal, "it knows")
    await broker.publish(QUEUE, envelopes(1, first=2))
    assert broker.sender.producer is not first
    async with broker.inbox(QUEUE, 10) as inbox:
        assert {b"0", b"2"} <= {*bodies(await collected(inbox, 2))}


async def test_a_topic_that_was_deleted_is_made_again(broker, cluster):
    await broker.publish(QUEUE, envelopes(1))
    cluster.delete_topic(QUEUE)

    async def published():
        try:
            await broker.publish(QUEUE, envelopes(1, first=1))
        except Unavailable:
            return False
        return True

    await eventually(published, "it is published", PATIENCE)
    async with broker.inbox(QUEUE, 10) as inbox:
        assert b"1" in bodies(await collected(inbox, 1))


async def test_more_than_librdkafka_keeps_waits_for_room(cluster):
    broker = KafkaBroker(cluster.url())
    await broker.open()
    count = 120_000  # it keeps 100,000
    await broker.publish(QUEUE, [Envelope(body=b"x", id=str(one)) for one in range(count)])
    assert await broker.depth(QUEUE) == count
    await broker.close()


async def test_an_outage_is_told_once(broker, cluster, caplog):
    caplog.set_level(logging.INFO, logger=reader.__name__)
    async with broker.inbox(QUEUE, 10) as inbox:
        await eventually(lambda: inbox.reader.ledger.lines, "it has its place", PATIENCE)
        await cluster.cut()
        await eventually(lambda: inbox.reader.away, "it knows", PATIENCE)
        with pytest.raises(Unavailable, match="brokers are down"):
            await inbox.receive(1, 0)
        await cluster.mend()
        await eventually(lambda: not inbox.reader.away, "it is back", PATIENCE)
        assert len(await inbox.receive(1, 0)) == 0
    own = [record.levelname for record in caplog.records if record.name == reader.__name__]
    assert own == ["WARNING", "INFO"]


async def test_leaving_and_closing_do_not_hang_while_kafka_is_away(broker, cluster):
    await broker.publish(QUEUE, envelopes(5))
    async with broker.inbox(QUEUE, 10) as inbox:
        await inbox.acknowledge(await collected(inbox, 5))
        publishing = asyncio.create_task(broker.publish(QUEUE, envelopes(5)))
        await cluster.cut()
        async with asyncio.timeout(PATIENCE):
            await broker.close()
    await asyncio.gather(publishing, return_exceptions=True)
    await cluster.mend()
    await eventually(inbox.ended.is_set, "what was left behind has ended", PATIENCE)


async def test_an_inbox_that_is_used_after_it_was_left_does_no_harm(broker):
    await broker.publish(QUEUE, envelopes(2))
    async with broker.inbox(QUEUE, 10) as inbox:
        got = await collected(inbox, 2)
    await inbox.extend(got)
    await inbox.acknowledge(got)
    with pytest.raises(Unavailable, match="has ended; enter another"):
        await inbox.receive(1, 1)
    await depth_is(broker, 2)


async def test_a_broker_that_is_not_open_says_so(cluster):
    broker = KafkaBroker(cluster.url())
    for call in (broker.publish(QUEUE, envelopes(1)), broker.depth(QUEUE), broker.ping()):
        with pytest.raises(Unavailable, match="is closed"):
            await call


async def test_a_purge_while_somebody_consumes_needs_a_kafka_that_deletes(broker):
    """The cluster here does not, and says so; see the contract against a server."""
    await broker.publish(QUEUE, envelopes(5))
    async with broker.inbox(QUEUE, 2) as inbox:
        await collected(inbox, 2)
        with pytest.raises(Unavailable, match="not supported"):
            await broker.purge(QUEUE)
