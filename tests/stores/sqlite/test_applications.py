"""The store in the file of an application, which has tables of its own."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from onbeat.model.errors import Misconfigured
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import a_request, a_settlement

# Names that version 0.1 of ours had, a header that says something, a view, a trigger and an index.
SHOP = """
    CREATE TABLE jobs (title TEXT);
    CREATE TABLE queues (length INTEGER);
    CREATE TABLE finished (at TEXT);
    CREATE INDEX jobs_due ON jobs (title);
    CREATE VIEW live_jobs AS SELECT title FROM jobs;
    CREATE VIEW broken AS SELECT title FROM nowhere;
    CREATE TRIGGER count_jobs AFTER INSERT ON jobs BEGIN UPDATE queues SET length = length + 1; END;
    INSERT INTO queues VALUES (0);
    INSERT INTO jobs VALUES ('baker');
"""


@pytest.fixture(params=[(0, 0), (17, 0), (0, 99), (42, 1), (0x0F05_5112, 3)])
def shop(request: pytest.FixtureRequest, path: str) -> Iterator[str]:
    """An application's file; its header is used in each way in which it may be."""
    application_id, user_version = request.param
    with closing(apsw.Connection(path)) as db:
        db.execute(SHOP)
        db.execute(f"PRAGMA application_id = {application_id}")
        db.execute(f"PRAGMA user_version = {user_version}")
    before = theirs(path)
    yield path
    assert theirs(path) == before


def theirs(path: str) -> Any:
    """All that the application has in the file."""
    with closing(apsw.Connection(path)) as db:
        schema = "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE '%onbeat\\_%' ESCAPE '\\'"
        statements = (
            f"{schema} ORDER BY name",
            "SELECT * FROM jobs",
            "SELECT * FROM live_jobs",
            "SELECT * FROM queues",
            "PRAGMA application_id",
            "PRAGMA user_version",
        )
        return [db.execute(statement).fetchall() for statement in statements]


async def test_a_store_stands_beside_the_tables_of_an_application(shop: str) -> None:
    store = SqliteStore(shop)
    await store.open()
    await store.enqueue([job := a_job()])
    (claimed,) = (await store.claim(a_request())).jobs
    assert list(await store.settle([a_settlement(claimed)])) == [True]
    await store.close()
    again = SqliteStore(shop)
    await again.open()
    ended = await again.job(job.id)
    assert ended is not None
    assert ended.finished_at == NOW
    await again.close()


async def test_all_that_is_ours_has_our_prefix(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with closing(apsw.Connection(path)) as db:
        result = db.execute("SELECT name, tbl_name, sql FROM sqlite_schema").fetchall()
        assert db.execute("PRAGMA user_version").fetchall() == [(0,)]
        assert db.execute("PRAGMA application_id").fetchall() == [(0,)]
    assert result
    assert [name for name, _, sql in result if sql and not name.startswith("onbeat_")] == []
    assert [table for _, table, _ in result if not table.startswith("onbeat_")] == []


async def test_several_stores_may_come_to_an_application_at_once(shop: str) -> None:
    stores = [SqliteStore(shop) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].enqueue([job := a_job()])
    assert await stores[3].job(job.id) == job
    for store in stores:
        await store.close()


async def test_an_application_goes_on_reading_and_writing(path: str) -> None:
    """With the connection that it had from before, whose journal mode was another."""
    with closing(apsw.Connection(path)) as db:
        db.execute(SHOP)
        assert db.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
        store = SqliteStore(path)
        await store.open()
        await store.enqueue([a_job()])
        db.execute("INSERT INTO jobs VALUES ('smith')")
        assert db.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
        await store.enqueue([a_job()])
        await store.close()
        assert db.execute("SELECT length FROM queues").fetchall() == [(2,)]
        assert db.execute("SELECT count(*) FROM onbeat_jobs").fetchall() == [(2,)]


def test_the_rights_of_an_applications_file_stay(path: str) -> None:
    with closing(apsw.Connection(path)) as db:
        db.execute(SHOP)
    Path(path).chmod(0o664)
    asyncio.run(opened_and_closed(path))
    assert Path(path).stat().st_mode & 0o777 == 0o664


async def opened_and_closed(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()


@pytest.mark.parametrize(
    "name", ["onbeat_jobs", "Onbeat_Jobs", "onbeat_jobs_due", "onbeat_live_jobs"]
)
async def test_a_name_of_ours_that_is_taken_is_named(path: str, name: str) -> None:
    with closing(apsw.Connection(path)) as db:
        db.execute(f"CREATE TABLE {name} (title TEXT)")
    with pytest.raises(Misconfigured, match=f"has `{name}` already, and not from this program"):
        await SqliteStore(path).open()


async def test_a_version_that_was_lost_is_named(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with closing(apsw.Connection(path)) as db:
        db.execute("DELETE FROM onbeat_schema")
    with pytest.raises(Misconfigured, match="`onbeat_schema` was emptied by hand"):
        await SqliteStore(path).open()
