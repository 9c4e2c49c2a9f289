from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("onbeat.testing.store_contract")

from onbeat.ports.store import Store  # noqa: E402  the rewrite comes before what it rewrites
from onbeat.stores.memory import MemoryStore  # noqa: E402
from onbeat.testing.store_contract import StoreContract  # noqa: E402


class TestMemory(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        await store.open()
        yield store
        await store.close()


class TestSqlite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        from onbeat.stores.sqlite.store import SqliteStore  # noqa: PLC0415  its driver is heavy

        store = SqliteStore(str(tmp_path / "onbeat.db"))
        await store.open()
        yield store
        await store.close()
