import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onbeat.ports.store import Store
from onbeat.stores.memory import MemoryStore
from onbeat.testing.store_contract import StoreContract


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


class TestPostgres(StoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls) -> Iterator[str]:
        from stores.postgres import server  # noqa: PLC0415  its driver is heavy

        with server.database(f"onbeat_contract_{os.getpid()}") as url:
            yield url

    @pytest.fixture
    async def store(self, database: str) -> AsyncIterator[Store]:
        from onbeat.stores.postgres.store import PostgresStore  # noqa: PLC0415  as above
        from stores.postgres import server  # noqa: PLC0415  as above

        await server.empty(database, "onbeat")
        store = PostgresStore(database)
        await store.open()
        yield store
        await store.close()


class TestMysql(StoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Iterator[str]:
        from stores.mysql.server import database  # noqa: PLC0415  its driver is heavy

        with database() as url:
            yield url

    @pytest.fixture
    async def store(self, place: str) -> AsyncIterator[Store]:
        from onbeat.stores.mysql.store import MysqlStore  # noqa: PLC0415
        from stores.mysql.server import empty  # noqa: PLC0415

        store = MysqlStore(place)
        await store.open()
        yield store
        await store.close()
        empty(place)
