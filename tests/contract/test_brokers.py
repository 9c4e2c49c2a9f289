from collections.abc import AsyncIterator

import pytest

from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract import BrokerContract, Traits
from transports.proxy import Proxy
from transports.rabbitmq import brokers as rabbitmq
from transports.redis import brokers as redis


class TestRabbitmq(BrokerContract):
    @pytest.fixture
    async def link(self) -> AsyncIterator[Proxy]:
        async with rabbitmq.line() as link:
            yield link

    @pytest.fixture
    async def make(self) -> AsyncIterator[rabbitmq.Make]:
        async with rabbitmq.brokers() as make:
            yield make

    @pytest.fixture
    async def broker(self, make: rabbitmq.Make, link: Proxy) -> Broker:
        return await opened(make(link))

    @pytest.fixture
    def spare(self, make: rabbitmq.Make, link: Proxy) -> Broker:
        return make(link)

    @pytest.fixture
    async def other(self, make: rabbitmq.Make) -> Broker:
        return await opened(make())

    @pytest.fixture
    def traits(self) -> Traits:
        return Traits(too_large=(16 << 20) + 1, timeout=rabbitmq.TIMEOUT, visibility_ends=False)


class TestRabbitmqQuorum(TestRabbitmq):
    """With queues that the nodes of a cluster keep together."""

    @pytest.fixture
    async def broker(self, make: rabbitmq.Make, link: Proxy) -> Broker:
        return await opened(make(link, quorum="true"))

    @pytest.fixture
    def spare(self, make: rabbitmq.Make, link: Proxy) -> Broker:
        return make(link, quorum="true")

    @pytest.fixture
    async def other(self, make: rabbitmq.Make) -> Broker:
        return await opened(make(quorum="true"))


class TestRedis(BrokerContract):
    @pytest.fixture
    async def link(self) -> AsyncIterator[Proxy]:
        async with redis.line() as link:
            yield link

    @pytest.fixture
    async def make(self) -> AsyncIterator[redis.Make]:
        async with redis.brokers() as make:
            yield make

    @pytest.fixture
    async def broker(self, make: redis.Make, link: Proxy) -> Broker:
        return await opened(make(link))

    @pytest.fixture
    def spare(self, make: redis.Make, link: Proxy) -> Broker:
        return make(link)

    @pytest.fixture
    async def other(self, make: redis.Make) -> Broker:
        return await opened(make())

    @pytest.fixture
    def traits(self) -> Traits:
        return Traits(too_large=(16 << 20) + 1, timeout=redis.TIMEOUT, visibility=redis.VISIBILITY)


async def opened(broker: Broker) -> Broker:
    await broker.open()
    return broker
