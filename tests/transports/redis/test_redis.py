import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually
from onbeat.model.errors import Misconfigured, TooLarge, Unavailable
from onbeat.ports.transport import Envelope
from onbeat.testing.broker_contract.broker_link import Traits
from onbeat.testing.broker_contract.steps import an_envelope, bodies, collect, envelopes
from onbeat.transports.redis import group
from onbeat.transports.redis.broker import RedisBroker
from onbeat.transports.redis.config import parse_url
from onbeat.transports.redis.consumer import READ_BYTES, READ_MESSAGES
from transports.certificates import made
from transports.proxy import Proxy
from transports.redis.brokers import TIMEOUT, Make, brokers, line
from transports.redis.server import client, server

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
def raw() -> Iterator[Any]:
    with client(server()) as raw:
        yield raw


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://host/?colour=red", "unknown option colour; allowed are"),
        ("redis://host/?password=s3cret", "unknown option password"),
        ("redis://host/?visibility=0", "visibility is a number of seconds"),
        ("redis://host/?timeout=soon", "timeout is a number of seconds"),
        ("redis://host/?name=two%20words", "name is up to 64 visible"),
        ("redis://host/news", "the number of a database"),
        ("redis://host/?cafile=/x", "need rediss://"),
        ("rediss://host/?cafile=/nowhere", "the TLS files cannot be read"),
        ("redis+unix://", "the path of the socket is missing"),
        ("redis+unix:///socket?db=-1", "db is a whole number"),
        ("redis://:s3cret/x@host/", "percent-encoded"),
        ("http://host/", "redis://USER:PASSWORD@HOST:PORT/DATABASE"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused(url: str, said: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        RedisBroker(url)
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert refused.value.key == "transport"


@pytest.mark.parametrize(
    ("url", "database"),
    [("redis://host", 0), ("redis://host/3", 3), ("redis+unix:///run/socket?db=4", 4)],
)
def test_the_database_is_read(url: str, database: int) -> None:
    assert parse_url(url).database == database


async def test_no_password_is_told_to_anybody(way: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    broker = RedisBroker(f"redis://nobody:wrong-s3cret@{way.address}/0?timeout=1")
    with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable) as failed:
        await broker.publish("any", [an_envelope()])
    await broker.close()
    assert broker.url == f"redis://nobody@{way.address}/0?timeout=1"
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


async def pings(broker: RedisBroker) -> bool:
    try:
        await broker.ping()
    except Unavailable:
        return False
    return True


async def test_attempts_to_connect_are_few(way: Proxy, make: Make) -> None:
    broker = make(way)
    await way.disconnect()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await broker.publish("any", [an_envelope()])
    assert 1 < way.refused < MANY_ATTEMPTS


async def test_a_network_that_loses_everything_is_noticed_in_time(way: Proxy, make: Make) -> None:
    broker = make(way)
    await broker.publish("any", [an_envelope()])
    way.silence()
    async with asyncio.timeout(4 * TIMEOUT):
        with pytest.raises(Unavailable):
            await broker.publish("any", [an_envelope()])
        with pytest.raises(Unavailable):
            await broker.ping()


async def test_an_inbox_notices_a_network_that_loses_everything(way: Proxy, make: Make) -> None:
    broker, other = make(way), make()
    async with broker.consumer("any", prefetch=5) as consumer:
        assert len(await consumer.receive(1, 0.5)) == 0
        way.silence()
        async with asyncio.timeout(4 * TIMEOUT):
            with pytest.raises(Unavailable):
                await consumer.receive(1, 3 * TIMEOUT)
        await way.disconnect()
        await way.reconnect()
        await other.publish("any", envelopes(1))
        await collected_at_last(consumer, 1)


async def collected_at_last(consumer: Any, count: int) -> None:
    got = 0
    while got < count:
        try:
            some = await consumer.receive(count, 0.5)
        except Unavailable:
            continue
        got += len(some)
        await consumer.acknowledge(some)


async def test_tls_is_spoken_and_checked(make: Make, tmp_path: Path) -> None:
    context, trusted = made(tmp_path)
    async with line(context) as way:
        url = f"rediss://{way.address}/0?timeout=2"
        trusting = RedisBroker(f"{url}&cafile={trusted}")
        await trusting.ping()
        await trusting.close()
        wary = RedisBroker(url)
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await wary.ping()
        await wary.close()
        careless = RedisBroker(f"{url}&verify=false")
        await careless.ping()
        await careless.close()


async def test_nothing_is_left_of_what_was_acknowledged(make: Make, raw: Any) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(2_500))
    async with broker.consumer("jobs", prefetch=5_000) as consumer:
        await consumer.acknowledge(await collect(consumer, 2_500, TRAITS))
    stream = make.prefix + "jobs"
    assert raw.xlen(stream) == 0
    assert raw.xpending(stream, "onbeat")["pending"] == 0


async def test_an_inbox_that_was_left_leaves_no_consumer(make: Make, raw: Any) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(1_200))
    async with broker.consumer("jobs", prefetch=1_200) as inbox:
        await collect(inbox, 1_200, TRAITS)
    consumers = raw.xinfo_consumers(make.prefix + "jobs", "onbeat")
    assert [(consumer["name"], consumer["pending"]) for consumer in consumers] == [
        (b"onbeat:left", 1_200)
    ]
    assert await broker.depth("jobs") == 1_200


async def test_consumers_that_died_long_ago_are_deleted_unless_they_hold_something(
    make: Make, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "CONSUMER_IDLE", -1)
    broker = make()
    await broker.publish("jobs", envelopes(1))
    stream = make.prefix + "jobs"
    raw.xgroup_create(stream, "onbeat", "0")
    raw.xgroup_createconsumer(stream, "onbeat", "dead")
    raw.xreadgroup("onbeat", "holder", {stream: ">"})
    async with broker.consumer("jobs", prefetch=5) as consumer:
        assert len(await consumer.receive(1, 0.2)) == 0
        names = {xinfo_consumer["name"] for xinfo_consumer in raw.xinfo_consumers(stream, "onbeat")}
    assert b"holder" in names
    assert b"dead" not in names


async def test_an_inbox_goes_on_after_its_stream_was_deleted(make: Make, raw: Any) -> None:
    broker = make()
    async with broker.consumer("jobs", prefetch=5) as consumer:
        assert len(await consumer.receive(1, 0.2)) == 0
        raw.delete(make.prefix + "jobs")
        await broker.publish("jobs", envelopes(3))
        await collect(consumer, 3, TRAITS, acknowledge=True)


async def test_a_stream_that_is_deleted_during_a_read_is_made_again(make: Make, raw: Any) -> None:
    broker = make()
    async with broker.consumer("jobs", prefetch=5) as consumer:
        assert len(await consumer.receive(1, 0.2)) == 0
        receiving = asyncio.create_task(collect(consumer, 1, TRAITS, acknowledge=True))
        await eventually(lambda: raw.info("clients")["blocked_clients"], "somebody waits")
        raw.delete(make.prefix + "jobs")
        await broker.publish("jobs", envelopes(1))
        assert len(await receiving) == 1


async def test_messages_of_other_programs_are_read(make: Make, raw: Any) -> None:
    broker = make()
    stream = make.prefix + "jobs"
    raw.xadd(stream, {"body": "bare"})
    raw.xadd(stream, {"body": b"\xff\x00", "id": b"\xff", "headers": '{"n": 3, "t": "ä"}'})
    raw.xadd(stream, {"body": "broken", "headers": "{"})
    raw.xadd(stream, {"body": "nested", "headers": '{"list": []}'})
    raw.xadd(stream, {"other": "field"})
    async with broker.consumer("jobs", prefetch=5) as consumer:
        got = await collect(consumer, 5, TRAITS, acknowledge=True)
    assert [(one.body, one.headers) for one in got] == [
        (b"bare", {}),
        (b"\xff\x00", {"n": "3", "t": "ä"}),
        (b"broken", {}),
        (b"nested", {}),
        (b"", {}),
    ]


async def test_another_kind_of_key_is_not_taken_for_a_queue(make: Make, raw: Any) -> None:
    broker = make()
    raw.set(make.prefix + "jobs", "text")
    with pytest.raises(Unavailable, match="WRONGTYPE"):
        await broker.publish("jobs", envelopes(1))
    with pytest.raises(Unavailable, match="WRONGTYPE"):
        await broker.depth("jobs")
    async with broker.consumer("jobs", prefetch=5) as consumer:
        with pytest.raises(Unavailable, match="WRONGTYPE"):
            await consumer.receive(1, 1.0)


async def test_headers_that_are_too_large_are_refused(make: Make) -> None:
    broker = make()
    with pytest.raises(TooLarge) as refused:
        await broker.publish("jobs", [Envelope(id="1", body=b"", headers={"n": "ß" * 50_001})])
    assert refused.value.field == "headers"


async def test_many_small_messages_come_at_once(make: Make) -> None:
    broker = make()
    await broker.publish("jobs", envelopes(3 * READ_MESSAGES))
    async with broker.consumer("jobs", prefetch=100) as consumer:
        got = await consumer.receive(3 * READ_MESSAGES - 1, TRAITS.patience)
        assert len(got) == 3 * READ_MESSAGES - 1
        await consumer.acknowledge(got)


async def test_large_messages_come_a_few_at_once(make: Make) -> None:
    """Whoever receives them is not to need memory for as many as it has room for."""
    broker = make()
    large = [an_envelope(bytes(READ_BYTES // 4)) for _ in range(3 * READ_MESSAGES)]
    await broker.publish("jobs", large)
    async with broker.consumer("jobs", prefetch=100) as consumer:
        got = await consumer.receive(100, TRAITS.patience)
        assert len(got) == READ_MESSAGES
        await consumer.acknowledge(got)
        await collect(consumer, 2 * READ_MESSAGES, TRAITS, acknowledge=True)


async def test_what_was_held_for_too_long_takes_no_room(make: Make) -> None:
    broker, other = make(visibility=1), make(visibility=1)
    await broker.publish("jobs", envelopes(1))
    async with broker.consumer("jobs", prefetch=1) as consumer:
        await collect(consumer, 1, TRAITS)
        async with other.consumer("jobs", prefetch=1) as second:
            await collect(second, 1, TRAITS, acknowledge=True)
        await broker.publish("jobs", [an_envelope(b"next")])
        assert bodies(await collect(consumer, 1, TRAITS, acknowledge=True)) == [b"next"]


async def test_a_message_that_nobody_settled_comes_again_to_the_same_inbox(make: Make) -> None:
    broker = make(visibility=1)
    await broker.publish("jobs", envelopes(1))
    async with broker.consumer("jobs", prefetch=5) as consumer:
        await collect(consumer, 1, TRAITS)
        await collect(consumer, 1, TRAITS, acknowledge=True)


async def test_an_extended_message_does_not_come_again_to_the_same_inbox(make: Make) -> None:
    broker = make(visibility=1.5)
    await broker.publish("jobs", envelopes(1))
    async with broker.consumer("jobs", prefetch=5) as consumer:
        got = await collect(consumer, 1, TRAITS)
        for _ in range(8):
            assert len(await consumer.receive(1, 0.3)) == 0
            await consumer.extend(got)
        await consumer.acknowledge(got)


async def test_leaving_right_after_a_cancelled_receive_loses_nothing(make: Make) -> None:
    broker, other = make(visibility=60), make(visibility=60)
    for number in range(5):
        async with broker.consumer("jobs", prefetch=5) as consumer:
            receiving = asyncio.create_task(consumer.receive(1, TRAITS.patience))
            await asyncio.wait({receiving}, timeout=0.05 * number)
            await other.publish("jobs", envelopes(1))
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
        async with other.consumer("jobs", prefetch=5) as consumer:
            await collect(consumer, 1, TRAITS, acknowledge=True)


async def test_many_callers_share_few_connections(make: Make, raw: Any) -> None:
    broker = make(name="crowd")
    await asyncio.gather(*(broker.publish("jobs", envelopes(1)) for _ in range(500)))
    named = [one for one in raw.client_list() if one["name"] == "crowd"]
    assert 0 < len(named) <= 8
    assert await broker.depth("jobs") == 500


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
