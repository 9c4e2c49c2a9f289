"""Callers that race on a few jobs, keys and schedules, and record what they ask and hear.

As a program it is one process of several, which may be killed at any time:
`python -m model_checks.racer KIND PLACE JOURNAL SEED NAMES`.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from msgspec import json as msgspec_json
from msgspec.structs import replace

from model_checks.linearizability import NEVER, UNKNOWN, Operation
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, ScheduleId, WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Failed, Lost, Outcome, Released, Succeeded
from onbeat.model.schedule import Schedule
from onbeat.ports.store import ClaimRequest, Settlement, Store
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import HOUR, NOW, SECOND, a_job, a_plan, a_schedule, an_occurrence

OUTCOMES: dict[str, Outcome] = {
    "succeed": Succeeded(),
    "fail": Failed("it broke", retryable=False),
    "release": Released(),
    # Beside so many others that it is no evidence against the job.
    "lose": Lost("its worker died", company=1_000),
}
LATER = NOW + HOUR
STORE_CLASSES = {
    "sqlite": ("onbeat.stores.sqlite.store", "SqliteStore"),
    "postgres": ("onbeat.stores.postgres.store", "PostgresStore"),
    "mysql": ("onbeat.stores.mysql.store", "MysqlStore"),
}


class Journal(Protocol):
    def intend(self, number: int, who: str, key: str, verb: str, argument: Any) -> None: ...

    def hear(self, number: int, answer: Any) -> None: ...


class Kept:
    """A journal in memory; each thread has its own."""

    def __init__(self) -> None:
        self.begun: dict[int, tuple[str, str, str, Any, float]] = {}
        self.heard: dict[int, tuple[Any, float]] = {}

    def intend(self, number: int, who: str, key: str, verb: str, argument: Any) -> None:
        self.begun[number] = (who, key, verb, argument, time.monotonic())

    def hear(self, number: int, answer: Any) -> None:
        self.heard[number] = (answer, time.monotonic())

    def operations(self) -> list[Operation]:
        made: list[Operation] = []
        for number, (who, key, verb, argument, called) in self.begun.items():
            answer, returned = self.heard.get(number, (UNKNOWN, NEVER))
            returned = NEVER if answer == UNKNOWN else returned
            made.append(Operation(who, key, verb, argument, answer, called, returned))
        return made


class Written(Kept):
    """A journal whose lines are with the system before the call, and right after its answer."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = path.open("a", buffering=1)

    def intend(self, number: int, who: str, key: str, verb: str, argument: Any) -> None:
        line = {"n": number, "who": who, "key": key, "verb": verb, "argument": argument}
        self.file.write(json.dumps(line | {"at": time.monotonic()}) + "\n")

    def hear(self, number: int, answer: Any) -> None:
        self.file.write(json.dumps({"n": number, "answer": answer, "at": time.monotonic()}) + "\n")


def read_journal(path: Path) -> list[Operation]:
    """The operations of a journal, whose last line may be cut off."""
    kept = Kept()
    for text in path.read_text().split("\n")[:-1]:
        line = json.loads(text)
        if "verb" in line:
            argument = hashable(line["argument"])
            kept.begun[line["n"]] = (line["who"], line["key"], line["verb"], argument, line["at"])
        else:
            kept.heard[line["n"]] = (hashable(line["answer"]), line["at"])
    return kept.operations()


def hashable(value: Any) -> Any:
    match value:
        case [*items]:
            return tuple(hashable(item) for item in items)
        case _:
            return value


class Names:
    """The objects of a race: jobs with a lane each, unique keys, schedules."""

    def __init__(self, jobs: list[Job], keys: list[str], schedules: list[Schedule]) -> None:
        self.jobs, self.keys, self.schedules = jobs, keys, schedules

    @classmethod
    def make(cls, count: int, turn: int = 0) -> "Names":
        """Those of one turn: what is left of another in the same store is in lanes of its own."""
        keys = [f"key-{turn}-{number}" for number in range(count)]
        jobs = [a_job(f"lane-{turn}-{number}") for number in range(count)]
        return cls(jobs, keys, [a_schedule() for _ in range(count)])

    async def add_to(self, store: Store) -> None:
        await store.enqueue(self.jobs)
        for schedule in self.schedules:
            await store.add_schedule(schedule, a_plan(schedule))

    def to_json(self) -> str:
        made = {"jobs": self.jobs, "keys": self.keys, "schedules": self.schedules}
        return msgspec_json.encode(made).decode()

    @classmethod
    def from_json(cls, text: str) -> "Names":
        known = json.loads(text)
        jobs = [a_job(one["target"]["task"], id=JobId(one["id"])) for one in known["jobs"]]
        schedules = [a_schedule(id=ScheduleId(one["id"])) for one in known["schedules"]]
        return cls(jobs, known["keys"], schedules)


class Racer:
    """One caller: it reads an object, and does something to it, wise or not."""

    def __init__(self, store: Store, who: str, names: Names, journal: Journal, seed: int) -> None:
        self.store, self.who, self.names, self.journal = store, who, names, journal
        self.chance = random.Random(f"{seed} {who}")
        self.number = 0
        self.leases: dict[str, list[Job]] = {}
        self.sent: list[tuple[str, JobId]] = []

    async def ask(self, key: str, verb: str, argument: Any, call: Awaitable[Any]) -> Any:
        self.number += 1
        self.journal.intend(self.number, self.who, key, verb, argument)
        try:
            answer = await call
        except Unavailable:
            answer = UNKNOWN
        self.journal.hear(self.number, answer)
        return answer

    async def step(self) -> None:
        kinds: list[Callable[[], Awaitable[None]]] = [self.job_step] * 4
        kind = self.chance.choice([*kinds, self.key_step, self.schedule_step])
        # A store that is busy may refuse to be read; what it does to calls is in the journal.
        with suppress(Unavailable):
            await kind()

    async def job_step(self) -> None:
        job = self.chance.choice(self.names.jobs)
        stored = await self.store.job(job.id)
        assert stored is not None
        draw = self.chance.random()
        if draw < 0.1:
            await self.ask(job.id, "cancel", None, self.cancel(job.id))
        elif draw < 0.25:
            await self.ask(job.id, "retry", None, self.retry(job.id))
        elif draw < 0.4 and self.leases.get(job.id):
            await self.settle(self.chance.choice(self.leases[job.id]))
        elif stored.state is JobState.RUNNING:
            self.leases.setdefault(job.id, []).append(stored)
            await self.settle(stored)
        else:
            await self.ask(job.id, "claim", None, self.claim(stored))

    async def claim(self, job: Job) -> int | None:
        worker = WorkerId(self.who)
        lanes = frozenset({str(getattr(job.target, "task", ""))})
        request = ClaimRequest(worker=worker, now=LATER, limit=1, lanes=lanes)
        claimed = (await self.store.claim(request)).jobs
        self.leases.setdefault(job.id, []).extend(claimed)
        return int(claimed[0].token) if claimed else None

    async def settle(self, lease: Job) -> None:
        how = self.chance.choice(["succeed", "fail", "release", "release", "lose"])
        outcome, before = OUTCOMES[how], replace(lease, cancel_reason=None)
        after, attempt = settle(before, outcome, NOW, 0.0), attempt_of(before, outcome, NOW)

        async def call() -> bool:
            (answer,) = await self.store.settle([Settlement(job=after, attempt=attempt)])
            return answer

        await self.ask(lease.id, "settle", (int(lease.token), how), call())

    async def cancel(self, id: JobId) -> str | None:
        (job,) = await self.store.cancel([id], "by hand", NOW)
        return None if job is None else job.state.value

    async def retry(self, id: JobId) -> str | None:
        (job,) = await self.store.retry([id], NOW)
        return None if job is None else job.state.value

    async def key_step(self) -> None:
        key = self.chance.choice(self.names.keys)
        if self.sent and self.chance.random() < 0.5:
            unique, sent = self.chance.choice(self.sent)
            await self.ask(unique, "cancel", sent, self.cancel(sent))
            return
        # Ids of several processes differ by their last digits.
        new = a_job("keyed", unique=key)
        id = JobId(new.id[:24] + f"{self.chance.getrandbits(48):012x}")
        self.sent.append((key, id))

        async def call() -> str:
            (answer,) = await self.store.enqueue([replace(new, id=id)])
            return answer.id

        await self.ask(key, "enqueue", id, call())

    async def schedule_step(self) -> None:
        schedule = self.chance.choice(self.names.schedules)
        stored = await self.store.schedule(schedule.id)
        assert stored is not None
        if self.chance.random() < 0.3:
            # No two are alike, as the same edit again is the same one repeated.
            name = f"{self.who} {self.number}"
            edited = replace(schedule, version=stored.version + 1, name=name)
            call = self.store.update_schedule(edited, None, NOW)
            await self.ask(schedule.id, "edit", edited.version, call)
            return
        places = sorted(self.chance.sample(range(8), 2))
        jobs: list[Job] = []
        for place in places:
            job = an_occurrence(schedule, NOW + place * SECOND)
            jobs.append(replace(job, id=JobId(job.id[:24] + f"{self.chance.getrandbits(48):012x}")))

        async def plan() -> bool:
            (answer,) = await self.store.apply_plans([a_plan(stored, *jobs)])
            return answer

        argument = (stored.version, tuple(zip(places, [job.id for job in jobs], strict=True)))
        await self.ask(schedule.id, "plan", argument, plan())


async def look(store: Store, names: Names) -> list[Operation]:
    """What is stored in the end, as operations after all others."""
    at = time.monotonic()
    seen: list[Operation] = []
    for named in names.jobs:
        job = await store.job(named.id)
        assert job is not None, "an accepted job is lost"
        answer = (job.state.value, int(job.token))
        seen.append(Operation("end", job.id, "read", None, answer, at, at))
    for schedule in names.schedules:
        rows = await store.dispositions(schedule.id, NOW - HOUR, NOW + HOUR)
        jobs = frozenset(((row.first - NOW) // SECOND, row.job_id) for row in rows)
        seen.append(Operation("end", schedule.id, "read", None, jobs, at, at))
    return seen


def a_store(kind: str, place: str) -> Store:
    """Imports the driver of this store alone, as processes start often."""
    module, name = STORE_CLASSES[kind]
    store: Store = getattr(import_module(module), name)(place)
    return store


async def race_until_killed(kind: str, place: str, journal: Path, seed: int, names: Names) -> None:
    store = a_store(kind, place)
    await store.open()
    racer = Racer(store, journal.stem, names, Written(journal), seed)
    while True:
        await racer.step()


if __name__ == "__main__":
    kind, place, journal, seed, path = sys.argv[1:]
    names = Names.from_json(Path(path).read_text())
    asyncio.run(race_until_killed(kind, place, Path(journal), int(seed), names))
