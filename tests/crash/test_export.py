"""The example of an export: each row of two tables once, wherever its program was killed."""

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from app.programs import program
from conditions import eventually_here
from crash.invariants import Invariants
from docs.pages import ROOT
from onbeat.model.job import JobState

pytestmark = pytest.mark.proof

PROGRAM = (ROOT / "examples" / "export" / "app.py").read_text()
SEED = int(os.environ.get("CRASH_SEED", "1"))
ROWS = 3_000
CHUNKS = 30
JOBS = 2 * (1 + 2 * CHUNKS)
SOURCES = ("customers", "orders")


def query(url: str, statement: Any) -> list[Any]:
    if url.startswith("sqlite:"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        db.set_busy_timeout(20_000)
        try:
            return list(db.execute(statement))
        finally:
            db.close()
    return [tuple(row) for row in asyncio.run(query_postgresql(url, statement))]


async def query_postgresql(url: str, statement: Any) -> Any:
    db = await asyncpg.connect(url)
    try:
        return await db.fetch(statement)
    finally:
        await db.close()


def run(place: Path, *args: str) -> None:
    with program(PROGRAM, place, *args) as running:
        assert running.ended() == 0, running.log.read_text()


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_each_row_is_exported_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(SEED)
    url = (place / "store").read_text()
    monkeypatch.setenv("STORE", url)
    run(place, "fill", str(ROWS))
    run(place, "export", "first", "second", "first")
    with program(PROGRAM, place, "run") as running:
        running.wait_to_say("exported", times=chance.randrange(3, 25))
        running.kill()
    with program(PROGRAM, place, "run") as running:
        eventually_here(lambda: all_ended(url), "both exports have ended")
        running.signal(signal.SIGTERM)
        assert running.ended() == 0, running.log.read_text()
    rows = " UNION ALL ".join(
        f"SELECT '{name}' AS source, id, data FROM {name}" for name in SOURCES
    )
    expected = query(url, f"SELECT * FROM ({rows}) AS everything ORDER BY 1, 2")
    assert len(expected) == 2 * ROWS
    assert query(url, "SELECT source, id, data FROM exported ORDER BY 1, 2") == expected
    assert {job.state for job in jobs(place)} == {JobState.SUCCEEDED}
    chunks = [job for job in jobs(place) if job.target.task == "export.chunk"]
    assert len(chunks) == 2 * 2 * CHUNKS, "one job for each chunk of each of two exports"
    counted = [int(bytes(job.result)) for job in chunks]
    # A result is of the last attempt: an earlier one that was killed may have copied its rows.
    assert sum(counted) <= 2 * ROWS
    assert counted.count(0) >= 2 * CHUNKS, "what was there already is a success"


def jobs(place: Path) -> list[Any]:
    return list(Invariants.glance(place).jobs.values())


def all_ended(url: str) -> bool:
    table = "onbeat_finished" if url.startswith("sqlite:") else "onbeat.finished"
    ((count,),) = query(url, f"SELECT count(*) FROM {table}")
    return bool(count == JOBS)
