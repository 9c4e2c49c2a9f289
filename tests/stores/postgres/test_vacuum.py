"""Vacuums that the store makes by itself: what they remove, for whom, and beside what."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from onbeat.rules import dead_rows
from onbeat.rules.dead_rows import LOOK_SECONDS
from onbeat.stores.postgres import doctor, vacuum
from onbeat.stores.postgres.connection import Dsn, connect
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.postgres.vacuum import row_counts
from onbeat.testing.build import a_job
from onbeat.testing.store_contract.steps import a_settlement, claim_jobs

VACUUMS = """
    SELECT vacuum_count FROM pg_stat_all_tables WHERE relid = 'onbeat.jobs'::regclass
"""


@pytest.fixture
async def db(database: str, store: PostgresStore) -> AsyncIterator[Any]:
    """Beside a store whose table nobody else vacuums."""
    db = await asyncpg.connect(database)
    await db.execute("ALTER TABLE onbeat.jobs SET (autovacuum_enabled = false)")
    await db.execute("VACUUM onbeat.jobs")
    yield db
    await db.execute("ALTER TABLE onbeat.jobs RESET (autovacuum_enabled)")
    await db.close()


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_rows, "DEAD_MIN", 200)


async def leave_dead_rows(store: PostgresStore, db: Any) -> None:
    """The server's statistics show what a session did a moment later."""
    await store.enqueue([a_job() for _ in range(200)])
    while jobs := await claim_jobs(store, limit=100):
        assert all(await store.settle([a_settlement(job) for job in jobs]))
    async with asyncio.timeout(30):
        while (await store._read(row_counts)).dead < 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def vacuums(db: Any) -> int:
    count: int = await db.fetchval(VACUUMS)
    return count


async def test_enough_dead_rows_are_removed(store: PostgresStore, db: Any) -> None:
    await leave_dead_rows(store, db)
    assert await store.vacuum() == LOOK_SECONDS
    assert (await store._read(row_counts)).dead == 0
    assert (await claim_jobs(store)) == ()


async def test_few_dead_rows_stay(
    store: PostgresStore, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_rows, "DEAD_MIN", 1_000)
    before = await vacuums(db)
    await leave_dead_rows(store, db)
    assert await store.vacuum() == LOOK_SECONDS
    assert await vacuums(db) == before


async def test_a_vacuum_is_no_sign_of_life_of_its_process(
    store: PostgresStore, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    async def connect_and_look(dsn: Dsn, role: str = "") -> Any:
        made: Any = await connect(dsn, role)
        names.append(await made.fetchval("SHOW application_name"))
        return made

    monkeypatch.setattr(vacuum, "connect", connect_and_look)
    await leave_dead_rows(store, db)
    await store.vacuum()
    assert names == ["onbeat vacuum"]


@asynccontextmanager
async def rolled_back(db: Any) -> AsyncIterator[None]:
    transaction = db.transaction()
    await transaction.start()
    yield
    await transaction.rollback()


@asynccontextmanager
async def table_locked(database: str, mode: str) -> AsyncIterator[None]:
    holder = await asyncpg.connect(database)
    async with holder.transaction():
        await holder.execute(f"LOCK TABLE onbeat.jobs IN {mode} MODE")
        yield
    await holder.close()


async def test_a_vacuum_waits_for_no_other_one(
    store: PostgresStore, db: Any, database: str
) -> None:
    await leave_dead_rows(store, db)
    before = await vacuums(db)
    async with table_locked(database, "SHARE UPDATE EXCLUSIVE"), asyncio.timeout(10):
        assert await store.vacuum() == LOOK_SECONDS
    assert await vacuums(db) == before


async def test_a_user_who_does_not_own_the_table_may_not(
    store: PostgresStore, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "DEAD_MAX", 100)
    await leave_dead_rows(store, db)
    role = f"onbeat_reader_{os.getpid()}"  # roles belong to the whole server
    transaction = Transaction(db)
    async with rolled_back(db):
        await db.execute(f"CREATE ROLE {role}")
        await db.execute(f"GRANT USAGE ON SCHEMA onbeat TO {role}")
        await db.execute(f"SET LOCAL ROLE {role}")
        await db.execute("SET LOCAL search_path TO onbeat")
        counts = await row_counts(transaction)
        finding = await doctor.dead_rows(transaction)
    assert counts.dead >= 200
    assert not counts.may_vacuum
    assert not finding.ok
    assert "autovacuum_naptime" in (finding.remedy or "")
