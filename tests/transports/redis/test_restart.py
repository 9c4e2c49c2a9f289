"""A server of our own: killed, emptied, without memory, with a password, of a cluster."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from free_ports import free_port
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
from onbeat.transports.redis.broker import RedisBroker
from transports.redis.server import Private, client

TRAITS = Traits(too_large=0)


@pytest.fixture
def options() -> tuple[str, ...]:
    return ()


@pytest.fixture
def node(options: tuple[str, ...]) -> Iterator[Private]:
    node = Private(*options)
    node.start()
    yield node
    node.stop()


@pytest.fixture
async def broker(node: Private) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(f"{node.url}?timeout=2&visibility=1")
    yield broker
    await broker.close()


async def test_confirmed_messages_survive_the_death_of_the_server(
    node: Private, broker: RedisBroker
) -> None:
    sent = envelopes(500)
    async with broker.consumer("kept", prefetch=1_000) as consumer:
        await broker.publish("kept", sent)
        held = await collect(consumer, 200, TRAITS)
        await consumer.acknowledge(held[:50])
        node.kill()
        await wait_until_refused(consumer, TRAITS)
        with pytest.raises(Unavailable):
            await broker.publish("kept", envelopes(1))
        node.start()
        got = await receive_after_outage(consumer, 450, TRAITS)
        await consumer.acknowledge(got)
    assert bodies([*held[:50], *got]) == bodies(sent)
    await publish_until_confirmed(broker, "kept", [an_envelope(b"after")], TRAITS)


async def test_an_inbox_goes_on_after_the_server_forgot_everything(
    node: Private, broker: RedisBroker
) -> None:
    async with broker.consumer("jobs", prefetch=5) as consumer:
        await broker.publish("jobs", envelopes(2))
        held = await collect(consumer, 2, TRAITS)
        with client(node.url) as raw:
            raw.flushall()
        await broker.publish("jobs", [an_envelope(b"anew")])
        assert bodies(await collect(consumer, 1, TRAITS, acknowledge=True)) == [b"anew"]
        await consumer.extend(held)
        await consumer.acknowledge(held)
        await broker.publish("jobs", [an_envelope(b"next")])
        assert bodies(await collect(consumer, 1, TRAITS, acknowledge=True)) == [b"next"]


async def test_a_server_without_memory_refuses_and_then_goes_on(
    node: Private, broker: RedisBroker
) -> None:
    await broker.publish("full", envelopes(3))
    with client(node.url) as raw:
        raw.config_set("maxmemory", 1)
        with pytest.raises(Unavailable, match="maxmemory"):
            await broker.publish("full", envelopes(1))
        async with broker.consumer("other", prefetch=5) as consumer:
            # Commands that could take memory are refused, those that free some are not.
            with pytest.raises(Unavailable):
                await consumer.receive(1, 0.5)
        raw.config_set("maxmemory", 0)
    async with broker.consumer("full", prefetch=5) as consumer:
        await collect(consumer, 3, TRAITS, acknowledge=True)
    await broker.publish("full", envelopes(1))


async def test_a_server_that_still_loads_is_waited_for(node: Private, broker: RedisBroker) -> None:
    await broker.publish("jobs", envelopes(1))
    with client(node.url) as raw:
        raw.config_set("replica-serve-stale-data", "no")
        raw.replicaof("127.0.0.1", "1")
        with pytest.raises(Unavailable):
            await broker.publish("jobs", envelopes(1))
        raw.replicaof("NO", "ONE")
    await publish_until_confirmed(broker, "jobs", envelopes(1), TRAITS)


async def test_a_socket_of_this_machine_is_used(node: Private) -> None:
    broker = RedisBroker(f"redis+unix://{node.socket}?db=3")
    await broker.publish("jobs", envelopes(2))
    with client(f"unix://{node.socket}?db=3") as raw:
        assert raw.xlen("jobs") == 2
    await broker.close()


async def test_the_password_is_used_and_kept_secret(node: Private) -> None:
    with client(node.url) as raw:
        raw.config_set("requirepass", "p@ss/s3cret")
    right = RedisBroker(f"redis://:p%40ss%2Fs3cret@127.0.0.1:{node.port}/0?timeout=2")
    await right.ping()
    await right.close()
    assert right.url == f"redis://127.0.0.1:{node.port}/0?timeout=2"
    wrong = RedisBroker(f"redis://:s3cret@127.0.0.1:{node.port}/0?timeout=2")
    with pytest.raises(Unavailable, match="invalid") as failed:
        await wrong.ping()
    assert "s3cret" not in str(failed.value)
    await wrong.close()


@pytest.mark.parametrize(
    "options", [("--cluster-enabled", "yes", "--cluster-port", str(free_port()))]
)
async def test_a_node_of_a_cluster_is_refused_with_the_reason(broker: RedisBroker) -> None:
    with pytest.raises(Unavailable, match="clusters are not supported"):
        await broker.publish("jobs", envelopes(1))


async def test_attempts_are_bounded_while_commands_fail_on_good_connections(
    node: Private, broker: RedisBroker
) -> None:
    """As a server that loads its data does, this one takes connections and refuses all else."""
    with client(node.url) as raw:
        await broker.publish("jobs", envelopes(1))
        raw.config_set("replica-serve-stale-data", "no")
        raw.replicaof("127.0.0.1", "1")
        before = raw.info("stats")["total_connections_received"]
        count = 0
        async with broker.consumer("jobs", prefetch=5) as consumer:
            until = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < until:
                with pytest.raises(Unavailable):
                    await consumer.receive(1, 0.2)
                count += 1
            assert count < 50
            assert raw.info("stats")["total_connections_received"] - before < 50
            raw.replicaof("NO", "ONE")
            assert len(await receive_after_outage(consumer, 1, TRAITS)) == 1
