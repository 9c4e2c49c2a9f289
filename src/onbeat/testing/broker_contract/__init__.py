"""The contract of `onbeat.ports.transport.Broker`, as tests that every broker must pass.

Subclass `BrokerContract` and define fixtures for brokers on one server, a link to it that can be
cut, and the broker's traits::

    class TestMine(BrokerContract):
        @pytest_asyncio.fixture
        async def broker(self, link):
            broker = MyBroker(link.url)
            await broker.open()
            yield broker
            await broker.close()

        ...

Each test gets its own queue name; all queue names that it uses begin with it. Needs pytest and
pytest-asyncio. To see the values in failing assertions, call
`pytest.register_assert_rewrite("onbeat.testing.broker_contract")` before the import.
"""

import secrets

import pytest

from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract.acknowledgements import AcknowledgementContract
from onbeat.testing.broker_contract.broker_link import BrokerLink, Traits
from onbeat.testing.broker_contract.deliveries import DeliveryContract
from onbeat.testing.broker_contract.outages import OutageContract
from onbeat.testing.broker_contract.queues import BrokerQueueContract

__all__ = ["BrokerContract", "BrokerLink", "Traits"]


@pytest.mark.asyncio
class BrokerContract(
    DeliveryContract, AcknowledgementContract, BrokerQueueContract, OutageContract
):
    """The whole contract of a broker."""

    @pytest.fixture
    def link(self) -> BrokerLink:
        """The link to the server, connected when a test begins."""
        raise NotImplementedError("a subclass gives the line to the server")

    @pytest.fixture
    def broker(self) -> Broker:
        """An opened broker that reaches its server over `link`."""
        raise NotImplementedError("a subclass gives the broker to be tested")

    @pytest.fixture
    def spare(self) -> Broker:
        """Another such broker, not yet opened."""
        raise NotImplementedError("a subclass gives a broker that is not opened")

    @pytest.fixture
    def other(self) -> Broker:
        """An opened broker on the same server and queues, which need not use `link`."""
        raise NotImplementedError("a subclass gives a second broker on the same server")

    @pytest.fixture
    def traits(self) -> Traits:
        raise NotImplementedError("a subclass says how its broker differs")

    @pytest.fixture
    def queue(self) -> str:
        return f"contract-{secrets.token_hex(6)}"
