"""Measure the SQLite store alone, with synchronous=FULL.

    python benchmarks/store_sqlite.py [--dir DIR] [--rounds N] [--beside]

`--beside` repeats everything beside a thread that is always busy, like a busy event loop.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import ClaimRequest, Settlement
from onbeat.stores.sqlite.doctor import fsync_time
from onbeat.stores.sqlite.store import SqliteStore

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
WORKER = WorkerId("worker")
CALLERS = 64

numbers = iter(range(10**9))


def some_jobs(count: int, due_at: datetime = NOW) -> list[Job]:
    target = HandlerTarget("work")
    return [
        Job(
            id=JobId(f"0190a0b0-0000-7000-8000-{next(numbers):012d}"),
            target=target,
            created_at=NOW,
            due_at=due_at,
        )
        for _ in range(count)
    ]


async def enqueue_by_callers(store: SqliteStore, count: int) -> float:
    """Each caller waits for its answer before it goes on; ids rise with time, like real ones."""

    async def call() -> None:
        for _ in range(count // CALLERS):
            await store.enqueue(some_jobs(1))

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return count / (time.perf_counter() - started)


async def enqueue_in_bulk(store: SqliteStore, count: int) -> float:
    share = [some_jobs(10_000) for _ in range(count // 10_000)]
    started = time.perf_counter()
    for jobs in share:
        await store.enqueue(jobs)
    return count / (time.perf_counter() - started)


async def drain(store: SqliteStore, count: int, batch: int = 100) -> float:
    for _ in range(count // 10_000):
        await store.enqueue(some_jobs(10_000))
    request = ClaimRequest(worker=WORKER, now=NOW, limit=batch, lanes=frozenset({"work"}))
    started = time.perf_counter()
    done = 0
    while done < count:
        jobs = (await store.claim(request)).jobs
        answers = await store.settle([settlement(job) for job in jobs])
        assert all(answers)
        done += len(jobs)
    return done / (time.perf_counter() - started)


def settlement(job: Job) -> Settlement:
    assert job.started_at is not None
    attempt = Attempt(
        job_id=job.id,
        token=job.token,
        number=job.attempt,
        worker=job.worker,
        started_at=job.started_at,
        finished_at=NOW,
        outcome=OutcomeName.SUCCEEDED,
    )
    ended = replace(job, state=JobState.SUCCEEDED, worker=None, finished_at=NOW)
    return Settlement(job=ended, attempt=attempt)


async def claim_milliseconds(store: SqliteStore, waiting: int) -> float:
    """The median time of a claim of 100 with as many due as later jobs in one lane."""
    for due_at in (NOW, NOW + timedelta(days=1)):
        for _ in range(waiting // 20_000):
            await store.enqueue(some_jobs(10_000, due_at))
    request = ClaimRequest(worker=WORKER, now=NOW, limit=100, lanes=frozenset({"work"}))
    times = []
    for _ in range(50):
        started = time.perf_counter()
        assert len((await store.claim(request)).jobs) == 100
        times.append((time.perf_counter() - started) * 1_000)
    return statistics.median(times)


async def alone(folder: str, measure: Callable[[SqliteStore], Awaitable[float]]) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = SqliteStore(str(Path(place) / "onbeat.db"))
        await store.open()
        try:
            return await measure(store)
        finally:
            await store.close()


@contextlib.contextmanager
def restless_thread() -> Iterator[None]:
    """Holds the interpreter whenever it can."""
    done = threading.Event()

    def spin() -> None:
        while not done.is_set():
            sum(range(1_000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


MEASURES: tuple[tuple[str, str, Callable[[SqliteStore], Awaitable[float]]], ...] = (
    ("enqueue, 64 callers", "jobs/s", lambda store: enqueue_by_callers(store, 64_000)),
    ("enqueue, bulk of 10,000", "jobs/s", lambda store: enqueue_in_bulk(store, 200_000)),
    ("claim 100 + settle 100", "jobs/s", lambda store: drain(store, 40_000)),
    ("claim 100 of 10,000 jobs", "ms", lambda store: claim_milliseconds(store, 20_000)),
)
LARGE = ("claim 100 of 1,000,000 jobs", "ms", lambda store: claim_milliseconds(store, 1_000_000))


def report(folder: str, rounds: int) -> None:
    for name, unit, measure in (*MEASURES, LARGE):
        times = 1 if name == LARGE[0] else rounds
        result = [asyncio.run(alone(folder, measure)) for _ in range(times)]
        middle = statistics.median(result)
        print(f"{name:30} {middle:12,.2f} {unit:7} ({min(result):,.2f} to {max(result):,.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", action="store_true")
    options = parser.parse_args()
    fsync = fsync_time(str(Path(options.dir) / "probe")).value
    print(f"{os.cpu_count()} cores, fsync {fsync}, median of {options.rounds} (least to most)")
    report(options.dir, options.rounds)
    if options.beside:
        print("beside a thread that never rests:")
        with restless_thread():
            for name, unit, measure in MEASURES[:1] + MEASURES[2:3]:
                print(f"{name:30} {asyncio.run(alone(options.dir, measure)):12,.2f} {unit}")


if __name__ == "__main__":
    main()
