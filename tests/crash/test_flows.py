"""A flow that is killed again and again runs each job as its edges allow, and ends once."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from app.programs import program
from conditions import eventually
from crash.invariants import Invariants
from onbeat import Onbeat
from onbeat.model.job import JobState

pytestmark = pytest.mark.proof

PROGRAM = (Path(__file__).parent / "flows.py").read_text()
SIZE = 98
GROUPS = int(os.environ.get("FLOW_JOBS", "2000")) // (SIZE + 2)
FAILING = 7
KILLS = 3


def life(place: Any, kind: str) -> Any:
    return program(PROGRAM, place, str(GROUPS), str(SIZE), kind)


async def has_ended(url: str, id: str) -> None:
    beat = Onbeat(url)
    await beat.backend.open()
    try:
        await eventually(lambda: is_final(beat, id), "the last job has ended", 300)
    finally:
        await beat.aclose()


async def is_final(beat: Any, id: str) -> bool:
    return (await beat.backend.store.job(id)).is_final


@pytest.mark.parametrize("place", ["sqlite", "postgres", "mysql"], indirect=True)
def test_each_job_runs_as_its_edges_allow_whenever_the_program_was_killed(place: Path) -> None:
    with life(place, "send") as sender:
        assert sender.ended() == 0
        closing = sender.log.read_text().split("sent ")[1].split(";")[0]
    for _ in range(KILLS):
        with life(place, "run") as running:
            running.wait_to_say(f"ran {GROUPS * SIZE // (2 * KILLS) // 100 * 100};")
            running.kill()
    with life(place, "run"):
        asyncio.run(has_ended((place / "store").read_text(), closing))
    jobs = Invariants.glance(place).jobs
    assert len(jobs) == GROUPS * (SIZE + 2) + 1
    close = jobs.pop(closing)
    assert close.state is JobState.SUCCEEDED
    assert all(job.is_final for job in jobs.values())
    assert close.finished_at >= max(job.finished_at for job in jobs.values())
    failed = [job for job in jobs.values() if job.state is JobState.FAILED]
    cancelled = [job for job in jobs.values() if job.state is JobState.CANCELLED]
    assert len(failed) == -(-GROUPS // FAILING)
    assert len(cancelled) == len(failed) * (SIZE + 1)
    assert all(job.attempt == 0 and job.cause_id in jobs for job in cancelled)
    for job in jobs.values():
        if job.state is JobState.SUCCEEDED:
            assert all(jobs[other].state is JobState.SUCCEEDED for other in job.after)
