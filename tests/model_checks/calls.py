"""Calls of a store: what is asked, and the answer in a form that compares.

Each is one verb of `onbeat.ports.store.Store` with its arguments.
"""

from dataclasses import dataclass
from datetime import datetime

from onbeat.model.errors import Conflict, Invalid
from onbeat.model.ids import JobId, ScheduleId, WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.plan import Plan as StoredPlan
from onbeat.model.queue import Limits
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Settlement, Store
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import a_worker
from onbeat.testing.store_contract.steps import a_request


@dataclass(frozen=True, slots=True)
class Enqueue:
    jobs: tuple[Job, ...]

    async def run(self, store: Store) -> object:
        try:
            return [(one.id, one.created) for one in await store.enqueue(self.jobs)]
        except Invalid:
            return "invalid"


@dataclass(frozen=True, slots=True)
class Claim:
    worker: WorkerId
    now: datetime
    limit: int
    lanes: frozenset[str]
    claimed: list[Job]
    """Gets the jobs as they were given out."""

    async def run(self, store: Store) -> object:
        request = a_request(worker=self.worker, now=self.now, limit=self.limit, lanes=self.lanes)
        jobs = (await store.claim(request)).jobs
        self.claimed.extend(jobs)
        return [(job.id, int(job.token)) for job in jobs]


@dataclass(frozen=True, slots=True)
class Settle:
    lease: Job
    how: Outcome
    now: datetime

    @property
    def after(self) -> Job:
        return settle(self.lease, self.how, self.now, 0.5)

    @property
    def outcome(self) -> str:
        return attempt_of(self.lease, self.how, self.now).outcome.value

    async def run(self, store: Store) -> object:
        attempt = attempt_of(self.lease, self.how, self.now)
        (answer,) = await store.settle([Settlement(job=self.after, attempt=attempt)])
        return answer


@dataclass(frozen=True, slots=True)
class Cancel:
    id: JobId
    reason: str
    now: datetime

    async def run(self, store: Store) -> object:
        (job,) = await store.cancel([self.id], self.reason, self.now)
        return None if job is None else job.state.value


@dataclass(frozen=True, slots=True)
class Retry:
    id: JobId
    now: datetime
    dependents: bool

    async def run(self, store: Store) -> object:
        try:
            (job,) = await store.retry([self.id], self.now, dependents=self.dependents)
        except Conflict:
            return "conflict"
        return None if job is None else job.state.value


@dataclass(frozen=True, slots=True)
class PauseQueue:
    queue: str
    paused: bool

    async def run(self, store: Store) -> object:
        await store.pause_queue(self.queue, paused=self.paused)
        return None


@dataclass(frozen=True, slots=True)
class LimitQueue:
    queue: str
    concurrency: int | None

    async def run(self, store: Store) -> object:
        await store.limit_queue(self.queue, Limits(concurrency=self.concurrency))
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    plan: StoredPlan

    async def run(self, store: Store) -> object:
        (answer,) = await store.apply_plans([self.plan])
        return answer


@dataclass(frozen=True, slots=True)
class Edit:
    schedule: Schedule
    paused: bool
    plan: StoredPlan | None
    now: datetime

    async def run(self, store: Store) -> object:
        return await store.update_schedule(self.schedule, self.plan, self.now)


@dataclass(frozen=True, slots=True)
class Delete:
    id: ScheduleId
    now: datetime

    async def run(self, store: Store) -> object:
        return await store.delete_schedule(self.id, self.now)


@dataclass(frozen=True, slots=True)
class CancelOverdue:
    ids: tuple[JobId, ...]
    now: datetime

    async def run(self, store: Store) -> object:
        return await store.cancel_overdue(self.ids, "overdue", self.now)


@dataclass(frozen=True, slots=True)
class Beat:
    worker: WorkerId

    async def run(self, store: Store) -> object:
        held = await store.heartbeat(a_worker(id=self.worker))
        return [(one.job_id, int(one.token), one.cancel_reason) for one in held]


@dataclass(frozen=True, slots=True)
class Abandoned:
    dead: frozenset[WorkerId]
    now: datetime

    async def run(self, store: Store) -> object:
        return [job.id for job in await store.abandoned_jobs(self.dead, self.now, 1_000)]


@dataclass(frozen=True, slots=True)
class Forget:
    worker: WorkerId

    async def run(self, store: Store) -> object:
        return await store.forget_workers([self.worker])


@dataclass(frozen=True, slots=True)
class Prune:
    before: datetime

    async def run(self, store: Store) -> object:
        return await store.prune(
            finished_before=self.before, failed_before=self.before, limit=1_000
        )


Call = (
    Enqueue
    | Claim
    | Settle
    | Cancel
    | Retry
    | PauseQueue
    | LimitQueue
    | Plan
    | Edit
    | Delete
    | CancelOverdue
    | Beat
    | Abandoned
    | Forget
    | Prune
)


def short(call: Call) -> str:
    """The call on one line, with jobs by their ids and what counts of them."""
    match call:
        case Enqueue(jobs=jobs):
            sent = ", ".join(f"{job.id[-4:]} {job.unique} after {job.after}" for job in jobs)
            return f"Enqueue({sent})"
        case Settle(lease=lease, how=how):
            return f"Settle({lease.id[-4:]} token {lease.token}, {how})"
        case Claim(worker=worker, now=now, limit=limit):
            return f"Claim({worker}, {now:%M:%S}, {limit})"
        case Plan(plan=plan):
            return f"Plan({plan_text(plan)})"
        case Edit(schedule=schedule, paused=paused, plan=plan):
            planned = None if plan is None else plan_text(plan)
            return f"Edit({schedule.id[-4:]} to {schedule.version}, paused {paused}, {planned})"
        case _:
            return str(call)


def plan_text(plan: StoredPlan) -> str:
    jobs = ", ".join(f"{job.id[-4:]} at {job.due_at:%M:%S}" for job in plan.jobs)
    return f"{plan.schedule_id[-4:]} version {plan.version}: {jobs}, {len(plan.skips)} skips"
