"""Jobs that end their worker harm nobody beside them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.programs import program
from conditions import eventually_here
from crash.invariants import Invariants
from onbeat.model.job import JobState

pytestmark = pytest.mark.proof

PROGRAM = (Path(__file__).parent / "poison.py").read_text()
INNOCENT = 45


def outcome(place: Any) -> Any:
    """What the jobs came to by task: None while any goes on."""
    jobs = Invariants.glance(place).jobs.values()
    return list(jobs) if jobs and all(job.is_final for job in jobs) else None


def run_until_all_ended(place: Any, within: Any) -> Any:
    """The jobs in the end, and how many workers died on the way."""
    deaths = 0
    while True:
        with program(PROGRAM, place, "run") as worker:
            worker.wait_to_say("runs")
            eventually_here(
                lambda: worker.process.poll() is not None or outcome(place),
                "the worker has died or all jobs have ended",
                within,
            )
            if worker.process.poll() is None:
                return outcome(place), deaths
        deaths += 1
        assert deaths < 40, "culprits end"


def sent(place: Any, kind: Any) -> None:
    with program(PROGRAM, place, "send", str(INNOCENT), kind) as sender:
        assert sender.ended() == 0, sender.log.read_text()


def test_jobs_that_end_their_worker_harm_none_of_their_neighbours(place: Any) -> None:
    sent(place, "beside")
    jobs, deaths = run_until_all_ended(place, 60)
    states = Counter((job.target.task, job.state) for job in jobs)
    assert states == {
        ("innocent", JobState.SUCCEEDED): INNOCENT,
        ("leaves", JobState.FAILED): 1,
        ("crashes", JobState.FAILED): 1,
    }
    for job in jobs:
        if job.state is JobState.FAILED:
            assert job.reason.startswith(f"poison: its worker died {job.lost} times while it ran")
            assert "alone; last: worker " in job.reason
    # Two among 47: each is alone after halving six times, and dies alone twice or three times.
    assert deaths <= 2 * (6 + 3)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_in_a_process_of_its_own_a_job_harms_nobody_at_all(place: Any) -> None:
    sent(place, "apart")
    jobs, deaths = run_until_all_ended(place, 60)
    assert deaths == 0
    assert {job.lost for job in jobs if job.target.task == "innocent"} == {0}
    reasons = {job.target.task: job.reason for job in jobs if job.state is JobState.FAILED}
    assert reasons == {
        "leaves.apart": "poison: its process died 3 times while it ran, each time alone; "
        "last: its process ended with exit code 9",
        "hoards.apart": "attempts used up",
        "hangs.apart": "attempts used up",
    }
