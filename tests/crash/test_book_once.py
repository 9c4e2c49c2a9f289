"""What a handler writes in the transaction that ends its job is written exactly once."""

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from app.programs import program
from conditions import eventually_here
from crash.invariants import Invariants
from onbeat.model.job import Job, JobState

pytestmark = pytest.mark.proof

PROGRAM = (Path(__file__).parent / "book_once.py").read_text()
SEED = int(os.environ.get("CRASH_SEED", "1"))
JOBS = 400
TABLE = "CREATE TABLE ledger (number BIGINT)"


def url_of(place: Path) -> str:
    return (place / "store").read_text()


def query(place: Path, sql: str) -> list[tuple[int]]:
    url = url_of(place)
    if url.startswith("sqlite:"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        db.set_busy_timeout(20_000)
        try:
            return list(db.execute(sql))
        finally:
            db.close()
    return asyncio.run(query_postgresql(url, sql))


async def query_postgresql(url: str, sql: Any) -> Any:
    db = await asyncpg.connect(url)
    try:
        return await db.fetch(sql)
    finally:
        await db.close()


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_rows_jobs_and_ends_agree_whenever_the_program_was_killed(place: Path) -> None:
    chance = random.Random(SEED)
    with program(PROGRAM, place, "send", str(JOBS)) as sender:
        assert sender.ended() == 0
    query(place, TABLE)
    for _ in range(2):
        with program(PROGRAM, place, "run") as running:
            running.wait_to_say("booked", times=chance.randrange(20, 120))
            running.kill()
    with program(PROGRAM, place, "run") as running:
        eventually_here(lambda: all_ended(place), "all jobs have ended", 60)
        running.signal(signal.SIGTERM)
        assert running.ended() == 0
    books = Invariants(place)
    ends = Counter((job.target.task, job.state) for job in books.jobs.values())
    book = next(task for task, _ in ends if task != "mail")
    assert ends == {(book, JobState.SUCCEEDED): JOBS, ("mail", JobState.SUCCEEDED): JOBS}
    rows = Counter(number for (number,) in query(place, "SELECT number FROM ledger"))
    assert rows == Counter(range(JOBS)), "one row for each job"
    mails = Counter(number_of(job) for job in books.jobs.values() if job.target.task == "mail")
    assert mails == Counter(range(JOBS)), "one mail for each job"
    assert any(job.lost for job in books.jobs.values()), "kills have hit jobs that ran"


def number_of(job: Job) -> int:
    return int(bytes(job.target.args)[1:-1])


def all_ended(place: Path) -> bool:
    ended = "'succeeded', 'failed', 'cancelled'"
    table = "onbeat_finished" if url_of(place).startswith("sqlite:") else "onbeat.finished"
    ((count,),) = query(place, f"SELECT count(*) FROM {table} WHERE state IN ({ended})")
    return count == 2 * JOBS
