from collections.abc import AsyncIterator, Iterator

import pytest

from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract import BrokerContract, Traits
from onbeat.transports.sqs.broker import SqsBroker
from transports.sqs import server

VISIBILITY = 3
OPTIONS = {"visibility": VISIBILITY, "wait": 1}


class TestSqs(BrokerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def port(cls) -> Iterator[int]:
        with server.moto() as port:
            yield port

    @pytest.fixture
    async def link(self, port: int) -> AsyncIterator[server.SqsLink]:
        link = server.SqsLink(port)
        await link.reconnect()
        yield link
        await link.disconnect()

    @pytest.fixture
    async def broker(self, link: server.SqsLink) -> AsyncIterator[Broker]:
        broker = SqsBroker(server.url(link.port, **OPTIONS))
        await broker.open()
        yield broker
        await broker.close()

    @pytest.fixture
    def spare(self, link: server.SqsLink) -> Broker:
        return SqsBroker(server.url(link.port, **OPTIONS))

    @pytest.fixture
    async def other(self, port: int) -> AsyncIterator[Broker]:
        broker = SqsBroker(server.url(port, **OPTIONS))
        await broker.open()
        yield broker
        await broker.close()

    @pytest.fixture
    def traits(self) -> Traits:
        return Traits(too_large=262_145, visibility=VISIBILITY, timeout=10, patience=40)
