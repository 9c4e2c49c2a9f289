"""What earlier versions left behind goes on working."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from onbeat.model.errors import Misconfigured
from onbeat.model.event import OWN_TYPES
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.queue import Limits
from onbeat.stores.sqlite.migrate import FIRST_RELEASE_ID, migrations
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import a_request, a_settlement
from stores import own_event_types
from stores.sqlite import migrate_and_die
from stores.version_0_1 import (
    check_change_is_known,
    check_history_is_there,
    check_jobs_go_on,
    job_id,
)

SPEC = '{"target":{"kind":"task","task":"work"},"created_at":"2030-01-01T12:00:00Z"}'
DUE_AT = 1_893_499_200_000_000  # NOW, in microseconds
RELEASE = Path(__file__).with_name("fixtures") / "version_0_1.sql"


def rows(path: str, sql: str) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(path)) as db:
        return db.execute(sql).fetchall()


def run(path: str, *statements: str) -> None:
    with closing(apsw.Connection(path)) as db:
        for statement in statements:
            db.execute(statement)


def names(path: str) -> set[str]:
    return {name for (name,) in rows(path, "SELECT name FROM sqlite_schema WHERE sql IS NOT NULL")}


# The schema before the first release


@pytest.fixture
def first_version(path: str) -> str:
    """A file of the first schema, with a job that waits, one that runs and a paused queue."""
    run(
        path,
        re.sub(r"\bonbeat_", "", migrations()[0]),
        f"PRAGMA application_id = {FIRST_RELEASE_ID}",
        "PRAGMA user_version = 1",
        f"""
        INSERT INTO jobs (id, state, queue, priority, lane, due_at, overlap, token, worker,
                          attempt, started_at, spec)
        VALUES
          ('a', 'waiting', 'default', 0, 'work', {DUE_AT}, 'allow', 0, NULL, 0, NULL, '{SPEC}'),
          ('b', 'running', 'default', 0, 'work', {DUE_AT}, 'allow', 1, 'worker-1', 1,
           {DUE_AT}, '{SPEC}');
        INSERT INTO queues (name, paused) VALUES ('still', 1);
        """,
    )
    return path


async def test_jobs_of_the_first_version_go_on(first_version: str) -> None:
    store = SqliteStore(first_version)
    await store.open()
    (waited,) = (await store.claim(a_request())).jobs
    ran = await store.job(JobId("b"))
    assert waited == a_job(
        id="a", state=JobState.RUNNING, worker="worker-1", token=1, attempt=1, started_at=NOW
    )
    assert ran is not None
    assert list(await store.settle([a_settlement(waited), a_settlement(ran)])) == [True, True]
    assert [queue.name for queue in await store.queues(NOW)] == ["still"]
    await store.close()


async def test_a_retry_of_the_first_version_is_not_too_late(first_version: str) -> None:
    run(first_version, "UPDATE jobs SET token = 1, attempt = 1, start_by = due_at - 1")
    store = SqliteStore(first_version)
    await store.open()
    assert [job.id for job in (await store.claim(a_request())).jobs] == ["a"]
    await store.close()


async def test_a_file_of_the_first_version_can_do_what_is_new(first_version: str) -> None:
    store = SqliteStore(first_version)
    await store.open()
    await store.limit_queue("default", Limits(group_concurrency=1))
    await store.enqueue([job := a_job(group="green"), a_job(group="green")])
    assert [one.id for one in (await store.claim(a_request())).jobs] == [job.id, "a"]
    await store.close()


# Version 0.1, whose names had no prefix


@pytest.fixture
def release(path: str) -> str:
    run(path, RELEASE.read_text("utf-8"))
    return path


def kept(path: str, tables: Iterable[str], prefix: str = "") -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the tables, without columns that came later; a prefix is of today's names."""
    names = {table: columns(table) for table in tables}
    if prefix:
        names["waits"] = names["waits"].replace("any_end", "wanted")
    return {table: rows(path, f"SELECT {names[table]} FROM {prefix}{table}") for table in tables}


def columns(table: str) -> str:
    with closing(apsw.Connection(":memory:")) as db:
        db.execute(RELEASE.read_text("utf-8"))
        result: list[Any] = db.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return ", ".join(name for (name,) in result)


async def test_the_change_from_version_0_1_is_known(release: str) -> None:
    store = SqliteStore(release)
    assert not store.schema_changes
    await store.open()
    await check_change_is_known(store, len(migrations()))
    await store.close()


async def test_every_row_of_version_0_1_is_there(release: str) -> None:
    tables = {
        name for (name,) in rows(release, "SELECT name FROM sqlite_schema WHERE type='table'")
    }
    before = kept(release, tables)
    assert all(before.values()), "the file has a row in every table"
    await opened_and_closed(release)
    assert kept(release, tables, "onbeat_") == before


async def opened_and_closed(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def test_jobs_of_version_0_1_go_on(release: str) -> None:
    store = SqliteStore(release)
    await store.open()
    await check_jobs_go_on(store)
    await store.close()


async def test_what_version_0_1_knew_besides_is_there(release: str) -> None:
    store = SqliteStore(release)
    await store.open()
    await check_history_is_there(store)
    await store.close()


async def test_the_header_is_given_back_to_the_application(release: str) -> None:
    await opened_and_closed(release)
    assert rows(release, "PRAGMA application_id") == [(0,)]
    assert rows(release, "PRAGMA user_version") == [(0,)]
    assert all(name.startswith("onbeat_") for name in names(release))


async def test_what_the_application_keeps_beside_version_0_1_stays(release: str) -> None:
    run(
        release,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, job TEXT REFERENCES jobs (id))",
        f"INSERT INTO orders VALUES (7, '{job_id(5)}')",
        "CREATE INDEX orders_by_job ON orders (job)",
        "CREATE INDEX my_jobs ON jobs (started_at)",
    )
    await opened_and_closed(release)
    assert {"orders", "orders_by_job", "my_jobs"} <= names(release)
    assert rows(release, "PRAGMA foreign_key_check") == []
    joined = "SELECT orders.id FROM orders JOIN onbeat_jobs ON job = onbeat_jobs.id"
    assert rows(release, joined) == [(7,)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("DROP INDEX jobs_due", "`jobs_due` was removed by hand"),
        ("DROP TABLE turns", "`turns` was removed by hand"),
        ("ALTER TABLE jobs ADD COLUMN colour TEXT", "`onbeat_jobs` was altered by hand"),
        ("CREATE VIEW mine AS SELECT id FROM live_jobs", "cannot be renamed .*mine"),
        ("CREATE TABLE onbeat_jobs (id)", "has `onbeat_jobs` already"),
        ("PRAGMA user_version = 99", "has schema 99, and this program knows up to"),
    ],
)
async def test_a_file_that_cannot_be_taken_over_is_left_as_it_was(
    release: str, change: str, complaint: str
) -> None:
    run(release, change)
    before = names(release)
    with pytest.raises(Misconfigured, match=complaint):
        await SqliteStore(release).open()
    assert names(release) == before
    assert rows(release, "PRAGMA application_id") == [(FIRST_RELEASE_ID,)]


@pytest.mark.parametrize("when", ["100", "5000", "10000", "15000", "commit"])
async def test_a_migration_that_is_killed_leaves_the_old_whole(release: str, when: str) -> None:
    tables = {
        name for (name,) in rows(release, "SELECT name FROM sqlite_schema WHERE type='table'")
    }
    before, old = kept(release, tables), names(release)
    program = await asyncio.to_thread(
        subprocess.run, [sys.executable, migrate_and_die.__file__, release, when], check=False
    )
    assert program.returncode == -signal.SIGKILL
    assert names(release) == old
    await opened_and_closed(release)
    assert kept(release, tables, "onbeat_") == before


async def test_several_processes_may_open_a_file_of_version_0_1_at_once(release: str) -> None:
    stores = [SqliteStore(release) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [job.id for job in (await stores[3].claim(a_request())).jobs] == [job_id(9)]
    for store in stores:
        await store.close()


# Onbeat's own events


async def test_a_pattern_that_is_stored_gets_the_types_that_are_new(path: str) -> None:
    run(path, *migrations()[:10], "INSERT INTO onbeat_schema (id, version) VALUES (1, 10)")
    run(path, own_event_types.insert_of("onbeat_own_event_types", own_event_types.old_rows()))
    store = SqliteStore(path)
    await store.open()
    assert await store.wanted_types() == frozenset(OWN_TYPES)
    await store.close()
    stored = rows(path, "SELECT type, schedule_id FROM onbeat_own_event_types")
    assert set(stored) == own_event_types.new_rows()
