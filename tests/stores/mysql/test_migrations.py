"""A database that an older program has written is brought up to date, with all that is in it."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from onbeat.model.event import OWN_TYPES
from onbeat.model.outcome import Lost
from onbeat.model.page import OccurrenceFilter
from onbeat.model.queue import Queue
from onbeat.stores.mysql import migrate
from onbeat.stores.mysql.connection import MysqlDriver, parse_dsn
from onbeat.stores.mysql.rows import job_row
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.pool import Pool
from onbeat.testing.build import NOW, a_job, a_schedule
from onbeat.testing.store_contract.steps import claim_jobs, end, ids_of, limit, stored_job
from stores import own_event_types
from stores.mysql.server import database, execute
from stores.version_0_1 import check_change_is_known, check_history_is_there, check_jobs_go_on

RELEASE = Path(__file__).with_name("fixtures") / "version_0_1.sql"
INSERT_OF_FIRST = """
    INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id,
                      occurrence, overlap, spec)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


async def insert(url: str, sql: str, rows: Sequence[Row]) -> None:
    pool = Pool(MysqlDriver(parse_dsn(url)), 1)
    async with pool.borrow() as db:
        await Transaction(db).insert(sql, rows)
    await pool.close()


async def test_jobs_of_the_first_version_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [a_job(), a_job(priority=-1), a_job(queue="slow")]
    with database() as url:
        first = migrate.migrations()[:1]
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "migrations", lambda: first)
            store = MysqlStore(url)
            await store.open()
            await store.close()
        rows = [job_row(job) for job in jobs]
        await insert(url, INSERT_OF_FIRST, [(*row[:10], *row[12:]) for row in rows])
        execute(
            url,
            f"""
            UPDATE jobs SET running = 1, token = 1, attempt = 1, worker = 'worker', started_at = 0
            WHERE id = '{jobs[2].id}'
            """,
            # Started in time, it failed and waits to be tried again.
            f"UPDATE jobs SET token = 1, start_by = due_at - 1 WHERE id = '{jobs[1].id}'",
            "INSERT INTO queues (name, paused) VALUES ('slow', 0), ('idle', 1)",
        )
        store = MysqlStore(url)
        await store.open()
        assert list(await store.queues(NOW)) == [
            Queue(name="default", waiting=2, due=2, oldest_due_at=NOW),
            Queue(name="idle", paused=True),
            Queue(name="slow", running=1),
        ]
        await limit(store, concurrency=1)
        later = a_job(queue="slow", group="a")
        await store.enqueue([later])
        taken = await claim_jobs(store)
        assert ids_of(taken) == [jobs[1].id, jobs[0].id]
        assert [await stored_job(store, job) for job in taken] == list(taken)
        lost = {job.id: job for job in await store.abandoned_jobs([], NOW, 10)}
        assert lost.keys() == set(ids_of(jobs))
        await end(store, lost[jobs[2].id], Lost("gone"))
        assert ids_of(await claim_jobs(store, limit=1)) == [jobs[2].id]
        await store.close()


async def test_a_migration_that_was_ended_half_way_goes_on() -> None:
    with database() as url:
        store = MysqlStore(url)
        await store.open()
        await store.close()
        execute(
            url,
            "ALTER TABLE finished DROP KEY finished_by_occurrence",
            "DELETE FROM onbeat_schema WHERE version >= 20",
        )
        store = MysqlStore(url)
        await store.open()
        page = await store.occurrence_jobs(
            OccurrenceFilter(schedule_id=a_schedule().id, ended=True)
        )
        assert page.items == ()
        await store.close()


@pytest.fixture
async def release() -> AsyncIterator[MysqlStore]:
    """A database of version 0.1.0, as this version opens it."""
    with database() as url:
        text = RELEASE.read_text("utf-8")
        if "MariaDB" not in execute(url, "SELECT VERSION()")[0][0]:
            text = text.replace("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
        execute(url, *filter(str.strip, text.split(";\n")))
        store = MysqlStore(url)
        await store.open()
        yield store
        await store.close()


async def test_the_change_from_version_0_1_is_known(release: MysqlStore) -> None:
    await check_change_is_known(release, len(migrate.migrations()))


async def test_jobs_of_version_0_1_go_on(release: MysqlStore) -> None:
    await check_jobs_go_on(release)


async def test_what_version_0_1_knew_besides_is_there(release: MysqlStore) -> None:
    await check_history_is_there(release)


async def test_a_pattern_that_is_stored_gets_the_types_that_are_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with database() as url:
        earlier = migrate.migrations()[:9]
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "migrations", lambda: earlier)
            store = MysqlStore(url)
            await store.open()
            await store.close()
        execute(url, own_event_types.insert_of("own_event_types", own_event_types.old_rows()))
        store = MysqlStore(url)
        await store.open()
        assert await store.wanted_types() == frozenset(OWN_TYPES)
        await store.close()
        stored = execute(url, "SELECT type, schedule_id FROM own_event_types")
        assert set(stored) == own_event_types.new_rows()
