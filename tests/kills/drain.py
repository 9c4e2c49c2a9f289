"""Many short jobs, and workers that are killed while they run them by the thousand.

    make kill-drain JOBS=1000000 KILLS=100 STORE=sqlite|postgres|mysql|all SEED=1

Afterwards each job has succeeded, no lease was run twice, and the last attempt of each job is the
one that ended it.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

from conditions import eventually_here
from kills.attempt_log import count_attempts, read_attempts
from kills.cycles import WITHIN, empty_stores
from kills.zygote import Forked, Zygote
from onbeat import Onbeat
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter
from proof_counts import counting

PROGRAM: Final = Path(__file__).parent / "drain_worker.py"
STORES: Final = ("sqlite", "postgres", "mysql")
BULK: Final = 5_000
WORKERS: Final = ("first", "second")


class Workers:
    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.lives: Counter[str] = Counter()
        self.running: dict[str, Forked] = {}

    def start(self, name: str) -> None:
        self.lives[name] += 1
        self.running[name] = self.zygote.fork(PROGRAM, f"{name}-{self.lives[name]}")

    def kill(self, names: list[str]) -> None:
        for name in names:
            self.running[name].signal(signal.SIGKILL)
        for name in names:
            self.running[name].wait()

    def stop(self) -> None:
        for one in self.running.values():
            one.signal(signal.SIGTERM)
        for one in self.running.values():
            one.wait()

    def check(self) -> None:
        for one in self.running.values():
            assert one.is_up, f"a worker has ended: {one.log.read_text()}"


def drain_under_kills(url: str, place: Path, jobs: int, kills: int, seed: int) -> Counter[str]:
    """The figures; raises `AssertionError` for a promise that was broken."""
    (place / "store").write_text(url)
    ids = asyncio.run(send(url, jobs))
    chance = random.Random(seed)
    figures: Counter[str] = Counter(jobs=jobs)
    began = time.monotonic()
    with Zygote.running(place) as zygote:
        workers = Workers(zygote)
        for name in WORKERS:
            workers.start(name)
        while figures["kills"] < kills:
            # The first kills come before a worker has got going, the last ones near the end.
            goal = jobs * (figures["kills"] + chance.uniform(0.1, 0.9)) / (kills + 1)
            eventually_here(partial(has_begun, workers, place, goal), "jobs run", WITHIN)
            victims = chance.choice([["first"], ["second"], list(WORKERS)])
            workers.kill(victims)
            figures["kills"] += len(victims)
            for name in victims:
                workers.start(name)
        finish(workers, url)
    figures["seconds"] = round(time.monotonic() - began)
    asyncio.run(check(url, place, ids, figures))
    return figures


def finish(workers: Workers, url: str) -> None:
    """A job may be rescued between the two readings of a look, so look again when nothing moves."""
    while True:
        eventually_here(lambda: asyncio.run(is_empty(url)), "all jobs have ended", WITHIN)
        workers.stop()
        if asyncio.run(is_empty(url)):
            return
        for name in WORKERS:
            workers.start(name)


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Onbeat]:
    beat = Onbeat(url)
    await beat.backend.open()
    try:
        yield beat
    finally:
        await beat.aclose()


async def send(url: str, count: int) -> set[JobId]:
    ids: set[JobId] = set()
    async with opened(url) as beat:

        @beat.task("work")
        async def work() -> None: ...

        for first in range(0, count, BULK):
            calls = [work.call() for _ in range(first, min(first + BULK, count))]
            ids |= {job.id for job in await beat.asend(calls)}
    return ids


def has_begun(workers: Workers, place: Path, count: float) -> bool:
    workers.check()
    return count_attempts(place) >= count


async def is_empty(url: str) -> bool:
    live = [JobFilter(state=state, limit=1) for state in (JobState.WAITING, JobState.RUNNING)]
    async with opened(url) as beat:
        return not any([(await beat.backend.store.jobs(one)).items for one in live])


async def check(url: str, place: Path, sent: set[JobId], figures: Counter[str]) -> None:
    attempts = read_attempts(place)
    figures["attempts"] = sum(map(len, attempts.values()))
    async for job in stored_jobs(url):
        sent.remove(job.id)
        check_job(job, attempts[job.id])
        figures["lost_attempts"] += job.lost
    assert not sent, f"{len(sent):,} jobs are not stored"


async def stored_jobs(url: str) -> AsyncIterator[Job]:
    async with opened(url) as beat:
        before = None
        while True:
            page = await beat.backend.store.jobs(JobFilter(limit=1_000, before=before))
            for job in page.items:
                yield job
            if len(page.items) < 1_000:
                return
            before = page.items[-1].id


def check_job(job: Job, attempts: list[tuple[int, int]]) -> None:
    assert job.state is JobState.SUCCEEDED, f"{job.id} {job.state}: {job.reason}"
    tokens = [token for token, _ in sorted(attempts, key=began)]
    assert tokens == sorted(set(tokens)), f"{job.id}: run under the leases {tokens}, in this order"
    # A job that ran again after its end would have done so under a later lease.
    assert tokens, f"{job.id} has succeeded and never ran"
    assert tokens[-1] == job.token, f"{job.id}: ended under lease {job.token}, run under {tokens}"


def began(attempt: tuple[int, int]) -> int:
    return attempt[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="kill-drain", description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, default=1)
    request = parser.parse_args()
    for kind in STORES if request.store == "all" else (request.store,):
        with (
            tempfile.TemporaryDirectory(prefix="onbeat-kill-drain-") as folder,
            empty_stores(kind) as store,
            store(Path(folder)) as url,
            counting("kill cycles", kind) as counts,
        ):
            figures = drain_under_kills(
                url, Path(folder), request.jobs, request.kills, request.seed
            )
            counts.add(kills=figures["kills"])
            sys.stdout.write(f"{kind}: {dict(figures)}, no violation\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
