"""Threads and processes that race on the real stores: their histories have an order."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from model_checks.linearizability import Model, Operation, violations
from model_checks.models import JOB, KEY, SCHEDULE
from model_checks.places import SQL_STORES, opened, place_of
from model_checks.racer import Kept, Names, Racer, a_store, look, read_journal

LONG = os.environ.get("TEST_PROFILE") == "long"
SEED = int(os.environ.get("RACE_SEED", "1"))
THREADS = 4
ROUNDS = 40 if LONG else 3
STEPS = 60
PROCESSES = 3
KILLS = 60 if LONG else 3
TESTS = Path(__file__).parents[1]


def check(history: list[Operation], names: Names) -> None:
    models: list[tuple[set[str], Model[Any]]] = [
        ({job.id for job in names.jobs}, JOB),
        (set(names.keys), KEY),
        ({schedule.id for schedule in names.schedules}, SCHEDULE),
    ]
    for keys, model in models:
        mine = [one for one in history if one.key in keys]
        assert mine, "every object was raced on"
        found = violations(mine, model)
        assert not found, "\n".join(map(str, found))


def race_threads(racers: list[Racer]) -> None:
    """Let each take its steps in a thread, with a loop of its own."""
    start = threading.Barrier(len(racers))

    async def race(racer: Racer) -> None:
        start.wait(60)
        for _ in range(STEPS):
            await racer.step()

    with ThreadPoolExecutor(len(racers)) as pool:
        for ended in [pool.submit(asyncio.run, race(racer)) for racer in racers]:
            ended.result()


@pytest.mark.parametrize("kind", SQL_STORES)
def test_what_threads_hear_of_a_job_a_key_and_a_schedule_has_an_order(
    kind: str, tmp_path: Path
) -> None:
    with asyncio.Runner() as runner, opened(kind, tmp_path, runner, count=THREADS) as stores:
        for turn in range(ROUNDS):
            names = Names.make(2, turn)
            runner.run(names.add_to(stores[0]))
            journals = [Kept() for _ in stores]
            race_threads(
                [
                    Racer(store, f"worker-{place}", names, journal, SEED + turn)
                    for place, (store, journal) in enumerate(zip(stores, journals, strict=True))
                ]
            )
            history = [one for journal in journals for one in journal.operations()]
            check([*history, *runner.run(look(stores[0], names))], names)
            verbs = Counter(one.verb for one in history if one.answer not in (None, False))
            assert min(verbs[verb] for verb in ("claim", "settle", "cancel", "enqueue", "plan")) > 0


@pytest.mark.parametrize("kind", SQL_STORES)
def test_what_killed_processes_did_has_an_order(kind: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with place_of(kind, tmp_path) as place, asyncio.Runner() as runner:
        store = a_store(kind, place)
        runner.run(store.open())
        names = Names.make(3)
        runner.run(names.add_to(store))
        (tmp_path / "names").write_text(names.to_json())
        racers = [Process(kind, place, tmp_path, number) for number in range(PROCESSES)]
        try:
            for life in range(10 * KILLS):
                if life >= KILLS and interrupted(tmp_path):
                    break
                victim = racers[life % PROCESSES]
                victim.wait_for(chance.randint(20, 60))
                victim.kill()
                victim.start(life + 1)
        finally:
            for one in racers:
                one.kill()
        history = recorded(tmp_path)
        history += runner.run(look(store, names))
        runner.run(store.close())
    check(history, names)
    assert interrupted(tmp_path), "kills have interrupted calls"


def recorded(folder: Path) -> list[Operation]:
    return [one for path in folder.glob("*.race") for one in read_journal(path)]


def interrupted(folder: Path) -> bool:
    """Whether a process that was killed had asked for something and not heard of it."""
    latest = {max(folder.glob(f"worker-{n}-*.race"), key=life_of) for n in range(PROCESSES)}
    ended = [path for path in folder.glob("*.race") if path not in latest]
    return any(one.is_unknown for path in ended for one in read_journal(path))


def life_of(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


class Process:
    """One racing process after another, each with a journal of its own."""

    def __init__(self, kind: str, place: str, folder: Path, number: int) -> None:
        self.kind, self.place, self.folder, self.number = kind, place, folder, number
        self.start(0)

    def start(self, life: int) -> None:
        self.journal = self.folder / f"worker-{self.number}-{life}.race"
        names = str(self.folder / "names")
        words = [self.kind, self.place, str(self.journal), str(SEED + life), names]
        self.running = subprocess.Popen(
            [sys.executable, "-m", "model_checks.racer", *words],
            env=os.environ | {"PYTHONPATH": str(TESTS)},
        )

    def wait_for(self, lines: int) -> None:
        def has_written() -> bool:
            assert self.running.poll() is None, "a racer has ended by itself"
            return self.journal.exists() and self.journal.read_text().count("\n") >= lines

        eventually_here(has_written, f"{lines} lines of {self.journal.name}")

    def kill(self) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()
