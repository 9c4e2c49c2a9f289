from collections.abc import AsyncIterator, Iterator

import pytest

from onbeat.transports.kafka.broker import KafkaBroker
from transports.kafka.mock import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One for each test, as errors that are not asked for wait for the next."""
    cluster = Cluster()
    yield cluster
    cluster.end()


@pytest.fixture
async def broker(cluster: Cluster) -> AsyncIterator[KafkaBroker]:
    broker = KafkaBroker(cluster.url())
    await broker.open()
    yield broker
    await broker.close()
