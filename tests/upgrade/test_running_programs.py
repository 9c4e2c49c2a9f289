"""A migration and the programs that use the store meanwhile."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from conditions import eventually
from onbeat.model.errors import Misconfigured
from onbeat.stores.mysql import migrate as mysql_migrate
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.postgres import migrate as postgres_migrate
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.sql.migrate import ALONE, NAMED_MAX
from onbeat.testing.build import a_worker
from stores.mysql import server as mysql
from stores.postgres import server as postgres

STORES = Path(__file__).parent.parent / "stores"
LEASE = timedelta(seconds=15)


@contextmanager
def postgres_of_release() -> Iterator[tuple[Any, Callable[..., Any], str]]:
    with postgres.database(f"onbeat_running_{os.getpid()}") as url:
        postgres.execute(url, (STORES / "postgres/fixtures/version_0_1.sql").read_text())
        yield (
            PostgresStore(url),
            partial(asyncio.to_thread, postgres.execute, url),
            "onbeat.workers",
        )


@contextmanager
def mysql_of_release() -> Iterator[tuple[Any, Callable[..., Any], str]]:
    with mysql.database() as url:
        text = (STORES / "mysql/fixtures/version_0_1.sql").read_text()
        if "MariaDB" not in mysql.execute(url, "SELECT VERSION()")[0][0]:
            text = text.replace("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
        mysql.execute(url, *filter(str.strip, text.split(";\n")))
        yield MysqlStore(url), partial(asyncio.to_thread, mysql.execute, url), "workers"


@pytest.fixture(params=[postgres_of_release, mysql_of_release])
def release(request):
    with request.param() as made:
        yield made


async def add_workers(
    sql: Callable[..., Any], table: str, beat_at: datetime, count: int = 1
) -> None:
    await sql(f"DELETE FROM {table}")
    for number in range(count):
        record = a_worker(host="old", pid=number, beat_at=beat_at, lease_seconds=15.0)
        text = msgspec.json.encode(record).decode()
        await sql(f"INSERT INTO {table} (id, record) VALUES ('w{number}', '{text}')")


async def test_programs_that_would_fail_are_named_and_keep_their_schema(release):
    store, sql, table = release
    await add_workers(sql, table, datetime.now(UTC), NAMED_MAX + 2)
    for _ in range(2):
        with pytest.raises(Misconfigured, match=r"used by 7 workers .*old:4 and 2 more\), which"):
            await store.open()
    await sql(
        "UPDATE onbeat.waits SET any_end = any_end" if "." in table else "SELECT any_end FROM waits"
    )
    await add_workers(sql, table, datetime.now(UTC))
    with pytest.raises(Misconfigured, match=r"used by a worker .*\(old:0\), which"):
        await store.open()
    await add_workers(sql, table, datetime.now(UTC) - LEASE)
    await store.open()
    await store.close()


async def test_a_clock_that_is_wrong_keeps_nobody_out(release):
    store, sql, table = release
    await add_workers(sql, table, datetime.now(UTC) + LEASE * 2)
    await store.open()
    await store.close()


@pytest.fixture
def url():
    with postgres.database(f"onbeat_deadlock_{os.getpid()}") as url:
        yield url


async def test_a_migration_that_meets_a_deadlock_is_tried_again(url, monkeypatch):
    """As programs of the version before do, which look at two tables in the other order."""
    store = PostgresStore(url)
    await store.open()
    await store.close()
    addition = "ALTER TABLE jobs ADD COLUMN a text; ALTER TABLE schedules ADD COLUMN b text"
    scripts = (*postgres_migrate.migrations(), addition)
    monkeypatch.setattr(postgres_migrate, "migrations", lambda: scripts)
    program = await asyncpg.connect(url, server_settings={"deadlock_timeout": "1min"})
    await program.execute("BEGIN; SELECT FROM onbeat.schedules")
    opening = asyncio.create_task(store.open())
    await eventually(lambda: is_altering(url), "the migration waits for the second table")
    await program.execute("SELECT FROM onbeat.jobs")  # the migration has been ended for it
    await program.execute("COMMIT")
    await opening
    await store.close()
    version = await program.fetchval("SELECT max(version) FROM onbeat.migrations")
    assert version == len(scripts)
    await program.close()


async def is_altering(url: str) -> bool:
    db = await asyncpg.connect(url)
    try:
        return bool(
            await db.fetchval(
                """
                SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
                AND relation = 'onbeat.schedules'::regclass
                """
            )
        )
    finally:
        await db.close()


RELEASED = 2  # migrations of 0.1.0
TAKES_AWAY = re.compile(
    r"\b(DROP (TABLE|COLUMN)|RENAME|CHANGE COLUMN|MODIFY|ALTER COLUMN)\b", re.IGNORECASE
)


@pytest.mark.parametrize("store", [postgres_migrate, mysql_migrate])
def test_a_migration_that_takes_away_or_renames_says_that_it_breaks_programs(store):
    later = store.migrations()[RELEASED:]
    breaking = [script for script in later if TAKES_AWAY.search(script)]
    assert breaking, "the one that renamed a column is seen"
    assert all(script.startswith(ALONE) for script in breaking)
