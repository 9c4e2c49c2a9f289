"""A fan-out that is killed again and again gives every row exactly one job."""

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.programs import program
from conditions import eventually
from crash.invariants import Invariants, is_poison
from onbeat import Onbeat
from onbeat.model.job import JobState

pytestmark = pytest.mark.proof

PROGRAM = (Path(__file__).parent / "fan_out.py").read_text()
ROWS = int(os.environ.get("FAN_OUT_ROWS", "8000"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
STEP = 250

everywhere = pytest.mark.parametrize("place", ["sqlite", "postgres", "mysql"], indirect=True)


def send(place: Any, task: Any) -> Any:
    with program(PROGRAM, place, str(ROWS), "send", task) as sender:
        assert sender.ended() == 0
        return sender.log.read_text().split("sent ")[1].split(";")[0]


def life(place: Any, kind: str = "run") -> Any:
    return program(PROGRAM, place, str(ROWS), kind)


def end_at_a_row(place: Any, chance: Any, part: Any, number: int, kind: str = "run") -> None:
    """Run until some row of a part (of ten) of all has been yielded, and send a signal then."""
    row = chance.randrange(part * ROWS // 10, (part + 1) * ROWS // 10) // STEP * STEP
    with life(place, kind) as running:
        running.wait_to_say(f"row {row};")
        if number == signal.SIGKILL:
            running.kill()
        else:
            running.signal(number)
            assert running.ended() == 0


def run_to_the_end(place: Any, id: Any) -> None:
    with life(place) as running:
        asyncio.run(in_store(place, lambda beat: is_done(beat, id)))
        running.signal(signal.SIGTERM)
        assert running.ended() == 0


async def in_store(place: Any, holds: Any) -> None:
    """Wait until something holds of the store, which is opened once for that."""
    beat = Onbeat((place / "store").read_text())
    await beat.backend.open()
    try:
        await eventually(lambda: holds(beat), "what is waited for holds", 90)
    finally:
        await beat.aclose()


async def is_done(beat: Any, id: Any) -> Any:
    """Whether all has been sent, and half of it has run."""
    if (await beat.backend.store.job(id)).state is not JobState.SUCCEEDED:
        return False
    stats = (await beat.backend.store.stats(beat.backend.clock.now())).jobs
    return (stats["waiting"], stats["succeeded"]) == (ROWS // 2, ROWS // 2 + 1)


async def is_put_aside(beat: Any, id: Any) -> Any:
    job = await beat.backend.store.job(id)
    return job.state is JobState.FAILED and is_poison(job)


def check(place: Any, id: Any) -> Any:
    """Exactly one job for each row, as many as the result says, and half of them have run."""
    books = Invariants.glance(place)
    sender = books.jobs.pop(id)
    assert sender.state is JobState.SUCCEEDED
    assert bytes(sender.result) == b'{"sent":%d}' % ROWS
    rows = Counter(int(bytes(job.target.args)[1:-1]) for job in books.jobs.values())
    assert len(books.jobs) == ROWS
    assert rows == Counter(range(ROWS))
    for job in books.jobs.values():
        parked = job.queue == "parked"
        assert job.state is (JobState.WAITING if parked else JobState.SUCCEEDED)
        assert job.attempt == (0 if parked else 1) + job.lost
    return sender


@everywhere
@pytest.mark.parametrize("task", ["bill.cursor", "bill.keys", "bill.plain"])
def test_every_row_has_one_job_whenever_the_program_was_killed(place: Any, task: str) -> None:
    chance = random.Random(f"{SEED} {task}")
    id = send(place, task)
    for part, number in ((2, signal.SIGKILL), (4, signal.SIGTERM), (7, signal.SIGKILL)):
        end_at_a_row(place, chance, part, number)
    run_to_the_end(place, id)
    sender = check(place, id)
    assert sender.lost == 2
    begun = [line for log in place.glob("program-*.log") for line in starts(log)]
    assert (max(begun) > 0) == (task == "bill.cursor"), "with a cursor it goes on from there"


def starts(log: Any) -> Any:
    lines = [line for line in log.read_text().splitlines() if line.startswith("begins at")]
    return [int(line.split()[2].rstrip(";")) for line in lines]


@everywhere
def test_a_run_put_aside_as_poison_and_retried_by_hand_adds_nothing_twice(place: Any) -> None:
    chance = random.Random(SEED)
    id = send(place, "bill.cursor")
    for part in (1, 3, 5):
        end_at_a_row(place, chance, part, signal.SIGKILL, "run alone")
    with life(place):
        asyncio.run(in_store(place, lambda beat: is_put_aside(beat, id)))
    asyncio.run(in_store(place, lambda beat: retried(beat, id)))
    run_to_the_end(place, id)
    check(place, id)


async def retried(beat: Any, id: Any) -> Any:
    await beat.jobs.aretry(id)
    return True
