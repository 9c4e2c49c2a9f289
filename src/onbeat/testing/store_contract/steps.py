"""Common steps of the store tests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.plan import Plan
from onbeat.model.queue import NO_LIMITS
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Schedule
from onbeat.ports.store import ClaimRequest, Settlement, Store
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import MINUTE, NOW, a_job, a_plan

WORKER: Final = WorkerId("worker-1")
OTHER_WORKER: Final = WorkerId("worker-2")
SUCCESS: Final = Succeeded()
FAILURE: Final = Failed("it broke", retryable=False)
PASSING_FAILURE: Final = Failed("it broke")
LOOKS_MAX: Final = 5
"""The number of empty claims allowed before the next job."""

IN_A_MINUTE: Final = RetryPolicy(delay=MINUTE, jitter=False)
"""A retry exactly one minute after the first failure."""


def a_request(**fields: Any) -> ClaimRequest:
    """A claim request at `NOW` for up to 100 jobs of the task `work`."""
    request = ClaimRequest(worker=WORKER, now=NOW, limit=100, lanes=frozenset({"work"}))
    return replace(request, **fields)


async def claim_jobs(store: Store, **fields: Any) -> tuple[Job, ...]:
    return tuple((await store.claim(a_request(**fields))).jobs)


async def a_cancelled_job(store: Store) -> Job:
    job = a_job()
    await store.enqueue([job])
    await store.cancel([job.id], "by hand", NOW)
    return job


async def stored_job(store: Store, job: Job) -> Job:
    """The job as stored now."""
    stored = await store.job(job.id)
    assert stored is not None, f"job {job.id} is gone"
    return stored


async def run_job(store: Store, job: Job, **fields: Any) -> Job:
    """Enqueue and claim the job. Other due jobs may be claimed with it."""
    await store.enqueue([job])
    await claim_jobs(store, **fields)
    return await stored_job(store, job)


def a_settlement(
    job: Job,
    outcome: Outcome = SUCCESS,
    now: datetime = NOW,
) -> Settlement:
    """The settlement of an attempt at `job`, as claimed, with this `outcome`."""
    return Settlement(job=settle(job, outcome, now, 0.0), attempt=attempt_of(job, outcome, now))


async def end(
    store: Store,
    job: Job,
    outcome: Outcome = SUCCESS,
    now: datetime = NOW,
) -> Job:
    """Settle the running job; returns its new form."""
    answers = await store.settle([a_settlement(job, outcome, now)])
    assert list(answers) == [True]
    return await stored_job(store, job)


async def run_and_end(store: Store, job: Job, outcome: Outcome = SUCCESS) -> Job:
    """Enqueue, claim and settle the job."""
    return await end(store, await run_job(store, job), outcome)


async def add_planned(store: Store, schedule: Schedule, *jobs: Job, **fields: Any) -> Plan:
    """Add the schedule with a plan of these jobs."""
    plan = a_plan(schedule, *jobs, **fields)
    await store.add_schedule(schedule, plan)
    return plan


async def limit(store: Store, queue: str = "slow", **limits: Any) -> None:
    """Give the queue these limits and no others."""
    await store.limit_queue(queue, replace(NO_LIMITS, **limits))


def slow_jobs(count: int, **fields: Any) -> list[Job]:
    """This many jobs of the queue `slow`."""
    return [a_job(**({"queue": "slow"} | fields)) for _ in range(count)]


async def wait_for_next(store: Store, after: datetime = NOW, **fields: Any) -> datetime:
    """The time at which a claimant gets a job that polls at `after`, then at each `next_due_at`."""
    now = after
    for _ in range(LOOKS_MAX):
        answer = await store.claim(a_request(now=now, **fields))
        if answer.jobs:
            return now
        assert answer.next_due_at is not None, "more will be given out, and it is known when"
        assert answer.next_due_at > now
        now = answer.next_due_at
    raise AssertionError(f"looked {LOOKS_MAX} times in vain, the last time at {now}")


def ids_of(jobs: Sequence[Job]) -> list[str]:
    return [job.id for job in jobs]
