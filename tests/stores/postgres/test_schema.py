"""How a schema comes to be, what it costs to read it, and how its days come and go."""

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from free_ports import free_port
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.event import OWN_TYPES
from onbeat.model.job import Job
from onbeat.model.outcome import Released
from onbeat.ports.store import SentJobs
from onbeat.stores.postgres import leases, settle
from onbeat.stores.postgres.claim import STATEMENTS
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.enqueue import enqueue_from, new_job
from onbeat.stores.postgres.migrate import migrations
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sql.verbs.enqueue import prepare_batch
from onbeat.testing.build import DAY, HOUR, NOW, a_job
from onbeat.testing.store_contract.job_logs import a_line
from onbeat.testing.store_contract.steps import (
    FAILURE,
    WORKER,
    claim_jobs,
    end,
    run_and_end,
    run_job,
    stored_job,
)
from stores import own_event_types
from stores.postgres import server
from stores.version_0_1 import check_change_is_known, check_history_is_there, check_jobs_go_on

RELEASE = Path(__file__).with_name("fixtures") / "version_0_1.sql"


async def ask(database: str, sql: str, *values: object) -> Any:
    db = await asyncpg.connect(database)
    try:
        return await db.fetchval(sql, *values)
    finally:
        await db.close()


OPENER = """
import asyncio, sys
from onbeat.stores.postgres.store import PostgresStore

async def main():
    store = PostgresStore(sys.argv[1])
    await store.open()
    await store.ping()
    await store.close()

asyncio.run(main())
"""


async def test_many_processes_may_open_a_new_schema_at_once(database: str) -> None:
    url = server.with_schema(database, "many")
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPENER, url, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [
        (process.returncode, output[1]) for process, output in zip(processes, outputs, strict=True)
    ] == [(0, b"")] * 4
    assert await ask(database, "SELECT count(*) FROM many.migrations") == len(migrations())


async def test_many_stores_may_open_a_new_schema_at_once(database: str) -> None:
    stores = [PostgresStore(server.with_schema(database, "several")) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.close() for store in stores))
    assert await ask(database, "SELECT count(*) FROM several.migrations") == len(migrations())
    changes = [change for store in stores for change in store.schema_changes]
    assert sorted(change.before for change in changes) == [0, *[len(migrations())] * 7]


OLD_JOBS = """
    INSERT INTO old.jobs (id, created_at, due_at, queue, priority, lane, spec, running, token,
                          attempt, started_at, worker)
    SELECT gen_random_uuid(), 0, 0, 'default', 0, 'work', '{}', running, running::integer,
           running::integer, CASE WHEN running THEN 0 END, CASE WHEN running THEN 'worker-1' END
    FROM unnest(ARRAY[FALSE, FALSE, TRUE]) AS made (running);
    INSERT INTO old.queues (name, paused) VALUES ('shut', TRUE);
    -- It started in time, failed and waits to be tried again.
    INSERT INTO old.jobs (id, created_at, due_at, start_by, queue, priority, lane, spec, token, attempt)
    VALUES (gen_random_uuid(), 0, 0, 1, 'default', 0, 'work', '{}', 1, 1);
"""


async def test_a_store_of_the_first_schema_goes_on(store: PostgresStore, database: str) -> None:
    db = await asyncpg.connect(database)
    await db.execute("CREATE SCHEMA old; SET search_path = old")
    await db.execute("CREATE TABLE migrations (version integer, at timestamptz DEFAULT now())")
    await db.execute(migrations()[0] + "; INSERT INTO migrations VALUES (1);" + OLD_JOBS)
    await db.close()
    old = PostgresStore(server.with_schema(database, "old"))
    await old.open()
    (held,) = await old.held_leases(WORKER)
    before = await old.job(held.job_id)
    assert before is not None
    assert len(await claim_jobs(old)) == 3
    await end(old, before)
    assert (await old.stats(NOW)).jobs["succeeded"] == 1
    assert [(queue.name, queue.paused) for queue in await old.queues(NOW)][1:] == [("shut", True)]
    await old.close()


@pytest.fixture
async def release(store: PostgresStore, database: str) -> AsyncIterator[PostgresStore]:
    """A schema of version 0.1.0, as this version opens it."""
    await store.close()
    await ask(database, "DROP SCHEMA onbeat CASCADE")
    db = await asyncpg.connect(database)
    await db.execute(RELEASE.read_text("utf-8"))
    await db.close()
    release = PostgresStore(database)
    await release.open()
    yield release
    await release.close()
    await ask(database, "DROP SCHEMA onbeat CASCADE")


async def test_the_change_from_version_0_1_is_known(release: PostgresStore) -> None:
    await check_change_is_known(release, len(migrations()))


async def test_jobs_of_version_0_1_go_on(release: PostgresStore) -> None:
    await check_jobs_go_on(release)


async def test_what_version_0_1_knew_besides_is_there(release: PostgresStore) -> None:
    await check_history_is_there(release)


async def test_a_newer_schema_is_refused(store: PostgresStore, database: str) -> None:
    await ask(database, "INSERT INTO onbeat.migrations (version) VALUES (99)")
    try:
        with pytest.raises(Misconfigured, match="schema 99"):
            await PostgresStore(database).open()
    finally:
        await ask(database, "DELETE FROM onbeat.migrations WHERE version = 99")


async def test_schemas_do_not_see_each_other(store: PostgresStore, database: str) -> None:
    other = PostgresStore(server.with_schema(database, "elsewhere"))
    await other.open()
    await store.enqueue([a_job()])
    assert await claim_jobs(other) == ()
    await other.close()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    port = free_port()
    with pytest.raises(Unavailable):
        await PostgresStore(f"postgresql://postgres@127.0.0.1:{port}/test").open()


async def test_a_store_that_is_not_open_is_unavailable(database: str) -> None:
    with pytest.raises(Unavailable, match="not open"):
        await PostgresStore(database).ping()


def test_secrets_are_not_told() -> None:
    url = "postgresql://me:secret@host/db?password=hidden&schema=mine&sslmode=require"
    assert PostgresStore(url).url == "postgresql://me@host/db?schema=mine&sslmode=require"


@pytest.mark.parametrize("schema", ["Onbeat", "a-b", 'a"b', "1a", "", "a" * 60])
def test_a_schema_that_would_need_quotes_is_refused(schema: str) -> None:
    with pytest.raises(Misconfigured, match="schema"):
        PostgresStore(f"postgresql://host/db?schema={schema}")


async def rows_read(database: str, lanes: Sequence[str], *, alone: bool) -> tuple[int, int]:
    """Pages touched, and rows looked at, by one claim of ten."""
    db: Any = await connect(parse_dsn(database))
    try:
        await db.execute("BEGIN")
        plan = await db.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {STATEMENTS[True, True]}",
            "worker", micros(NOW), None, sorted(lanes), None, 60, 10, alone,
        )  # fmt: skip
        await db.execute("ROLLBACK")
    finally:
        await db.close()
    top = json.loads(plan)[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"], sum(map(seen, nodes(top)))


def nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(one for child in node.get("Plans", ()) for one in nodes(child))]


def seen(node: dict[str, Any]) -> int:
    removed = node.get("Rows Removed by Filter", 0)
    return (
        (node["Actual Rows"] + removed) * node["Actual Loops"] if "Scan" in node["Node Type"] else 0
    )


CROWD = """
    INSERT INTO onbeat.jobs (id, created_at, due_at, queue, priority, lane, spec, held, blocked_by,
                             start_by, lapsed)
    SELECT gen_random_uuid(), 0, 0, queue, number % 7, 'unknown ' || lane, '{}', held, blocked,
           CASE WHEN lapsed THEN 0 END, lapsed
    FROM generate_series(1, $1::integer) AS number,
         LATERAL (SELECT CASE number % 3 WHEN 0 THEN 'default' WHEN 1 THEN 'paused' ELSE 'zeta' END,
                         number % 50, number % 11 = 0, CASE number % 13 WHEN 0 THEN 1 ELSE 0 END,
                         number % 17 = 0)
                 AS made (queue, lane, held, blocked, lapsed)
"""


@pytest.mark.parametrize("alone", [True, False])
async def test_what_may_not_be_taken_costs_a_claim_nothing(
    store: PostgresStore, database: str, *, alone: bool
) -> None:
    await store.pause_queue("paused", paused=True)
    await store.enqueue([a_job() for _ in range(100)])
    await ask(database, CROWD, 1_000)
    few = await rows_read(database, ["work"], alone=alone)
    await ask(database, CROWD, 99_000)
    many = await rows_read(database, ["work"], alone=alone)
    # A deeper tree has some more pages on the way down; nothing else may grow.
    assert many[1] <= few[1] + 30
    assert many[0] <= few[0] * 2


BY_ID: dict[str, str] = {
    "succeed": settle.SUCCEED,
    "end": settle.END,
    "start": leases.START,
    "started before": leases.STARTED_BEFORE,
    "renew": leases.RENEW,
}


@pytest.mark.parametrize("statement", BY_ID)
async def test_rows_of_leases_are_found_by_their_ids_whatever_statistics_say(
    store: PostgresStore, database: str, statement: str
) -> None:
    await store.enqueue([a_job() for _ in range(500)])
    # Taken while nothing runs: by them, looking through all that runs costs nothing.
    await ask(database, "ANALYZE onbeat.jobs")
    db: Any = await connect(parse_dsn(database))
    try:
        sql = BY_ID[statement]
        nulls = ", ".join("NULL" for _ in set(re.findall(r"\$\d+", sql)))
        await db.execute(f"PREPARE asked AS {sql}")
        plan = await db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({nulls})")
    finally:
        await db.close()
    used = {node.get("Index Name") for node in nodes(json.loads(plan)[0]["Plan"])} - {None}
    assert used - {"queues_not_open", "own_event_types_pkey"} == {"jobs_pkey"}


def an_id_of(day: int, number: int) -> str:
    """An id that was made so many days after today."""
    milliseconds = int((time.time() // 86_400 + day) * 86_400_000) + 3_600_000 + number
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}"


async def changes_in_place(database: str, work: Callable[[Transaction], Awaitable[object]]) -> bool:
    """Whether all that it changes of jobs stays in its page, so that no index is written."""
    db: Any = await connect(parse_dsn(database))
    try:
        await db.execute("BEGIN")
        await work(Transaction(db))
        changed, in_place = await db.fetchrow(
            """
            SELECT pg_stat_get_xact_tuples_updated('jobs'::regclass),
                   pg_stat_get_xact_tuples_hot_updated('jobs'::regclass)
            """
        )
        await db.execute("ROLLBACK")
    finally:
        await db.close()
    assert changed > 0
    return bool(changed == in_place)


async def test_renewals_and_cursors_touch_no_index(store: PostgresStore, database: str) -> None:
    job = await run_job(store, a_job(), lease=HOUR)
    assert await changes_in_place(
        database, lambda transaction: leases.renew(transaction, [(job.id, job.token, 1)])
    )
    sent = prepare_batch(
        SentJobs(sender=job.id, token=job.token, jobs=(), cursor=msgspec.Raw(b"7")), new_job
    )
    assert await changes_in_place(database, lambda transaction: enqueue_from(transaction, [sent]))


async def partitions(database: str, table: str = "finished") -> list[str]:
    db = await asyncpg.connect(database)
    try:
        rows = await db.fetch(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = $1::text::regclass ORDER BY 1",
            f"onbeat.{table}",
        )
        return [row[0] for row in rows]
    finally:
        await db.close()


async def place_of(database: str, id: str) -> str:
    sql = "SELECT tableoid::regclass::text FROM onbeat.finished WHERE id = $1"
    return str(await ask(database, sql, id))


def name_of_day(day: int, table: str = "finished") -> str:
    return time.strftime(f"onbeat.{table}_%Y%m%d", time.gmtime(time.time() + day * 86_400))


async def test_there_are_partitions_for_the_days_ahead(store: PostgresStore, database: str) -> None:
    for table in ("finished", "job_logs"):
        result = await partitions(database, table)
        assert {name_of_day(day, table) for day in range(8)} <= set(result)


async def test_a_job_that_ends_goes_to_the_day_of_its_id(
    store: PostgresStore, database: str
) -> None:
    job = await run_and_end(store, a_job(id=an_id_of(0, 1)))
    assert await place_of(database, job.id) == name_of_day(0)


async def test_a_day_that_is_over_goes_at_once(store: PostgresStore, database: str) -> None:
    at = instant(int((time.time() - 3_600) * 1_000_000))
    jobs = [a_job(id=an_id_of(-1, number), due_at=at, created_at=at) for number in range(5)]
    failed, tried, *plain = [await run_job(store, job, now=at) for job in jobs]
    await end(store, failed, FAILURE, at)
    await end(store, tried, Released(), at)
    (tried,) = await claim_jobs(store, now=at)
    for job in (tried, *plain):
        await end(store, job, now=at)
    assert await place_of(database, plain[0].id) == name_of_day(-1)
    old = await run_job(store, a_job(id=an_id_of(-1, 9), due_at=at, created_at=at), now=at)
    await store.add_log_lines([a_line(job) for job in (plain[0], failed, old)])
    keep: dict[str, Any] = {"finished_before": at + DAY, "failed_before": at - DAY, "limit": 100}
    assert await store.prune(**keep) == 4
    assert name_of_day(-1) not in await partitions(database)
    assert await store.job(plain[0].id) is None
    assert list(await store.attempts(tried.id)) == []
    assert name_of_day(-1, "job_logs") not in await partitions(database, "job_logs")
    assert await store.export_log_lines(None, 10) == [a_line(failed), a_line(old)]
    # What is kept longer has moved, and goes when its own time is over.
    assert (await stored_job(store, failed)).error == "it broke"
    assert await place_of(database, failed.id) == "onbeat.finished_rest"
    assert len(await store.attempts(failed.id)) == 1
    assert await store.prune(**{**keep, "failed_before": at + DAY}) == 1
    assert await store.job(failed.id) is None
    assert await store.export_log_lines(None, 10) == [a_line(old)]


async def test_a_day_that_is_still_kept_stays(store: PostgresStore, database: str) -> None:
    job = await run_and_end(store, a_job(id=an_id_of(0, 2)))
    now = instant(int(time.time() * 1_000_000))
    await store.prune(finished_before=now - DAY, failed_before=now - DAY, limit=100)
    assert await store.job(job.id) == job


async def running_today(store: PostgresStore, count: int, at: datetime) -> list[Job]:
    """Jobs with ids of today that run since `at`."""
    new = [a_job(id=an_id_of(0, number), due_at=at, created_at=at) for number in range(count)]
    return [await run_job(store, job, now=at) for job in new]


def clock_now() -> datetime:
    return instant(int(time.time() * 1_000_000))


async def test_a_keep_under_two_days_holds_within_a_day_that_goes_on(
    store: PostgresStore, database: str
) -> None:
    now = clock_now()
    jobs = await running_today(store, 4, now - HOUR)
    past, failed, kept, tried = jobs
    await end(store, past, now=now - HOUR)
    await end(store, failed, FAILURE, now - HOUR)
    await end(store, kept, now=now)
    await end(store, tried, Released(), now - HOUR)
    (tried,) = await claim_jobs(store, now=now - HOUR)
    await end(store, tried, now=now - HOUR)
    await store.add_log_lines([a_line(past), a_line(kept)])
    keep: dict[str, Any] = {"finished_before": now - HOUR / 2, "limit": 1}
    assert [await store.prune(**keep, failed_before=now - DAY) for _ in range(3)] == [1, 1, 0]
    assert [await store.job(job.id) is None for job in jobs] == [True, False, False, True]
    assert list(await store.attempts(tried.id)) == []
    assert await store.export_log_lines(None, 10) == [a_line(kept)]
    assert await place_of(database, kept.id) == name_of_day(0)


async def test_failed_jobs_may_be_kept_for_less_than_others(store: PostgresStore) -> None:
    at = clock_now() - 4 * DAY
    failed, succeeded = await running_today(store, 2, at)
    await end(store, failed, FAILURE, at)
    await end(store, succeeded, now=at)
    ages: dict[str, Any] = {"finished_before": at - 3 * DAY, "failed_before": at + DAY}
    assert await store.prune(**ages, limit=9) == 1
    assert await store.job(failed.id) is None
    assert await store.job(succeeded.id) is not None


INDEXES = """
    SELECT count(*) FROM pg_indexes
    WHERE schemaname = 'indexed' AND indexname ~ '^finished_[0-9]+_by_end$'
"""


async def test_only_stores_that_delete_by_rows_pay_for_an_index(database: str) -> None:
    store = PostgresStore(server.with_schema(database, "indexed"))
    await store.open()
    now = clock_now()
    (job,) = await running_today(store, 1, now - 2 * HOUR)
    await end(store, job, now=now - 2 * HOUR)
    await store.prune(finished_before=now - 7 * DAY, failed_before=now - 30 * DAY, limit=100)
    assert await ask(database, INDEXES) == 0
    assert await store.job(job.id) is not None
    await store.prune(finished_before=now - HOUR, failed_before=now - 30 * DAY, limit=100)
    days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'indexed.finished'::regclass"
    assert await ask(database, INDEXES) == await ask(database, days) - 1
    assert await store.job(job.id) is None
    await store.close()


async def test_the_doctor_looks_at_what_durability_rests_on(store: PostgresStore) -> None:
    result = {finding.name: finding for finding in await store.doctor()}
    assert {
        "server version", "fsync", "full page writes", "synchronous commit", "autovacuum",
        "encoding", "oldest snapshot", "dead rows", "clock offset", "connections", "schema", "commit",
    } == set(result)  # fmt: skip
    assert result["schema"].ok
    assert result["clock offset"].ok


async def test_a_pattern_that_is_stored_gets_the_types_that_are_new(database: str) -> None:
    db = await asyncpg.connect(database)
    await db.execute("CREATE SCHEMA earlier; SET search_path TO earlier")
    await db.execute("CREATE TABLE migrations (version integer, at timestamptz DEFAULT now())")
    for number, script in enumerate(migrations()[:9], 1):
        await db.execute(script)
        await db.execute("INSERT INTO migrations VALUES ($1)", number)
    await db.execute(own_event_types.insert_of("own_event_types", own_event_types.old_rows()))
    store = PostgresStore(server.with_schema(database, "earlier"))
    await store.open()
    assert await store.wanted_types() == frozenset(OWN_TYPES)
    await store.close()
    rows = await db.fetch("SELECT type, schedule_id FROM own_event_types")
    await db.close()
    assert {(row["type"], str(row["schedule_id"])) for row in rows} == own_event_types.new_rows()
