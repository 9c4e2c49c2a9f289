"""Lives of a real SQLite store, each ended by a power cut and begun from what it left."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter
from onbeat.ports.store import Store
from onbeat.stores.sqlite import ballast, writer
from onbeat.stores.sqlite.store import SqliteStore, Synchronous
from onbeat.testing.build import MINUTE, NOW, a_job, a_plan, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import a_request, a_settlement
from power.disk import REMAINS, Disk

LIVES: Final = 12  # of one store; then the next begins with an empty file
STEPS_MAX: Final = 90  # of a life until its cut: more than most lives have
CALLERS: Final = 4
CALLS: Final = 4
LOG_BYTES_MAX: Final = 40 * 4_096
LOG_BYTES_STEP: Final = 4_096
FILE: Final = "onbeat.db"


@dataclass
class Sums:
    """Of cuts, of facts that were acknowledged before one, and of those that were gone after it."""

    cuts: int = 0
    cuts_amid: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    failures: int = 0


@dataclass
class Known:
    """What the store has answered about a job."""

    state: JobState | None = None
    token: int = 0


Facts = dict[JobId, Known]
Call = Callable[[Store, Facts, random.Random], Awaitable[None]]


@contextmanager
def often_checkpointed() -> Iterator[None]:
    """So often that cuts fall before, amid and after checkpoints."""
    kept = ballast.LOG_BYTES_MAX, writer.LOG_BYTES_STEP
    ballast.LOG_BYTES_MAX, writer.LOG_BYTES_STEP = LOG_BYTES_MAX, LOG_BYTES_STEP  # type: ignore[misc]
    try:
        yield
    finally:
        ballast.LOG_BYTES_MAX, writer.LOG_BYTES_STEP = kept  # type: ignore[misc]


async def cut_power(
    folder: Path,
    cuts: int,
    seed: int,
    synchronous: Synchronous = "FULL",
    *,
    fails: bool = False,
) -> Sums:
    """Run lives of stores in this folder until the power was cut so many times.

    If the disk `fails`, it refuses some flushes before that.
    """
    sums = Sums()
    disk = Disk()
    try:
        with often_checkpointed():
            for number in range(-(-cuts // LIVES)):
                place = folder / str(number)
                chance = random.Random(f"{seed} {number}")
                lives = min(LIVES, cuts - sums.cuts)
                await live(disk, place, lives, chance, synchronous, sums, fails=fails)
                shutil.rmtree(place)
    finally:
        disk.unregister()
    return sums


async def live(
    disk: Disk,
    place: Path,
    lives: int,
    chance: random.Random,
    synchronous: Synchronous,
    sums: Sums,
    *,
    fails: bool,
) -> None:
    facts: Facts = {}
    (place / "0").mkdir(parents=True)
    for life in range(lives):
        disk.insert(place / str(life))
        store = SqliteStore(str(place / str(life) / FILE), synchronous=synchronous)
        cut = Cut(disk, place / str(life + 1), chance.getrandbits(64), facts)
        steps = chance.randint(1, STEPS_MAX)
        if chance.random() < 0.2:
            cut.come_after(steps)  # it may fall amid the migration or the recovery
        await store.open()
        await check(store, facts, sums)
        if not cut.has_come:
            cut.come_after(steps)
        disk.failing = random.Random(chance.random()) if fails else None
        await work(store, facts, chance)
        disk.failing = None
        sums.failures, disk.failures = sums.failures + disk.failures, 0
        sums.cuts += 1
        sums.cuts_amid += cut.has_come
        cut.come()
        facts = cut.facts
        await store.close()
    await check_last(place / str(lives), facts, sums)


async def check_last(folder: Path, facts: Facts, sums: Sums) -> None:
    store = SqliteStore(str(folder / FILE))
    await store.open()
    try:
        await check(store, facts, sums)
    finally:
        await store.close()


async def check(store: Store, facts: Facts, sums: Sums) -> None:
    """The file is whole, and every fact is in it. What was under way may be there or not."""
    findings = {finding.name: finding for finding in await store.doctor()}
    assert findings["integrity"].ok, findings["integrity"].value
    jobs = {job.id: job for job in await all_jobs(store)}
    sums.acknowledged += len(facts)
    sums.lost += [f"{id} {known}" for id, known in facts.items() if not holds(jobs.get(id), known)]


async def all_jobs(store: Store) -> list[Job]:
    result: list[Job] = []
    while True:
        before = result[-1].id if result else None
        page = await store.jobs(JobFilter(limit=1000, before=before))
        result += page.items
        if len(page.items) < 1000:
            return result


def holds(job: Job | None, known: Known) -> bool:
    return (
        job is not None
        and job.token >= known.token
        and (known.state is None or job.state is known.state)
    )


class Cut:
    """Leaves in `folder` what the disk holds when it comes, and the facts known by then."""

    def __init__(self, disk: Disk, folder: Path, seed: int, facts: Facts) -> None:
        self.disk = disk
        self.folder = folder
        self.chance = random.Random(seed)  # another thread draws from it
        self.known = facts
        self.facts = facts
        self.has_come = False

    def come_after(self, steps: int) -> None:
        self.disk.cut_after(steps, self.fall)

    def come(self) -> None:
        """Now, if it has not come yet."""
        with self.disk.lock:
            self.disk.cut_at = None
            if not self.has_come:
                self.fall()

    def fall(self) -> None:
        self.has_come = True
        self.facts = copied(self.known)
        self.folder.mkdir()
        remains = self.chance.choice(REMAINS)
        for file, content in self.disk.platter.after_cut(remains, self.chance).items():
            (self.folder / Path(file).name).write_bytes(content)


def copied(facts: Facts) -> Facts:
    return {id: Known(one.state, one.token) for id, one in list(facts.items())}


async def work(store: Store, facts: Facts, chance: random.Random) -> None:
    """Callers that write down what they are answered, at once and not before."""
    calls = [send, claim_and_settle, plan, cancel]
    for _ in range(CALLS):
        await asyncio.gather(
            *(ask(chance.choice(calls), store, facts, chance) for _ in range(CALLERS))
        )


async def ask(call: Call, store: Store, facts: Facts, chance: random.Random) -> None:
    """What is refused is not acknowledged: it may be there or not."""
    with suppress(Unavailable):
        await call(store, facts, chance)


async def send(store: Store, facts: Facts, chance: random.Random) -> None:
    jobs = [a_job() for _ in range(chance.choice((1, 1, 1, 20)))]
    await store.enqueue(jobs)
    facts.update((job.id, Known()) for job in jobs)


async def claim_and_settle(store: Store, facts: Facts, chance: random.Random) -> None:
    for job in (await store.claim(a_request(limit=4))).jobs:
        facts.setdefault(job.id, Known()).token = job.token
        if all(await store.settle([a_settlement(job)])):
            facts[job.id].state = JobState.SUCCEEDED


async def plan(store: Store, facts: Facts, chance: random.Random) -> None:
    schedule = a_schedule()
    jobs = [an_occurrence(schedule, NOW + n * MINUTE) for n in range(3)]
    await store.add_schedule(schedule, a_plan(schedule, *jobs))
    facts.update((job.id, Known()) for job in jobs)


async def cancel(store: Store, facts: Facts, chance: random.Random) -> None:
    waiting = [id for id, one in facts.items() if one.state is None and not one.token]
    if waiting:
        id = chance.choice(waiting)
        (job,) = await store.cancel([id], "by hand", NOW)
        if job is not None and job.state is JobState.CANCELLED:
            facts[id].state = JobState.CANCELLED
