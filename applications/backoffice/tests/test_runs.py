"""Runs of the distributor: when they are, that there is one of each, and what a crash leaves."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import replica
from backoffice.app import build
from backoffice.config import Config
from crowd import customers
from onbeat import Onbeat
from replica import AheadClock
from world import World

PATIENCE = 60
MIDNIGHT = datetime(2026, 12, 1, tzinfo=UTC)


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
    return answer


class Store:
    """The jobs of the replicas. Charges wait: nobody pays here.

    It has the schedules since the day before, so that no replica can come too late for midnight.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"
        clock = AheadClock(seconds_to(MIDNIGHT - timedelta(days=1)))
        with Onbeat(self.url, clock=clock) as beat:
            beat.queues.pause("billing_tasks")
            with build(Config(database=world.url), beat).beat.started():
                pass

    def jobs(self, task: str) -> list[Any]:
        with Onbeat(self.url) as beat:
            return list(beat.jobs.list(task=task, limit=1_001))

    def billed(self) -> Counter[int]:
        """How many tasks each subscription has."""
        tasks = [job.target.args[0] for job in self.jobs("billing.charge")]
        return Counter(task["subscription_id"] for task in tasks)

    def runs(self) -> list[Any]:
        """Those of the month that have begun; the next one waits already."""
        return [job for job in self.jobs("billing.distribute_monthly") if job.state != "waiting"]

    def is_done(self) -> bool:
        return [job.state for job in self.runs()] == ["succeeded"]


@pytest.fixture
def store(world: World, tmp_path: Path) -> Store:
    return Store(world, tmp_path)


def seconds_to(at: datetime) -> float:
    return (at - datetime.now(UTC)).total_seconds()


class Replica:
    def __init__(self, world: World, store: Store, at: datetime, *pages: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, replica.__file__, world.url, store.url, str(seconds_to(at)), *pages],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self) -> str:
        """Stops it, and gives all that it has printed."""
        self.process.terminate()
        printed, _ = self.process.communicate(timeout=PATIENCE)
        return printed


@contextmanager
def replicas(*started: Replica) -> Iterator[None]:
    try:
        yield
    finally:
        for each in started:
            each.process.kill()
            each.process.communicate()


def test_s1_a07_of_two_replicas_one_runs_at_midnight_on_the_first(
    world: World, store: Store
) -> None:
    customers(world, 250)
    both = [Replica(world, store, MIDNIGHT - timedelta(seconds=4)) for _ in range(2)]
    with replicas(*both):
        eventually(store.is_done)
        printed = [each.lines() for each in both]
    assert store.billed() == Counter(range(1, 251))
    (run,) = store.runs()
    assert run.occurrence == MIDNIGHT
    line = "[MONTHLY] Distribution Finished. Total Billing Queued: 250"
    assert sorted(line in text for text in printed) == [False, True]


def test_s1_a07_s1_d12_a_run_that_was_killed_goes_on_behind_its_last_row(
    world: World, store: Store
) -> None:
    customers(world, 1_000)
    first = Replica(world, store, MIDNIGHT, "5")
    with replicas(first):
        assert first.process.stdout is not None
        assert "stopped\n" in iter(first.process.stdout.readline, "")
        eventually(lambda: len(store.billed()) == 500)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(PATIENCE)
    second = Replica(world, store, MIDNIGHT)
    with replicas(second):
        eventually(store.is_done)
        printed = second.lines()
    assert "Total Billing Queued: 1000" in printed
    pages = [line for line in printed.splitlines() if line.startswith("page of MONTHLY")]
    assert pages[0] == "page of MONTHLY behind 500"
    assert store.billed() == Counter(range(1, 1_001))
    (run,) = store.runs()
    assert run.result == {"sent": 1_000}
