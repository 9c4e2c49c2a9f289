"""What the API says while another program holds what a request needs."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import apsw
import asyncpg
import pytest

from conditions import eventually
from interfaces.rest_client import RestClient
from onbeat import Onbeat
from onbeat.api import build_api
from onbeat.stores.sqlite.store import SqliteStore
from stores.mysql import server as mysql
from stores.postgres import server as postgres

JOB = {"task": "work"}


@pytest.fixture
async def beat(tmp_path: Path) -> AsyncIterator[Any]:
    one = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    await one.backend.open()
    yield one
    await one.aclose()


async def test_writes_are_503_with_retry_after_and_reads_go_on(
    beat: Onbeat, tmp_path: Path
) -> None:
    rest = RestClient(build_api(beat.backend.context))
    (job,) = (await rest.post("/api/jobs", {"jobs": [JOB]})).json["ids"]
    with closing(apsw.Connection(str(tmp_path / "onbeat.db"))) as other:
        other.execute("BEGIN EXCLUSIVE")
        writes = [
            asyncio.ensure_future(work)
            for work in (
                rest.post("/api/jobs", JOB),
                rest.post(f"/api/jobs/{job}/cancel"),
                rest.post("/api/queues/mail/pause"),
                rest.post("/api/jobs/claim", {"worker": "w", "tasks": ["work"]}),
                rest.post(
                    "/api/schedules", {"name": "n", "every": "1h", "target": {"task": "work"}}
                ),
            )
        ]
        store = cast(SqliteStore, beat.backend.store)
        waits = store._writer.lock_wait
        await eventually(lambda: waits._began, "a write waits for the lock")
        for path in ("/api/jobs", f"/api/jobs/{job}", f"/api/jobs/{job}/why", "/api/stats"):
            assert (await rest.get(path)).status == 200
        assert not any(write.done() for write in writes)
        for answer in await asyncio.gather(*writes):
            assert (answer.status, answer.error["code"]) == (503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            assert "another process held it locked" in answer.error["message"]
    assert (await rest.post("/api/jobs", JOB)).status == 201


# Servers, on which rows are locked.


@asynccontextmanager
async def locked_in_postgres(url: str, *rows: Any) -> AsyncIterator[None]:
    db = await asyncpg.connect(url)
    try:
        await db.execute("SET search_path TO onbeat; BEGIN")
        for row in rows:
            await db.execute(f"SELECT 1 FROM {row} FOR UPDATE")
        yield
    finally:
        await db.close()


@asynccontextmanager
async def locked_in_mysql(url: str, *rows: Any) -> AsyncIterator[None]:
    db = await mysql.connected(url)
    try:
        await db.cursor().execute("START TRANSACTION")
        for row in rows:
            await db.cursor().execute(f"SELECT 1 FROM {row} FOR UPDATE")
        yield
    finally:
        db.close()


@pytest.fixture(params=["postgres", "mysql"])
def served(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The URL of an empty database, and how to lock rows of it."""
    if request.param == "postgres":
        with postgres.database(f"onbeat_locked_{os.getpid()}") as url:
            yield url, locked_in_postgres
    else:
        with mysql.database() as url:
            yield url, locked_in_mysql


async def test_a_request_that_waits_for_a_row_is_503_within_three_seconds(served: Any) -> None:
    url, locked = served
    beat = Onbeat(url)
    await beat.backend.open()
    try:
        rest = RestClient(build_api(beat.backend.context))
        (job,) = (await rest.post("/api/jobs", {"jobs": [JOB]})).json["ids"]
        await rest.post("/api/queues/mail/pause")
        async with locked(url, f"jobs WHERE id = '{job}'", "queues"):
            async with asyncio.timeout(3):
                answers = await asyncio.gather(
                    rest.post(f"/api/jobs/{job}/cancel"), rest.post("/api/queues/mail/resume")
                )
            for answer in answers:
                assert (answer.status, answer.error["code"]) == (503, "unavailable")
                assert answer.headers["retry-after"] == "1"
                assert "somebody holds a lock" in answer.error["message"]
            assert (await rest.get(f"/api/jobs/{job}")).json["state"] == "waiting"
        assert (await rest.post(f"/api/jobs/{job}/cancel")).json["state"] == "cancelled"
    finally:
        await beat.aclose()
