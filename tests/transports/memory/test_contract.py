import secrets
from collections.abc import AsyncIterator

import pytest

from onbeat.app.brokers import open_broker
from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract import BrokerContract, Traits
from onbeat.testing.memory_broker_outage import MemoryBrokerLink


class TestMemory(BrokerContract):
    @pytest.fixture
    def url(self) -> str:
        return f"memory://contract-{secrets.token_hex(4)}"

    @pytest.fixture
    def link(self, url: str) -> MemoryBrokerLink:
        return MemoryBrokerLink(url)

    @pytest.fixture
    async def broker(self, url: str) -> AsyncIterator[Broker]:
        broker = open_broker(url)
        await broker.open()
        yield broker
        await broker.close()

    @pytest.fixture
    def spare(self, url: str) -> Broker:
        return open_broker(url)

    @pytest.fixture
    async def other(self, url: str) -> AsyncIterator[Broker]:
        broker = open_broker(url)
        await broker.open()
        yield broker
        await broker.close()

    @pytest.fixture
    def traits(self) -> Traits:
        return Traits(too_large=(16 << 20) + 1, visibility_ends=False)
