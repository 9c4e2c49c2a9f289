import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiormq
import pytest
from pamqp.commands import Basic

from conditions import eventually
from onbeat.engine.broker.inbound import InboundConsumer
from onbeat.model.errors import Misconfigured, TooLarge, Unavailable
from onbeat.ports.transport import Delivery, Envelope
from onbeat.testing.broker_contract.broker_link import Traits
from onbeat.testing.broker_contract.steps import an_envelope, bodies, collect, envelopes
from onbeat.transports.amqp.broker import RabbitMqBroker
from onbeat.transports.amqp.declarations import Declarations
from transports.certificates import made
from transports.proxy import Proxy
from transports.rabbitmq.brokers import TIMEOUT, Make, brokers, line
from transports.rabbitmq.server import server

TRAITS = Traits(too_large=0)
MANY_ATTEMPTS = 40
"""More than can be made in `TIMEOUT` with pauses that grow."""


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    async with brokers() as make:
        yield make


@pytest.fixture
async def way() -> AsyncIterator[Proxy]:
    async with line() as way:
        yield way


@pytest.fixture
async def raw() -> AsyncIterator[aiormq.abc.AbstractConnection]:
    connection = await aiormq.connect(server())
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://host/?colour=red", "unknown option colour; allowed are"),
        ("amqp://host/?colour=red", "heartbeat, keyfile, name, prefix, quorum, timeout"),
        ("amqp://host/?quorum=perhaps", "quorum is true or false"),
        ("amqp://host/?timeout=soon", "timeout is a number of seconds"),
        ("amqp://host/?timeout=0", "timeout is a number of seconds"),
        ("amqp://host/?heartbeat=0", "heartbeat is a whole number"),
        ("amqp://host/?prefix=" + "x" * 51, "prefix has at most 50"),
        ("amqp://host/?cafile=/x", "need amqps://"),
        ("amqps://host/?cafile=/nowhere", "the TLS files cannot be read"),
        ("amqp://user:s3cret/x@host/", "percent-encoded"),
        ("http://host/", "amqp://USER:PASSWORD@HOST/VHOST"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused(url: str, said: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        RabbitMqBroker(url)
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert refused.value.key == "transport"


async def test_no_password_is_told_to_anybody(way: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    broker = RabbitMqBroker(f"amqp://guest:wrong-s3cret@{way.address}/?timeout=1")
    with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable) as failed:
        await broker.publish("any", [an_envelope()])
    await broker.close()
    assert broker.url == f"amqp://guest@{way.address}/?timeout=1"
    assert "s3cret" not in caplog.text + str(failed.value) + repr(failed.value.__cause__)


async def test_an_outage_is_logged_once_and_so_is_its_end(
    way: Proxy, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make(way)
    await way.disconnect()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with pytest.raises(Unavailable):
                await broker.ping()
        await way.reconnect()
        await eventually(lambda: pings(broker), "the broker is back")
    answer = [record.message for record in caplog.records if record.levelno > logging.DEBUG]
    assert answer == ["broker.away", "broker.back"]


async def pings(broker: RabbitMqBroker) -> bool:
    try:
        await broker.ping()
    except Unavailable:
        return False
    return True


async def test_attempts_to_connect_are_few(way: Proxy, make: Make) -> None:
    broker = make(way)
    await way.disconnect()
    with pytest.raises(Unavailable):
        await broker.publish("any", [an_envelope()])
    assert 1 < way.refused < MANY_ATTEMPTS


async def test_a_network_that_loses_everything_is_noticed_in_time(way: Proxy, make: Make) -> None:
    broker = make(way)
    await broker.publish("any", [an_envelope()])
    way.silence()
    async with asyncio.timeout(3 * TIMEOUT):
        with pytest.raises(Unavailable):
            await broker.publish("any", [an_envelope()])
        with pytest.raises(Unavailable):
            await broker.ping()


async def test_a_network_that_never_answers_is_given_up_in_time(way: Proxy, make: Make) -> None:
    broker = make(way)
    way.silence()
    async with asyncio.timeout(3 * TIMEOUT):
        with pytest.raises(Unavailable):
            await broker.publish("any", [an_envelope()])


async def test_tls_is_spoken_and_checked(make: Make, tmp_path: Path) -> None:
    context, trusted = made(tmp_path)
    async with line(context) as way:
        url = f"amqps://guest:guest@{way.address}/?timeout=2&prefix=tls"
        trusting = RabbitMqBroker(f"{url}&cafile={trusted}")
        await trusting.ping()
        await trusting.close()
        wary = RabbitMqBroker(url)
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await wary.ping()
        await wary.close()
        careless = RabbitMqBroker(f"{url}&verify=false")
        await careless.ping()
        await careless.close()


async def test_what_the_broker_drops_is_kept_as_dead(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    await broker.publish("onbeat.work.jobs", envelopes(2))
    channel = await raw.channel()
    for _ in range(2):
        message = await channel.basic_get(make.prefix + "onbeat.work.jobs")
        await channel.basic_reject(message.delivery_tag or 0, requeue=False)
    async with broker.consumer("onbeat.dead", prefetch=5) as dead:
        got = await collect(dead, 2, TRAITS, acknowledge=True)
    assert bodies(got) == bodies(envelopes(2))


async def test_messages_are_persistent_unless_they_are_fleeting_and_say_which_they_are(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    await broker.publish("jobs", [Envelope(id="one", body=b"x", headers={"a": "b"})])
    await broker.publish("jobs", [Envelope(id="two", body=b"x", fleeting=True)])
    channel = await raw.channel()
    result = []
    for _ in range(2):
        message = await channel.basic_get(make.prefix + "jobs")
        properties = message.header.properties
        result.append((properties.message_id, properties.delivery_mode))
        await channel.basic_ack(message.delivery_tag or 0)
    assert result == [("one", 2), ("two", 1)]


async def test_quorum_queues_are_made_where_they_are_asked_for(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make(quorum="true")
    await broker.publish("onbeat.work.jobs", [an_envelope()])
    channel = await raw.channel()
    await channel.queue_declare(
        make.prefix + "onbeat.work.jobs",
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": make.prefix + "onbeat.dlx",
        },
    )
    with pytest.raises(aiormq.ChannelPreconditionFailed):
        await channel.queue_declare(make.prefix + "onbeat.work.jobs", durable=True)


async def test_a_queue_of_others_has_no_arguments_so_that_they_may_declare_it(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    """Whoever reads it decides about dead letters."""
    await make().publish("failed_payments", [an_envelope()])
    channel = await raw.channel()
    declared = await channel.queue_declare(make.prefix + "failed_payments", durable=True)
    assert declared.message_count == 1


async def test_a_queue_that_is_read_here_has_dead_letters_whatever_its_name(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    async with broker.consumer("theirs", prefetch=1) as consumer:
        await consumer.receive(1, 0)
    channel = await raw.channel()
    await channel.queue_declare(
        make.prefix + "theirs",
        durable=True,
        arguments={"x-dead-letter-exchange": make.prefix + "onbeat.dlx"},
    )


async def test_a_queue_that_is_there_is_used_as_it_is_with_one_warning(
    make: Make, raw: aiormq.abc.AbstractConnection, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make()
    channel = await raw.channel()
    queue = make.prefix + "jobs"
    await channel.queue_declare(queue, durable=True, arguments={"x-max-priority": 3})
    for _ in range(3):
        await broker.publish("jobs", [an_envelope()])
    async with broker.consumer("jobs", prefetch=5) as consumer:
        await collect(consumer, 3, TRAITS, acknowledge=True)
    warned = [record for record in caplog.records if record.message == "queue.declared_differently"]
    assert [vars(record)["queue"] for record in warned] == [queue]
    assert "PRECONDITION_FAILED" in vars(warned[0])["error"]


async def test_a_burst_of_first_messages_to_a_queue_of_other_arguments_keeps_its_connection(
    make: Make,
    raw: aiormq.abc.AbstractConnection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declare, running, peak = Declarations._declare_queue, 0, 0

    async def counted(*args: Any) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        try:
            await declare(*args)
        finally:
            running -= 1

    monkeypatch.setattr(Declarations, "_declare_queue", counted)
    name = f"{make.prefix}onbeat.work.burst"
    channel = await raw.channel()
    await channel.queue_declare(name, durable=True, arguments={"x-max-priority": 3})
    broker = make()
    caplog.set_level(logging.INFO)
    burst = [broker.publish("onbeat.work.burst", [an_envelope(body=b"%d" % n)]) for n in range(200)]
    await asyncio.gather(*burst)
    assert peak == 1, "a refused declaration closes its channel, and there are not that many"
    assert sum("declared_differently" in record.getMessage() for record in caplog.records) == 1
    assert not [record for record in caplog.records if "away" in record.getMessage()]
    declared = await channel.queue_declare(name, passive=True)
    assert declared.message_count == len(burst)


async def test_a_queue_that_was_deleted_is_made_again_for_what_is_published(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(1))
    channel = await raw.channel()
    await channel.queue_delete(make.prefix + "jobs")
    await broker.publish("jobs", envelopes(5))
    assert await broker.depth("jobs") == 5


async def test_an_inbox_goes_on_after_its_queue_was_deleted(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    async with broker.consumer("jobs", prefetch=5) as consumer:
        assert len(await consumer.receive(1, 0.2)) == 0
        channel = await raw.channel()
        await channel.queue_delete(make.prefix + "jobs")
        await broker.publish("jobs", envelopes(1))
        await collect(consumer, 1, TRAITS, acknowledge=True)


async def in_upper_case(delivery: Delivery) -> bytes:
    return delivery.body.upper()


async def no_dead_letter(queue: str, delivery: Delivery, reason: str) -> None:
    raise AssertionError(f"{queue}: {delivery} {reason}")


@pytest.mark.parametrize("reply_to", ["", "amq.rabbitmq.reply-to"])
async def test_an_answer_goes_to_where_its_sender_waits(
    make: Make, raw: aiormq.abc.AbstractConnection, reply_to: str
) -> None:
    """To an exclusive queue that the broker has named, and without any."""
    broker = make()
    intake = InboundConsumer(broker, "jobs", in_upper_case, no_dead_letter)
    channel = await raw.channel()
    answers: list[tuple[bytes, str | None]] = []

    async def note(message: aiormq.abc.DeliveredMessage) -> None:
        answers.append((message.body, message.header.properties.correlation_id))

    own = reply_to or (await channel.queue_declare("", exclusive=True)).queue
    assert own
    await channel.basic_consume(own, note, no_ack=True)
    await broker.publish("jobs", [])
    await intake.step()
    for number, body in enumerate([b"one", b"two"]):
        properties = Basic.Properties(reply_to=own, correlation_id=f"c{number}")
        name = make.prefix + "jobs"
        await channel.basic_publish(body, routing_key=name, properties=properties)

    async def answered() -> bool:
        await intake.step()
        return len(answers) == 2

    await eventually(answered, "both answers are there")
    await intake.close()
    assert answers == [(b"ONE", "c0"), (b"TWO", "c1")]
    assert broker.declarations.known == {make.prefix + "jobs", make.prefix + "onbeat.dead"}
    assert await broker.depth(own) == 0


async def test_an_answer_that_nobody_waits_for_holds_up_no_other(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    intake = InboundConsumer(broker, "jobs", in_upper_case, no_dead_letter)
    channel = await raw.channel()
    await intake.step()
    properties = Basic.Properties(reply_to="amq.gen-gone")
    await channel.basic_publish(b"x", routing_key=make.prefix + "jobs", properties=properties)
    headers = Basic.Properties(headers={"reply-to": "mine"}, reply_to="other", correlation_id="c")
    await channel.basic_publish(b"y", routing_key=make.prefix + "jobs", properties=headers)

    async def acknowledged() -> bool:
        await intake.step()
        return await broker.depth("mine") == 1

    await eventually(acknowledged, "the one that is waited for is answered")
    await intake.close()
    assert await broker.depth("jobs") == 0
    async with broker.consumer("mine", prefetch=5) as consumer:
        (answer,) = await collect(consumer, 1, TRAITS, acknowledge=True)
    assert (answer.body, answer.correlation_id) == (b"Y", "c")


async def test_messages_of_other_programs_are_read(
    make: Make, raw: aiormq.abc.AbstractConnection
) -> None:
    broker = make()
    await broker.publish("jobs", [])
    async with broker.consumer("jobs", prefetch=5) as consumer:
        await consumer.receive(1, 0.2)
        channel = await raw.channel()
        properties = Basic.Properties(
            headers={"attempt": 3, "list": [1, 2], "text": "ä"},
            reply_to="answers",
            correlation_id="7",
        )
        await channel.basic_publish(
            b"hello", routing_key=make.prefix + "jobs", properties=properties
        )
        await channel.basic_publish(b"bare", routing_key=make.prefix + "jobs")
        first, second = await collect(consumer, 2, TRAITS, acknowledge=True)
    assert first.headers == {"attempt": "3", "text": "ä"}
    assert (first.reply_to, first.correlation_id) == ("answers", "7")
    assert (second.body, second.headers, second.reply_to) == (b"bare", {}, "")


async def test_a_large_body_takes_several_frames(make: Make) -> None:
    broker = make()
    body = bytes(range(256)) * 4_096
    await broker.publish("jobs", [an_envelope(body), an_envelope(body[:-1])])
    async with broker.consumer("jobs", prefetch=5) as consumer:
        got = await collect(consumer, 2, TRAITS, acknowledge=True)
    assert bodies(got) == [body[:-1], body]


@pytest.mark.parametrize(
    ("envelope", "field"),
    [
        (Envelope(id="ß" * 128, body=b""), "id"),
        (Envelope(id="1", body=b"", headers={"n" * 129: "x"}), "headers"),
        (Envelope(id="1", body=b"", headers={"n": "ß" * 50_001}), "headers"),
    ],
)
async def test_what_has_no_room_in_a_frame_is_refused(
    make: Make, envelope: Envelope, field: str
) -> None:
    broker = make()
    with pytest.raises(TooLarge) as refused:
        await broker.publish("jobs", [an_envelope(), envelope])
    assert refused.value.field == field


async def test_an_inbox_leaves_to_others_what_is_beyond_its_prefetch(make: Make) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(10))
    async with broker.consumer("jobs", prefetch=4) as first, broker.consumer("jobs", 10) as second:
        held = await collect(first, 4, TRAITS)
        rest = await collect(second, 6, TRAITS, acknowledge=True)
        await first.acknowledge(held)
    assert bodies([*held, *rest]) == bodies(envelopes(10))


async def test_a_cancelled_publish_does_no_harm_to_the_next(make: Make) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(1))
    for _ in range(10):
        publishing = asyncio.create_task(broker.publish("jobs", envelopes(2_000)))
        await asyncio.wait({publishing}, timeout=0)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await broker.publish("jobs", envelopes(1))


async def test_a_closed_broker_is_away_until_it_is_opened_again(make: Make) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(1))
    await broker.close()
    with pytest.raises(Unavailable, match="closed here"):
        await broker.ping()
    with pytest.raises(Unavailable, match="closed here"):
        await broker.publish("jobs", envelopes(1))
    await broker.open()
    await broker.publish("jobs", envelopes(1))
    assert await broker.depth("jobs") == 2
