from collections.abc import Iterator

import pytest
from hypothesis import settings

from braintree_server import BraintreeServer, braintree
from stripe_server import StripeServer, stripe
from world import World, mariadb

# The same examples at each run, so that a run that was green is green again.
settings.register_profile("quick", max_examples=100, derandomize=True, deadline=None)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a schema of our own, with the tables."""
    with mariadb() as url:
        yield url


@pytest.fixture
def world(server: str) -> World:
    """A provider without rows."""
    result = World(server)
    result.empty()
    return result


@pytest.fixture(scope="session")
def stripe_process() -> Iterator[StripeServer]:
    with stripe() as server:
        yield server


@pytest.fixture
def stripe_server(stripe_process: StripeServer) -> StripeServer:
    """Without charges."""
    stripe_process.reset()
    return stripe_process


@pytest.fixture(scope="session")
def braintree_process() -> Iterator[BraintreeServer]:
    with braintree() as server:
        yield server


@pytest.fixture
def braintree_server(braintree_process: BraintreeServer) -> BraintreeServer:
    """Without sales."""
    braintree_process.reset()
    return braintree_process


@pytest.fixture(scope="session")
def jobs() -> Iterator[str]:
    """The URL of a schema for jobs."""
    with mariadb() as url:
        yield url
