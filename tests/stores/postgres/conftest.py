"""Stores on a database of our own, emptied for each test."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from onbeat.stores.postgres.store import PostgresStore
from stores.postgres import server

SCHEMA = "onbeat"


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    with server.database(f"onbeat_store_{os.getpid()}") as url:
        yield url


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    await server.empty(database, SCHEMA)
    store = PostgresStore(database)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(store: PostgresStore, database: str) -> AsyncIterator[PostgresStore]:
    """A second store on the same schema, as another process would have it."""
    other = PostgresStore(database)
    await other.open()
    yield other
    await other.close()
