"""The contract of `onbeat.ports.transport.Broker`, as tests that every broker must pass.

Subclass `BrokerContract` and give it brokers on one server, a line to it that can be cut, and how
the broker differs::

    class TestMine(BrokerContract):
        @pytest_asyncio.fixture
        async def broker(self, line):
            broker = MyBroker(line.url)
            await broker.open()
            yield broker
            await broker.close()

        ...

Each test gets the name of a queue of its own; the names that it uses all begin with it. Needs
pytest and pytest-asyncio. To see the values in failing assertions, call
`pytest.register_assert_rewrite("onbeat.testing.broker_contract")` before the import.
"""

import secrets

import pytest

from onbeat.ports.transport import Broker
from onbeat.testing.broker_contract.acknowledgements import AcknowledgementContract
from onbeat.testing.broker_contract.deliveries import DeliveryContract
from onbeat.testing.broker_contract.line import Line, Traits
from onbeat.testing.broker_contract.outages import OutageContract
from onbeat.testing.broker_contract.queues import QueueContract

__all__ = ["BrokerContract", "Line", "Traits"]


@pytest.mark.asyncio
class BrokerContract(DeliveryContract, AcknowledgementContract, QueueContract, OutageContract):
    """All that a broker promises."""

    @pytest.fixture
    def line(self) -> Line:
        """The way to the server, whole when a test begins."""
        raise NotImplementedError("a subclass gives the line to the server")

    @pytest.fixture
    def broker(self) -> Broker:
        """An opened broker that reaches its server over `line`."""
        raise NotImplementedError("a subclass gives the broker to be tested")

    @pytest.fixture
    def spare(self) -> Broker:
        """Another like it, which is not opened yet."""
        raise NotImplementedError("a subclass gives a broker that is not opened")

    @pytest.fixture
    def other(self) -> Broker:
        """An opened broker on the same server and the same queues, which need not use `line`."""
        raise NotImplementedError("a subclass gives a second broker on the same server")

    @pytest.fixture
    def traits(self) -> Traits:
        raise NotImplementedError("a subclass says how its broker differs")

    @pytest.fixture
    def queue(self) -> str:
        return f"contract-{secrets.token_hex(6)}"
