"""A bulk that is killed again and again meets each of its jobs once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from app.programs import program
from conditions import eventually_here
from onbeat import Onbeat
from onbeat.model.bulk import Bulk, BulkAction, BulkId, BulkState
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.page import Counted, JobFilter
from onbeat.ports.store import Store
from onbeat.rules.bulks import filter_of, new_bulk
from onbeat.testing.build import a_job, an_id

pytestmark = pytest.mark.proof

PROGRAM = (Path(__file__).parent / "bulks.py").read_text()
JOBS = 4_000
KILLS = 2

Answer = TypeVar("Answer")


def with_store(place: Path, act: Callable[[Store], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        beat = Onbeat((place / "store").read_text())
        await beat.backend.open()
        try:
            return await act(beat.backend.store)
        finally:
            await beat.aclose()

    return asyncio.run(run())


async def make_bulk(store: Store) -> Bulk:
    """All jobs, and two that another caller cancels before the bulk begins."""
    now = datetime.now(UTC)
    jobs = [a_job(due_at=now + timedelta(days=1), created_at=now) for _ in range(JOBS)]
    await store.enqueue(jobs)
    filter = filter_of(BulkAction.CANCEL, JobFilter(), now)
    counted = Counted(JOBS, more=False)
    made = new_bulk(BulkId(an_id()), BulkAction.CANCEL, filter, jobs[-1].id, counted, "test", now)
    bulk = replace(made, starts_at=now, next_at=now)
    await store.cancel([jobs[0].id, jobs[-1].id], "by hand", now)
    await store.add_bulk(bulk)
    return bulk


def stored(place: Path, id: BulkId) -> Any:
    return with_store(place, lambda store: store.bulk(id))


def end_of(place: Path, id: BulkId) -> Any:
    found = stored(place, id)
    return found if found.is_over else None


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_bulk_survives_a_kill(place: Path) -> None:
    bulk = with_store(place, make_bulk)
    done = 0
    for _ in range(KILLS):
        with program(PROGRAM, place) as running:
            before = done
            done = eventually_here(
                lambda: (now := stored(place, bulk.id).done) > before and now,  # noqa: B023
                "another chunk is done",
            )
            running.kill()
    with program(PROGRAM, place):
        ended = eventually_here(lambda: end_of(place, bulk.id), "the bulk has ended")
    assert (ended.state, ended.done, ended.skipped) == (BulkState.DONE, JOBS - 2, 2)
    assert with_store(place, reasons) == {f"cancelled with bulk {bulk.id}": JOBS - 2, "by hand": 2}


async def reasons(store: Store) -> Counter[str | None]:
    """How many jobs were cancelled, and why."""
    found: Counter[str | None] = Counter()
    before: JobId | None = None
    while True:
        filter = JobFilter(state=JobState.CANCELLED, before=before, limit=1_000)
        page = await store.jobs(filter)
        found.update(job.reason for job in page.items)
        if page.cursor is None:
            return found
        before = JobId(page.cursor)
