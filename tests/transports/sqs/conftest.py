from collections.abc import AsyncIterator, Iterator
from typing import Any

import boto3
import pytest

from onbeat.transports.sqs.broker import SqsBroker
from transports.sqs import server
from transports.sqs.faulty_proxy import FaultyProxy


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    with server.moto() as port:
        yield port


@pytest.fixture
def sqs(port: int) -> Iterator[Any]:
    """What another program sees."""
    client = boto3.client(
        "sqs", region_name="eu-central-1", endpoint_url=f"http://127.0.0.1:{port}"
    )
    yield client
    client.close()


@pytest.fixture
async def broker(port: int) -> AsyncIterator[SqsBroker]:
    broker = SqsBroker(server.url(port, wait=1))
    await broker.open()
    yield broker
    await broker.close()


@pytest.fixture
async def grumbler(port: int) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(port) as grumbler:
        yield grumbler


@pytest.fixture
async def grumbled(grumbler: FaultyProxy) -> AsyncIterator[SqsBroker]:
    """A broker whose answers come by way of the grumbler."""
    broker = SqsBroker(server.url(grumbler.port, wait=1))
    await broker.open()
    yield broker
    await broker.close()
