"""Events that are published in a transaction of the caller's exist if and only if it commits."""

import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from app.connections import PLAIN
from onbeat import Invalid
from onbeat.app.transaction.connections import (
    SqlAlchemyAsync,
    SyncAsAsync,
    SyncConnection,
    adapt,
    run_synchronously,
)
from onbeat.ports.events import EventFilter
from onbeat.stores.postgres import caller_transaction as in_postgres
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.sqlite import caller_transaction as in_sqlite
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW
from onbeat.testing.store_contract.events import an_event
from stores.postgres import server

SCHEMA = "queue"
ON_SQLITE = [name for name, (kind, _) in PLAIN.items() if kind == "sqlite"]
ON_POSTGRESQL = [name for name, (kind, _) in PLAIN.items() if kind == "postgresql"]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with server.database(f"onbeat_publishing_{os.getpid()}") as url:
        yield url


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("name", ON_SQLITE)
async def test_events_are_published_with_a_commit_on_sqlite(name, commits, tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "onbeat.db"))
    await store.open()
    await store.close()
    first, second = an_event(), an_event()
    with PLAIN[name][1](str(tmp_path / "onbeat.db")) as (db, commit, rollback):
        line = adapt(db)
        assert isinstance(line, SyncConnection)
        assert list(in_sqlite.publish(line, store.url, [first, second], NOW)) == [True, True]
        again = in_sqlite.publish(line, store.url, [an_event(), second], NOW)
        assert list(again) == [True, False]
        assert list(in_sqlite.publish(line, store.url, [], NOW)) == []
        commit() if commits else rollback()
    await store.open()
    assert len(await store.events(EventFilter(limit=9))) == (3 if commits else 0)
    await store.close()


async def test_another_file_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "onbeat.db"))
    await store.open()
    await store.close()
    with PLAIN["apsw"][1](str(tmp_path / "other.db")) as (db, _, _):
        line = adapt(db)
        assert isinstance(line, SyncConnection)
        with pytest.raises(Invalid, match="one transaction needs one file"):
            in_sqlite.publish(line, store.url, [an_event()], NOW)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("name", ON_POSTGRESQL)
async def test_events_are_published_with_a_commit_on_postgresql(
    name, commits, database: str
) -> None:
    await server.empty(database, SCHEMA)
    store = PostgresStore(server.with_schema(database, SCHEMA))
    await store.open()
    first, second = an_event(), an_event()
    with PLAIN[name][1](database) as (db, commit, rollback):
        line = adapt(db)
        assert isinstance(line, SyncConnection)
        published = [
            list(run_synchronously(in_postgres.publish(SyncAsAsync(line), store.url, some, NOW)))
            for some in ([first, second], [an_event(), second], [])
        ]
        assert published == [[True, True], [True, False], []]
        commit() if commits else rollback()
    assert len(await store.events(EventFilter(limit=9))) == (3 if commits else 0)
    await store.close()


async def test_events_are_published_on_an_asynchronous_connection(database: str) -> None:
    await server.empty(database, SCHEMA)
    store = PostgresStore(server.with_schema(database, SCHEMA))
    await store.open()
    db = await asyncpg.connect(database)
    try:
        async with db.transaction():
            line = adapt(db)
            assert not isinstance(line, SyncConnection | SqlAlchemyAsync)
            assert list(await in_postgres.publish(line, store.url, [an_event()], NOW)) == [True]
            assert list(await store.events(EventFilter(limit=9))) == []
    finally:
        await db.close()
    assert len(await store.events(EventFilter(limit=9))) == 1
    await store.close()
