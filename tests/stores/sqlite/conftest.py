"""Stores on files of their own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onbeat.stores.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "onbeat.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(store: SqliteStore, path: str) -> AsyncIterator[SqliteStore]:
    """A second store on the same file, as another process would have it."""
    other = SqliteStore(path)
    await other.open()
    yield other
    await other.close()
