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
    async def line(self, port: int) -> AsyncIterator[server.Line]:
        line = server.Line(port)
        await line.mend()
        yield line
        await line.cut()

    @pytest.fixture
    async def broker(self, line: server.Line) -> AsyncIterator[Broker]:
        broker = SqsBroker(server.url(line.port, **OPTIONS))
        await broker.open()
        yield broker
        await broker.close()

    @pytest.fixture
    def spare(self, line: server.Line) -> Broker:
        return SqsBroker(server.url(line.port, **OPTIONS))

    @pytest.fixture
    async def other(self, port: int) -> AsyncIterator[Broker]:
        broker = SqsBroker(server.url(port, **OPTIONS))
        await broker.open()
        yield broker
        await broker.close()

    @pytest.fixture
    def traits(self) -> Traits:
        return Traits(too_large=262_145, visibility=VISIBILITY, timeout=10, patience=40)
