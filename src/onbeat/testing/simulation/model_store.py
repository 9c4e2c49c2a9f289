"""A store for simulations: the memory store, made as weak as SQL at READ COMMITTED.

What SQL does in several statements reads here, lets others go on, and writes under what the schema
enforces: the `Guard`s. What SQL does in several transactions is done in pieces, of which the last
may be missing. Every row that changes is checked against the state machine of jobs.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from threading import Lock
from typing import Final

from msgspec.structs import replace

from onbeat.model.errors import Unavailable
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.plan import Plan
from onbeat.model.worker import is_carried
from onbeat.ports.store import Claimed, ClaimRequest, Enqueued, Hint, Settlement
from onbeat.rules.claims import as_claimed
from onbeat.stores.memory import MemoryStore, dependents, idempotency
from onbeat.stores.memory import claim as claim_verb
from onbeat.stores.memory import enqueue as enqueue_verb
from onbeat.stores.memory import plans as plan_verbs
from onbeat.stores.memory import settle as settle_verb
from onbeat.stores.memory.store import TablesLock
from onbeat.stores.memory.tables import Tables
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.clocks import ProcessClock
from onbeat.testing.simulation.journal import Journal
from onbeat.testing.simulation.options import SimulationOptions

OnHints = Callable[[Sequence[Hint]], None]


class Guard(StrEnum):
    """What makes a verb of several statements safe against others.

    OCCURRENCE: the lock on the row of a schedule, and the unique index on its occurrences.
    UNIQUE_KEY: the unique index on the keys of live jobs. FENCE: a settlement names the token.
    RECHECK: a claim looks at the row again after it has its lock. CANCEL_LOCK: a cancel locks the
    rows before it decides.
    """

    OCCURRENCE = "occurrence"
    UNIQUE_KEY = "unique key"
    FENCE = "fence"
    RECHECK = "recheck"
    CANCEL_LOCK = "cancel lock"


ALL_GUARDS: Final = frozenset(Guard)


class WatchedTables(Tables):
    """Tables that check each change of a job: its state, its token, and the limits of its queue."""

    def __init__(self, journal: Journal, keep: float) -> None:
        super().__init__()
        self.journal = journal
        self.keep = keep
        self.is_retry = False
        self.begun_occurrences: dict[tuple[str, datetime], str] = {}

    def put_job(self, job: Job) -> None:
        old = self.jobs.get(job.id)
        self.check(old, job)
        super().put_job(job)
        self.check_limit(job)

    def check(self, old: Job | None, job: Job) -> None:
        self.check_occurrence(job)
        self.check_key(job)
        if old is None:
            return
        journal = self.journal
        if old.is_final and old.state is not job.state and not self.is_retry:
            journal.violate("I2", f"job {job.id} was {old.state} and is {job.state}")
        if job.token < old.token:
            journal.violate("I4", f"job {job.id}: its token falls from {old.token} to {job.token}")
        if job.state is JobState.RUNNING and old.state is JobState.RUNNING:
            is_start = is_carried(old.worker) or old.lease_until is not None  # of a claimed job
            if not is_start and job.started_at != old.started_at and job.token == old.token:
                journal.violate("I4", f"job {job.id} is claimed twice with token {job.token}")
        if job.state is JobState.RUNNING and old.is_final:
            journal.violate("I16", f"job {job.id} runs after it was {old.state}")

    def check_occurrence(self, job: Job) -> None:
        """One job that has begun for an instant, also where the first is pruned by now."""
        if job.schedule_id is None or job.occurrence is None or not job.token:
            return
        if self.journal.may_plan_again(job.schedule_id, self.keep):
            return
        key = job.schedule_id, job.occurrence
        first = self.begun_occurrences.setdefault(key, job.id)
        if first != job.id:
            self.journal.violate(
                "I17", f"jobs {first} and {job.id} of one schedule ran for {job.occurrence}"
            )

    def check_key(self, job: Job) -> None:
        holder = None if job.unique is None or job.is_final else self.holders.get(job.unique)
        if holder not in {None, job.id}:
            self.journal.violate("I8", f"jobs {holder} and {job.id} live with key {job.unique}")

    def check_limit(self, job: Job) -> None:
        limits = self.limits.get(job.queue)
        if limits is None or limits.concurrency is None or job.state is not JobState.RUNNING:
            return
        running = sum(
            1
            for other in self.jobs.values()
            if other.queue == job.queue and other.state is JobState.RUNNING
        )
        if running > limits.concurrency:
            self.journal.violate(
                "I8", f"queue {job.queue} runs {running} jobs, of {limits.concurrency}"
            )


class ModelTransaction(TablesLock):
    """The context of a verb. No lock: there is one thread. Hints are told in a fixed order."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, Lock(), set())
        self.on_hints: OnHints = lambda _hints: None

    def __enter__(self) -> Tables:
        return self.tables

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        tables = self.tables
        if kind is None and tables.hints:
            hints, tables.hints = sorted(tables.hints, key=hint_order), set()
            self.on_hints(hints)


class ModelStore(MemoryStore):
    """The shared store. `clock` is its own; `transaction.on_hints` hears of changes.

    `guards` are those in force: all, but where a test takes one away to be found out.
    """

    guards: frozenset[Guard] = ALL_GUARDS

    def __init__(
        self, options: SimulationOptions, clock: ProcessClock, chance: Chance, journal: Journal
    ) -> None:
        super().__init__()
        self._tables = self.tables = WatchedTables(journal, options.keep)
        self.transaction = ModelTransaction(self.tables)
        self.options = options
        self.clock = clock
        self.chance = chance
        self.journal = journal

    def lock_tables(self) -> TablesLock:
        return self.transaction

    async def now(self) -> datetime | None:
        return self.clock.now()

    async def other_statement(self) -> None:
        """Between two statements of a transaction others may commit."""
        if not self.options.serial:
            await asyncio.sleep(self.options.latency * self.chance.fraction())

    def breaks_off(self) -> bool:
        """Whether what follows the transaction just committed is not done."""
        return not self.options.serial and self.chance.happens(self.options.partial_writes)

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        if Guard.OCCURRENCE in self.guards:
            return await super().apply_plans(plans)
        taken = [
            {
                job.id
                for job in plan.jobs
                if job.occurrence is not None
                and self._tables.dispositions.at(plan.schedule_id, job.occurrence) is not None
            }
            for plan in plans
        ]
        await self.other_statement()
        with self.lock_tables() as tables:
            return tuple(
                apply_unguarded(tables, plan, read) for plan, read in zip(plans, taken, strict=True)
            )

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        if Guard.UNIQUE_KEY in self.guards:
            return await super().enqueue(jobs, keyed)
        jobs = enqueue_verb.resolve(self._tables, jobs)
        holders = {job.id: enqueue_verb.find_existing(self._tables, job) for job in jobs}
        await self.other_statement()
        with self.lock_tables() as tables:
            return idempotency.run(
                tables, keyed, lambda: [enqueue_unguarded(tables, job, holders) for job in jobs]
            )

    async def claim(self, request: ClaimRequest) -> Claimed:
        if Guard.RECHECK not in self.guards:
            return await self.claim_unguarded(request)
        first = max(1, request.limit // 2)
        if self.options.serial or first == request.limit or self.chance.happens(0.5):
            return await super().claim(request)
        begun = await super().claim(replace(request, limit=first))
        if len(begun.jobs) < first:
            return begun
        if self.breaks_off():
            raise Unavailable("the store went away between two rounds of a claim")
        await self.other_statement()
        rest = await super().claim(replace(request, limit=request.limit - first))
        return Claimed(jobs=(*begun.jobs, *rest.jobs), next_due_at=rest.next_due_at)

    async def claim_unguarded(self, request: ClaimRequest) -> Claimed:
        tables = self._tables
        seen = [
            tables.jobs[id]
            for line, keys in tables.ready_lists.items()
            if claim_verb.can_take(tables, request, line)
            for _, id in keys.before((request.now, JobId(chr(0x10FFFF))))
        ][: request.limit]
        await self.other_statement()
        with self.lock_tables() as tables:
            jobs = [as_claimed(one, request.worker, request.now, None) for one in seen]
            for job in jobs:
                tables.put_job(job)
        return Claimed(jobs=tuple(jobs), next_due_at=None)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        if Guard.FENCE not in self.guards:
            with self.lock_tables() as tables:
                return tuple(settle_unguarded(tables, one) for one in settlements)
        if self.options.serial or len(settlements) < 2:
            return await super().settle(settlements)
        half = len(settlements) // 2
        first = await super().settle(settlements[:half])
        if self.breaks_off():
            raise Unavailable("the store went away between two transactions of a settlement")
        await self.other_statement()
        return (*first, *await super().settle(settlements[half:]))

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        if Guard.CANCEL_LOCK in self.guards:
            return await super().cancel(ids, reason, now)
        seen = {id: self._tables.jobs[id].state for id in ids if id in self._tables.jobs}
        await self.other_statement()
        with self.lock_tables() as tables:
            for id, state in seen.items():
                if id in tables.jobs and tables.jobs[id].state is state:
                    dependents.cancel(tables, [id], reason, now)
            return tuple(tables.jobs.get(id) for id in ids)

    async def retry(
        self,
        ids: Sequence[JobId],
        now: datetime,
        keyed: KeyedRequest | None = None,
        *,
        dependents: bool = True,
        at_once: bool = True,
    ) -> Sequence[Job | None]:
        self.tables.is_retry = True
        try:
            return await super().retry(ids, now, keyed, dependents=dependents, at_once=at_once)
        finally:
            self.tables.is_retry = False


SPLIT: Final = frozenset({"apply_plans", "enqueue", "claim", "settle", "succeed", "cancel"})
"""The verbs that may let others go on before they return."""


def hint_order(hint: Hint) -> int:
    number: int = hint.value
    return number


def apply_unguarded(tables: Tables, plan: Plan, taken: Collection[JobId]) -> bool:
    """Adds the jobs of instants that were free when it looked."""
    schedule = tables.schedules.get(plan.schedule_id)
    if schedule is None or schedule.version != plan.version:
        return False
    for job in plan.jobs:
        if job.id not in taken and not plan_verbs.add_planned(tables, job):
            tables.put_job(job)
    plan_verbs.store_plan(tables, schedule, replace(plan, jobs=()))
    return True


def enqueue_unguarded(tables: Tables, job: Job, holders: Mapping[JobId, JobId | None]) -> Enqueued:
    """Adds the job if its key was free when it looked."""
    holder = holders[job.id]
    if holder is not None and job.id not in tables.jobs:
        return Enqueued(holder, created=False)
    if job.id not in tables.jobs:
        enqueue_verb.add_new(tables, job)
    return Enqueued(job.id, created=True)


def settle_unguarded(tables: Tables, settlement: Settlement) -> bool:
    """Writes whatever the attempt says, under whichever lease the job runs."""
    stored = tables.jobs.get(settlement.attempt.job_id)
    if stored is None or stored.is_final:
        return settle_verb.settle_one(tables, settlement)
    tables.attempts[stored.id].append(settlement.attempt)
    settled = settle_verb.merge_settlement(stored, settlement)
    if settled.is_final:
        dependents.end(tables, settled, settlement.attempt.finished_at)
    else:
        tables.put_job(settled)
    return True
