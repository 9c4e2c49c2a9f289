import asyncio
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from onbeat.app.brokers import open_broker
from onbeat.model.errors import Misconfigured, TooLarge, Unavailable
from onbeat.ports.transport import Envelope
from onbeat.testing.broker_contract.broker_link import SLICE, Traits
from onbeat.testing.broker_contract.steps import an_envelope, bodies, collect, drain, envelopes
from onbeat.testing.memory_broker_outage import MemoryBrokerLink
from onbeat.transports.memory_broker import MemoryBroker
from onbeat.transports.memory_server import BYTES_MAX

TRAITS = Traits(too_large=0)
LARGE = bytes(16 << 20)


@pytest.fixture
def url() -> str:
    return f"memory://test-{secrets.token_hex(4)}"


@pytest.fixture
def broker(url: str) -> MemoryBroker:
    return MemoryBroker(url)


@pytest.mark.parametrize(
    "url",
    ["memory://", "memory://a/b", "memory://a?timeout=1", "memory://u:s3cret@a", "memory:a"],
)
def test_a_url_that_cannot_be_right_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="memory://NAME") as refused:
        open_broker(url)
    assert "s3cret" not in str(refused.value)
    assert refused.value.key == "transport"


async def test_what_one_name_holds_another_does_not(url: str, broker: MemoryBroker) -> None:
    await broker.publish("jobs", envelopes(1))
    assert await MemoryBroker(f"{url}-b").depth("jobs") == 0
    assert await MemoryBroker(url).depth("jobs") == 1


async def test_messages_come_in_order_and_again_in_order(broker: MemoryBroker) -> None:
    sent = envelopes(5)
    await broker.publish("jobs", sent)
    for _ in range(2):
        async with broker.consumer("jobs", prefetch=3) as consumer:
            got = await consumer.receive(5, 0)
        assert [one.body for one in got] == [one.body for one in sent[:3]]


async def test_a_server_that_is_full_takes_nothing_until_there_is_room(
    broker: MemoryBroker,
) -> None:
    fit = BYTES_MAX // len(LARGE) - 1  # what surrounds a body takes room, too
    await broker.publish("jobs", [an_envelope(LARGE)] * fit)
    with pytest.raises(Unavailable, match="is full"):
        await broker.publish("others", [an_envelope(LARGE)])
    await broker.ping()
    async with broker.consumer("jobs", prefetch=1) as consumer:
        held = await consumer.receive(1, 0)
        with pytest.raises(Unavailable, match="is full"):
            await broker.publish("others", [an_envelope(LARGE)])
        await consumer.acknowledge(held)
        await consumer.acknowledge(held)
        await broker.publish("others", [an_envelope(LARGE)])
        with pytest.raises(Unavailable, match="is full"):
            await broker.publish("others", [an_envelope(LARGE)])
    await broker.purge("jobs")
    await broker.publish("others", [an_envelope(LARGE)] * (fit - 1))


async def test_headers_and_many_small_messages_are_bounded_too(broker: MemoryBroker) -> None:
    wide = [Envelope(id="1", body=b"", headers={"n": "x" * 90_000})]
    with pytest.raises(Unavailable, match="is full"):
        await broker.publish("jobs", wide * (BYTES_MAX // 90_000 + 1))
    await broker.purge("jobs")
    with pytest.raises(Unavailable, match="is full"):
        await broker.publish("jobs", [an_envelope(b"")] * (BYTES_MAX // 1_000))
    await broker.purge("jobs")


async def test_headers_that_are_too_large_are_refused(broker: MemoryBroker) -> None:
    with pytest.raises(TooLarge) as refused:
        await broker.publish("jobs", [Envelope(id="1", body=b"", headers={"n": "ß" * 50_001})])
    assert refused.value.field == "headers"


async def test_a_message_is_what_it_was_when_it_was_published(broker: MemoryBroker) -> None:
    headers = {"shop": "north"}
    await broker.publish("jobs", [Envelope(id="1", body=b"", headers=headers)])
    headers["shop"] = "south"
    async with broker.consumer("jobs", prefetch=1) as consumer:
        (got,) = await consumer.receive(1, 0)
        got.headers["shop"] = "west"
    (again,) = await drain(broker, "jobs", 1, TRAITS)
    assert again.headers == {"shop": "north"}


async def test_a_closed_broker_is_away_until_it_is_opened_again(broker: MemoryBroker) -> None:
    async with broker.consumer("jobs", prefetch=5) as consumer:
        await broker.publish("jobs", envelopes(1))
        got = await consumer.receive(1, 0)
        await broker.close()
        with pytest.raises(Unavailable, match="closed here"):
            await broker.ping()
        with pytest.raises(Unavailable, match="closed here"):
            await consumer.receive(1, 0)
        await consumer.acknowledge(got)
        await broker.open()
        assert bodies(await collect(consumer, 1, TRAITS, acknowledge=True)) == bodies(got)


async def test_who_waits_while_the_broker_is_away_is_served_when_it_is_back(
    url: str, broker: MemoryBroker
) -> None:
    link = MemoryBrokerLink(url)
    await broker.publish("jobs", envelopes(1))
    await link.disconnect()
    async with broker.consumer("jobs", prefetch=5) as consumer:
        receiving = asyncio.create_task(consumer.receive(1, TRAITS.patience))
        await asyncio.wait({receiving}, timeout=0)
        await link.reconnect()
        assert len(await receiving) == 1


def test_threads_share_a_queue_without_doubling(url: str) -> None:
    sent = envelopes(2_000)
    got: list[bytes] = []

    async def publish(part: Sequence[Envelope]) -> None:
        for start in range(0, len(part), 10):
            await MemoryBroker(url).publish("jobs", part[start : start + 10])

    async def take() -> None:
        async with MemoryBroker(url).consumer("jobs", prefetch=20) as consumer:
            while len(got) < len(sent):
                some = await consumer.receive(7, SLICE)
                await consumer.acknowledge(some)
                got.extend(bodies(some))

    with ThreadPoolExecutor(4) as pool:
        work = [take(), take(), publish(sent[:1_000]), publish(sent[1_000:])]
        for one in [pool.submit(asyncio.run, each) for each in work]:
            one.result(30)
    assert sorted(got) == bodies(sent)


def test_a_message_of_another_thread_wakes_who_waits(url: str) -> None:
    waits = threading.Event()

    async def take() -> list[bytes]:
        async with MemoryBroker(url).consumer("jobs", prefetch=1) as consumer:
            asyncio.get_running_loop().call_soon(waits.set)
            return bodies(await consumer.receive(1, 60))

    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(asyncio.run, take())
        assert waits.wait(10)
        asyncio.run(MemoryBroker(url).publish("jobs", [an_envelope(b"hello")]))
        assert taken.result(60) == [b"hello"]


async def test_queues_that_are_empty_leave_nothing_behind(broker: MemoryBroker) -> None:
    for number in range(10):
        await broker.publish(f"replies-{number}", envelopes(1))
        await drain(broker, f"replies-{number}", 1, TRAITS)
        await broker.depth(f"others-{number}")
        await broker.purge(f"others-{number}")
    assert not broker.server._waiting
    assert not broker.server._consumers
    assert broker.server._bytes == 0
