"""What the contract's tests do to a store to bring about a situation."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.plan import Plan
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Schedule
from onbeat.ports.store import ClaimRequest, Settlement, Store
from onbeat.rules.settling import attempt_of, settle
from onbeat.testing.build import MINUTE, NOW, a_plan

WORKER: Final = WorkerId("worker-1")
OTHER_WORKER: Final = WorkerId("worker-2")
SUCCESS: Final = Succeeded()
FAILURE: Final = Failed("it broke", retryable=False)
PASSING_FAILURE: Final = Failed("it broke")
IN_A_MINUTE: Final = RetryPolicy(delay=MINUTE, jitter=False)
"""Another try exactly one minute after the first failure."""


def a_request(**fields: Any) -> ClaimRequest:
    """A claim at `NOW` of up to 100 jobs of the task `work`."""
    request = ClaimRequest(worker=WORKER, now=NOW, limit=100, lanes=frozenset({"work"}))
    return replace(request, **fields)


async def claimed(store: Store, **fields: Any) -> tuple[Job, ...]:
    return (await store.claim(a_request(**fields))).jobs


async def stored(store: Store, job: Job) -> Job:
    """The job as the store has it now."""
    found = await store.job(job.id)
    assert found is not None, f"job {job.id} is gone"
    return found


async def running(store: Store, job: Job, **fields: Any) -> Job:
    """The job, enqueued and claimed. Other due jobs may be claimed with it."""
    await store.enqueue([job])
    await claimed(store, **fields)
    return await stored(store, job)


def a_settlement(
    job: Job,
    outcome: Outcome = SUCCESS,
    now: datetime = NOW,
) -> Settlement:
    """What a worker writes when its attempt at `job`, as claimed, came to `outcome`."""
    return Settlement(job=settle(job, outcome, now, 0.0), attempt=attempt_of(job, outcome, now))


async def end(
    store: Store,
    job: Job,
    outcome: Outcome = SUCCESS,
    now: datetime = NOW,
) -> Job:
    """Settle the running job; answers with it as it then is."""
    answers = await store.settle([a_settlement(job, outcome, now)])
    assert list(answers) == [True]
    return await stored(store, job)


async def ended(store: Store, job: Job, outcome: Outcome = SUCCESS) -> Job:
    """The job, enqueued, claimed and settled."""
    return await end(store, await running(store, job), outcome)


async def planned(store: Store, schedule: Schedule, *jobs: Job, **fields: Any) -> Plan:
    """Add the schedule with a plan of these jobs."""
    plan = a_plan(schedule, *jobs, **fields)
    await store.add_schedule(schedule, plan)
    return plan


def ids_of(jobs: Sequence[Job]) -> list[str]:
    return [job.id for job in jobs]
