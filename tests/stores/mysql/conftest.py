"""Stores on databases of their own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from onbeat.stores.mysql.store import MysqlStore
from stores.mysql.server import database, empty


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with database() as url:
        yield url


@pytest.fixture
async def store(place: str) -> AsyncIterator[MysqlStore]:
    store = MysqlStore(place)
    await store.open()
    yield store
    await store.close()
    empty(place)


@pytest.fixture
async def other(store: MysqlStore, place: str) -> AsyncIterator[MysqlStore]:
    """A second store on the same database, as another process would have it."""
    other = MysqlStore(place)
    await other.open()
    yield other
    await other.close()
