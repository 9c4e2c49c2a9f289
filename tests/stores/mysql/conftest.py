"""Stores on databases of their own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from onbeat.stores.mysql.store import MysqlStore
from stores.mysql.server import database, empty


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with database() as url:
        yield url


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[MysqlStore]:
    store = MysqlStore(dsn)
    await store.open()
    yield store
    await store.close()
    empty(dsn)


@pytest.fixture
async def other(store: MysqlStore, dsn: str) -> AsyncIterator[MysqlStore]:
    """A second store on the same database, as another process would have it."""
    other = MysqlStore(dsn)
    await other.open()
    yield other
    await other.close()
