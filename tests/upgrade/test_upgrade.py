"""Versions of Onbeat on one PostgreSQL under load: what may run side by side loses nothing, and what
may not is refused in one line before anything is changed."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from conditions import eventually
from crash.conftest import store_url
from crash.invariants import Invariants
from onbeat.stores.postgres.migrate import migrations
from proof_counts import counting
from stores.postgres.server import execute
from upgrade.fleet import Fleet, load, refusal
from upgrade.versions import ROOT, later, release, with_migration

THIS = ROOT / "src"
ADDITION = """
ALTER TABLE jobs ADD COLUMN later text;
ALTER TABLE schedules ADD COLUMN later text NOT NULL DEFAULT '';
CREATE TABLE later (id text PRIMARY KEY);
CREATE INDEX jobs_later ON jobs (later) WHERE later IS NOT NULL;
"""

pytestmark = pytest.mark.proof


@pytest.fixture
def place(tmp_path):
    with store_url("postgres", tmp_path) as url:
        (tmp_path / "store").write_text(url)
        yield tmp_path


@pytest.fixture
async def fleet(place):
    fleet = Fleet(place)
    yield fleet
    await fleet.close()


def check_refused(answer: tuple[int, list[str]], *words: str) -> None:
    code, said = answer
    assert code == 2, said
    (line,) = [line for line in said if "onbeat: " in line]
    assert all(word in line for word in words), line


def forget_addition(url: str) -> None:
    """So that this version, which only reads, opens what a later one has added to."""
    execute(url, f"DELETE FROM onbeat.migrations WHERE version > {len(migrations())}")


async def all_has_ended(fleet: Fleet, since: datetime) -> bool:
    """By the API: the store may have a schema that this version does not know."""
    url = f"http://127.0.0.1:{fleet.ports[0]}/api/jobs"
    for state in ("waiting", "running"):
        query = {"state": state, "limit": "500"}
        async with aiohttp.ClientSession() as session, session.get(url, params=query) as answer:
            jobs = (await answer.json())["jobs"]
        if any(
            job.get("occurrence") is None or datetime.fromisoformat(job["occurrence"]) <= since
            for job in jobs
        ):
            return False
    return True


async def check_all_is_there(place: Path, fleet: Fleet) -> None:
    since = datetime.now(UTC)

    await eventually(lambda: all_has_ended(fleet, since), "all that was due has ended")
    for number in list(fleet.running):
        await fleet.stop(number)
    await asyncio.to_thread(forget_addition, (place / "store").read_text())
    books = await asyncio.to_thread(Invariants, place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    books.check_runs_of_occurrences()
    assert {job.lost for job in books.jobs.values()} == {0}


async def test_a_release_is_followed_by_this_version(place, fleet, tmp_path):
    """Its schema cannot be used beside this one's: both ways one line says so."""
    with counting("upgrade from the last release", "postgres"):
        last = await asyncio.to_thread(release, tmp_path / "last")
        for number in range(3):
            fleet.start(number, last)
            await fleet.wait_until_ready(number)
        async with load(fleet):
            await fleet.wait_for_work()
            for words in (["up", "program.py", "--port", "0"], ["migrate"]):
                answer = await asyncio.to_thread(refusal, THIS, place, *words)
                check_refused(answer, "is used by ", " of an older version (", "stop every")
            await fleet.wait_for_work()
            for number in range(3):
                await fleet.stop(number)
            for number in range(3):
                fleet.start(number, THIS)
                await fleet.wait_until_ready(number)
            await fleet.wait_for_work()
            answer = await asyncio.to_thread(
                refusal, last, place, "up", "program.py", "--port", "0"
            )
            check_refused(answer, f"has schema {len(migrations())}", "start the newer program")
            await fleet.wait_for_work()
        await check_all_is_there(place, fleet)


async def replace(fleet: Fleet, number: int, source: Path) -> None:
    """As a rolling deployment does."""
    await fleet.stop(number)
    fleet.start(number, source)
    await fleet.wait_until_ready(number)
    await fleet.wait_for_work()


async def test_versions_that_understand_each_other_replace_one_process_at_a_time(
    place, fleet, tmp_path
):
    """Forward and back with the same schema; forward only once a migration has added to it."""
    same = later(tmp_path / "same")
    newer = with_migration(tmp_path / "newer", "postgres", ADDITION)
    with counting("upgrade beside this version", "postgres"):
        for number in range(3):
            fleet.start(number, THIS)
            await fleet.wait_until_ready(number)
        async with load(fleet):
            await fleet.wait_for_work()
            await replace(fleet, 0, same)
            await replace(fleet, 0, THIS)
            for number in range(3):
                await replace(fleet, number, newer)
            answer = await asyncio.to_thread(refusal, THIS, place, "migrate")
            check_refused(answer, f"has schema {len(migrations()) + 1}", "start the newer program")
        await check_all_is_there(place, fleet)
