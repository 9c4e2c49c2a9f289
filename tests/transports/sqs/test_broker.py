import asyncio
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually
from onbeat.model.errors import Misconfigured, TooLarge, Unavailable
from onbeat.ports.transport import Envelope
from onbeat.transports.sqs.broker import SqsBroker
from transports.sqs import server


@pytest.fixture
def queue() -> str:
    return f"onbeat.test.{secrets.token_hex(6)}"


def name_of(queue: Any) -> Any:
    return queue.replace(".", "-")


def envelopes(count: int) -> Any:
    return [Envelope(body=b"%d" % number, id=str(number)) for number in range(count)]


def bodies(deliveries: Any) -> Any:
    return sorted(delivery.body for delivery in deliveries)


async def collected(consumer: Any, count: int) -> Any:
    got: list[Any] = []
    async with asyncio.timeout(20):
        while len(got) < count:
            got += await consumer.receive(count - len(got), 1)
    return got


def attributes_of(sqs: Any, name: str) -> Any:
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


async def test_queues_are_made_with_the_attributes_of_the_url(
    port: Any, sqs: Any, queue: Any
) -> None:
    broker = SqsBroker(server.url(port, visibility=33, wait=2, retention=3600, receives=4))
    await broker.open()
    await broker.publish(queue, envelopes(1))
    made = attributes_of(sqs, name_of(queue))
    assert made["VisibilityTimeout"] == "33"
    assert made["ReceiveMessageWaitTimeSeconds"] == "2"
    assert made["MessageRetentionPeriod"] == "3600"
    dead = attributes_of(sqs, "onbeat-dead")
    policy = json.loads(made["RedrivePolicy"])
    assert (policy["deadLetterTargetArn"], int(policy["maxReceiveCount"])) == (dead["QueueArn"], 4)
    assert dead["MessageRetentionPeriod"] == "1209600"
    assert "RedrivePolicy" not in dead
    await broker.close()


async def test_a_queue_that_is_there_keeps_its_attributes(
    broker: Any, sqs: Any, queue: Any
) -> None:
    sqs.create_queue(QueueName=name_of(queue), Attributes={"VisibilityTimeout": "77"})
    await broker.publish(queue, envelopes(1))
    assert attributes_of(sqs, name_of(queue))["VisibilityTimeout"] == "77"


async def test_a_prefix_keeps_two_systems_apart(port: Any, queue: Any) -> None:
    one = SqsBroker(server.url(port, wait=1, prefix="one-"))
    two = SqsBroker(server.url(port, wait=1, prefix="two-"))
    for broker in (one, two):
        await broker.open()
    await one.publish(queue, envelopes(2))
    assert (await one.depth(queue), await two.depth(queue)) == (2, 0)
    for broker in (one, two):
        await broker.close()


async def test_a_program_in_any_language_reads_and_writes_plain_json(
    broker: Any, sqs: Any, queue: Any
) -> None:
    text = '{"jsonrpc":"2.0","method":"export","params":{"objectID":23,"attempt":1},"id":"1"}'
    sent = Envelope(body=text.encode(), id="1", headers={"onbeat-token": "7"})
    await broker.publish(queue, [sent])
    url = sqs.get_queue_url(QueueName=name_of(queue))["QueueUrl"]
    (seen,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    assert seen["Body"] == text
    assert seen["MessageAttributes"]["onbeat-token"]["StringValue"] == "7"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=seen["ReceiptHandle"])
    sqs.send_message(QueueUrl=url, MessageBody=text)
    async with broker.consumer(queue, 1) as consumer:
        (got,) = await collected(consumer, 1)
        assert (got.body, got.headers) == (text.encode(), {})
        assert got.id


async def test_a_message_that_was_received_too_often_is_put_aside(port: Any, queue: Any) -> None:
    broker = SqsBroker(server.url(port, wait=1, receives=2, prefix=f"{secrets.token_hex(4)}-"))
    await broker.open()
    await broker.publish(queue, [Envelope(body=b"poison", id="1")])
    for _ in range(2):
        async with broker.consumer(queue, 1) as consumer:
            await collected(consumer, 1)
    async with broker.consumer(queue, 1) as consumer, broker.consumer("onbeat.dead", 1) as dead:
        assert len(await consumer.receive(1, 1)) == 0
        (buried,) = await collected(dead, 1)
        assert (buried.body, buried.id) == (b"poison", "1")
        await dead.acknowledge([buried])
    await broker.close()


async def test_a_queue_that_was_deleted_is_made_again(broker: Any, sqs: Any, queue: Any) -> None:
    async with broker.consumer(queue, 10) as consumer:
        await broker.publish(queue, envelopes(1))
        await consumer.acknowledge(await collected(consumer, 1))
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name_of(queue))["QueueUrl"])
        await broker.publish(queue, envelopes(2))
        assert bodies(await collected(consumer, 2)) == [b"0", b"1"]


async def test_asking_for_a_depth_makes_no_queue(broker: Any, sqs: Any, queue: Any) -> None:
    assert await broker.depth(queue) == 0
    await broker.purge(queue)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name_of(queue))


async def test_a_queue_may_be_purged_twice_in_a_minute(broker: Any, queue: Any) -> None:
    for _ in range(2):
        await broker.publish(queue, envelopes(25))
        await broker.purge(queue)
        assert await broker.depth(queue) == 0


async def test_nothing_is_fetched_while_nobody_asks(broker: Any, queue: Any) -> None:
    await broker.publish(queue, envelopes(5))
    async with broker.consumer(queue, 100) as consumer:
        got = await collected(consumer, 2)
        await consumer.acknowledge(got)
        assert await broker.depth(queue) == 3
        assert not consumer.polls


async def test_one_poll_waits_at_an_empty_queue_and_more_at_a_full_one(
    grumbled: Any, grumbler: Any, queue: Any
) -> None:
    async with grumbled.consumer(queue, 100) as consumer:
        assert len(await consumer.receive(100, 0.5)) == 0
        await eventually(lambda: grumbler.seen["ReceiveMessage"], "the poll has begun")
        assert len(grumbler.seen["ReceiveMessage"]) == 1
        await eventually(lambda: not consumer.polls, "the poll has ended")
        await grumbled.publish(queue, envelopes(100))
        first = await consumer.receive(100, 10)
        assert len(first) == 10
        receiving = asyncio.create_task(consumer.receive(100, 10))
        await asyncio.sleep(0)
        assert len(consumer.polls) > 1
        assert sum(consumer.polls.values()) <= 90, "no more than there is room for"
        await receiving


async def test_a_consumer_that_closes_before_its_poll_begins_reports_no_failure(
    broker: Any, queue: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker.consumer(queue, 1) as consumer:
        receiving = asyncio.create_task(consumer.receive(1, 0.1))
        await asyncio.sleep(0)
        assert consumer.polls
    await receiving
    await eventually(lambda: not consumer.polls, "the poll has ended")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_what_a_poll_brings_after_its_inbox_was_left_is_given_back(
    broker: Any, queue: Any
) -> None:
    async with broker.consumer(queue, 1) as consumer:
        assert len(await consumer.receive(1, 0.01)) == 0
        assert consumer.polls
    assert broker.closing_consumers
    await broker.publish(queue, envelopes(1))
    async with broker.consumer(queue, 1) as consumer:
        assert bodies(await collected(consumer, 1)) == [b"0"]
    await broker.close()
    assert not broker.closing_consumers


async def test_an_inbox_that_is_used_after_it_was_left_does_no_harm(
    broker: Any, queue: Any
) -> None:
    await broker.publish(queue, envelopes(2))
    async with broker.consumer(queue, 2) as consumer:
        got = await collected(consumer, 2)
    await consumer.extend(got)
    await consumer.acknowledge(got[:1])
    with pytest.raises(Unavailable, match="is closed; open another"):
        await consumer.receive(1, 1)


async def test_throttled_calls_are_made_again(grumbled: Any, grumbler: Any, queue: Any) -> None:
    grumbler.refuse("SendMessageBatch", "ThrottlingException", "slow down", times=2)
    await grumbled.publish(queue, envelopes(3))
    assert len(grumbler.seen["SendMessageBatch"]) == 3
    assert await grumbled.depth(queue) == 3


async def test_entries_that_sqs_failed_are_sent_again_and_no_others(
    grumbled: Any, grumbler: Any, queue: Any
) -> None:
    grumbler.fail("SendMessageBatch", "InternalError", times=2, entries=3, ours=False)
    await grumbled.publish(queue, envelopes(10))
    assert [len(call["Entries"]) for call in grumbler.seen["SendMessageBatch"]] == [10, 3, 3]
    async with grumbled.consumer(queue, 10) as consumer:
        assert bodies(await collected(consumer, 10)) == bodies(envelopes(10))


async def test_a_publish_that_is_failed_again_and_again_raises(
    grumbled: Any, grumbler: Any, queue: Any
) -> None:
    grumbler.fail("SendMessageBatch", "InternalError", times=9, entries=2, ours=False)
    with pytest.raises(Unavailable, match=r"did not take 2 of 5 messages \(InternalError\)"):
        await grumbled.publish(queue, envelopes(5))
    assert await grumbled.depth(queue) == 3


async def test_an_entry_that_is_refused_for_good_is_not_sent_again(
    grumbled: Any, grumbler: Any, queue: Any
) -> None:
    grumbler.fail("SendMessageBatch", "KmsAccessDenied", times=1, entries=1, ours=True)
    with pytest.raises(Unavailable, match="KmsAccessDenied"):
        await grumbled.publish(queue, envelopes(5))
    assert len(grumbler.seen["SendMessageBatch"]) == 1


async def test_acknowledgements_that_failed_are_made_again(
    grumbled: Any, grumbler: Any, queue: Any
) -> None:
    await grumbled.publish(queue, envelopes(10))
    grumbler.fail("DeleteMessageBatch", "InternalError", times=1, entries=4, ours=False)
    async with grumbled.consumer(queue, 10) as consumer:
        await consumer.acknowledge(await collected(consumer, 10))
    assert [len(call["Entries"]) for call in grumbler.seen["DeleteMessageBatch"]][-1] == 4
    await eventually(lambda: empty(grumbled, queue), "all are deleted")


async def empty(broker: Any, queue: Any) -> Any:
    return await broker.depth(queue) == 0


async def test_an_extension_that_sqs_refuses_makes_room_for_others(
    grumbled: Any, grumbler: Any, queue: Any
) -> None:
    await grumbled.publish(queue, envelopes(2))
    async with grumbled.consumer(queue, 1) as consumer:
        got = await collected(consumer, 1)
        grumbler.fail("ChangeMessageVisibilityBatch", "x", times=1, entries=1, ours=True)
        await consumer.extend(got)
        assert len(await collected(consumer, 1)) == 1


async def test_errors_tell_no_token(grumbled: Any, grumbler: Any, queue: Any) -> None:
    answer = "The Canonical String should have been\nx-amz-security-token:hush"
    grumbler.refuse("GetQueueUrl", "SignatureDoesNotMatch", answer, times=1, status=403)
    with pytest.raises(Unavailable, match="it refused the credentials") as caught:
        await grumbled.publish(queue, envelopes(1))
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_missing_credentials_are_named(
    port: Any, queue: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    broker = SqsBroker(server.url(port))
    await broker.open()
    with pytest.raises(Unavailable, match="no credentials; set AWS_ACCESS_KEY_ID"):
        await broker.ping()
    await broker.close()


async def test_a_profile_that_is_not_there_is_a_setting_at_fault(
    port: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Misconfigured, match="nobody"):
        await SqsBroker(server.url(port)).open()


async def test_a_broker_that_is_not_open_says_so(port: Any, queue: Any) -> None:
    with pytest.raises(Unavailable, match="is closed"):
        await SqsBroker(server.url(port)).publish(queue, envelopes(1))


async def test_nothing_of_a_lot_with_one_too_large_is_sent(broker: Any, queue: Any) -> None:
    large = Envelope(body=b"x" * 262_144, id="large")
    with pytest.raises(TooLarge, match="message large has"):
        await broker.publish(queue, [*envelopes(20), large])
    assert await broker.depth(queue) == 0
