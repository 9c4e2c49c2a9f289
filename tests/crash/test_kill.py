import os
import random
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.programs import program
from conditions import eventually_here
from crash.frozen import freeze
from crash.invariants import Invariants, lines
from proof_counts import counting

pytestmark = pytest.mark.proof

PLANT = (Path(__file__).parent / "app.py").read_text()
CYCLES = int(os.environ.get("CRASH_CYCLES", "12"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
LONG_LEASE = "15"
MINUTE = "60"
SHORT_LEASE = "4"


def plant(place: Any, name: str, lease: Any, *does: Any) -> Any:
    return program(PLANT, place, name, lease, ",".join(does))


def count(place: Path, journal: str) -> int:
    return len(lines(place / journal))


def let_it_run(seconds: float) -> None:
    """The instant of a kill is meant to be any, so here time itself is the condition."""
    deadline = time.monotonic() + seconds
    eventually_here(lambda: time.monotonic() >= deadline, "the moment of the kill")


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_kills_at_any_moment_lose_no_accepted_job_and_fire_no_occurrence_twice(place: Any) -> None:
    chance = random.Random(SEED)
    for cycle in range(CYCLES):
        with (
            counting("kills of a process") as counts,
            plant(place, f"life-{cycle}", LONG_LEASE, "fire", "produce", "work") as running,
        ):
            running.wait_to_say("ready")
            let_it_run(chance.uniform(0.05, 0.5))
            running.kill()
            counts.add(kills=1)
    with plant(place, "last", LONG_LEASE, "work") as running:
        running.wait_to_say("ready")
        since = datetime.now(UTC)
        eventually_here(
            lambda: Invariants.glance(place).is_quiet(since),
            "all that was due has ended",
        )
        running.signal(signal.SIGTERM)
        assert running.ended() == 0
    books = Invariants(place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    books.check_runs_of_occurrences()


def test_the_jobs_of_a_killed_process_run_in_another_before_its_lease_ends(place: Any) -> None:
    """`benchmarks/recovery.py` measures how long it takes."""
    with (
        plant(place, "first", MINUTE, "work", "long") as first,
        plant(place, "second", MINUTE, "work", "produce") as second,
    ):
        first.wait_to_say("ready")
        second.wait_to_say("ready")
        holder = eventually_here(lambda: holder_of_long(place), "the long job runs")
        victim, heir = (first, "second") if holder == "first" else (second, "first")
        eventually_here(lambda: count(place, "ended") > 20, "both share the work")
        victim.kill()
        lease_ends = time.monotonic() + float(MINUTE)
        eventually_here(lambda: holder_of_long(place) == heir, "the long job runs in the other")
        assert time.monotonic() < lease_ends
    books = Invariants(place)
    books.check_attempts()


def holder_of_long(place: Any) -> Any:
    """Who began last the job that never ends: it has begun more often than it has ended."""
    ended = {(id, token) for id, _, token, _ in lines(place / "ended")}
    live = [words for words in lines(place / "began") if (words[0], words[2]) not in ended]
    long = long_job(place)
    mine = [words[3] for words in live if words[0] == long]
    return mine[-1] if mine else None


def long_job(place: Any) -> Any:
    """The job that runs until it may go on."""
    books = Invariants.glance(place)
    return next((job.id for job in books.jobs.values() if job.target.task == "stay"), None)


def test_a_frozen_process_loses_its_jobs_and_may_write_nothing_when_it_wakes(place: Any) -> None:
    with plant(place, "frozen", SHORT_LEASE, "work", "long") as frozen:
        frozen.wait_to_say("ready")
        eventually_here(lambda: holder_of_long(place) == "frozen", "the long job runs")
        freeze(frozen, place)
        with plant(place, "heir", SHORT_LEASE, "work") as heir:
            heir.wait_to_say("ready")
            eventually_here(lambda: holder_of_long(place) == "heir", "the heir has the job")
            taken = Invariants(place)
            # Its thread ends whatever the process has learned meanwhile, and counts for nothing.
            (place / "go-frozen").touch()
            frozen.signal(signal.SIGCONT)
            eventually_here(lambda: count(place, "ended") == 1, "the frozen handler ends")
            frozen.signal(signal.SIGTERM)
            assert frozen.ended() == 0
            after = Invariants(place)
            id = long_job(place)
            assert after.jobs[id].token == taken.jobs[id].token
            assert after.jobs[id].worker == taken.jobs[id].worker
            assert after.attempts[id] == taken.attempts[id]
            assert after.jobs[id].lost == 1
            (place / "go-heir").touch()
            ended = eventually_here(
                lambda: (job := Invariants.glance(place).jobs[id]).is_final and job,
                "the heir ends it",
            )
            assert bytes(ended.result) == b'"heir"'


def test_rolling_restarts_lose_nothing_and_cost_no_attempt(place: Any) -> None:
    with plant(place, "producer", LONG_LEASE, "produce") as producer:
        producer.wait_to_say("ready")
        for cycle in range(4):
            with plant(place, f"life-{cycle}", LONG_LEASE, "fire", "work") as running:
                done = count(place, "ended")
                eventually_here(lambda: count(place, "ended") > done + 10, "it works")  # noqa: B023
                running.signal(signal.SIGTERM)
                assert running.ended() == 0
    with plant(place, "last", LONG_LEASE, "work") as running:
        since = datetime.now(UTC)
        eventually_here(
            lambda: Invariants.glance(place).is_quiet(since),
            "all that was due has ended",
        )
        running.signal(signal.SIGTERM)
        assert running.ended() == 0
    books = Invariants(place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    assert {job.lost for job in books.jobs.values()} == {0}
    assert {job.attempt for job in books.jobs.values() if job.is_final} == {1}
