"""The verbs of workers elsewhere: they ask for jobs, keep their leases, and say what came of it."""

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET, UnsetType

from onbeat.model.errors import Invalid, LeaseLost
from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.model.worker import remote_id
from onbeat.operations.jobs import found
from onbeat.operations.operator import Operator
from onbeat.operations.settling import settled_or_lost
from onbeat.ports.store import Claimed, ClaimRequest, Hint
from onbeat.wire.reports import (
    ClaimBody,
    ClaimedAnswer,
    RenewedAnswer,
    SettledAnswer,
    WorkAnswer,
    read_report,
    read_token,
    work_answer,
)
from onbeat.wire.requests import ClaimJobs, RenewJob, SettleJob, StartJob
from onbeat.wire.values import job_id, read_name, read_span

LEASE_DEFAULT: Final = timedelta(minutes=1)
LEASE_MIN: Final = timedelta(seconds=1)  # shorter, and a slow network alone would lose it
LEASE_MAX: Final = timedelta(hours=1)  # longer, and the job of a dead worker waits for hours
WAIT_MAX: Final = timedelta(seconds=30)  # longer, and what lies between would take it for dead
LOOK_AGAIN_MAX: Final = 1.0  # seconds; hints may be lost
SETTLED_BY: Final = "job.settle"


async def claim(operator: Operator, request: ClaimJobs) -> ClaimedAnswer:
    """Due jobs of the worker's tasks, each with a lease that lasts unless it runs out.

    Where none is due, it waits for the first as long as the worker said.
    """
    claimed = await claimed_within(operator, request.claim, read_wait(request.claim.wait))
    if operator.telemetry is not None:
        for job in claimed.jobs:
            operator.telemetry.started(job, operator.clock.now() - job.due_at)
    return ClaimedAnswer(tuple(map(work_answer, claimed.jobs)))


async def claimed_within(operator: Operator, body: ClaimBody, wait: timedelta) -> Claimed:
    """Jobs, at the latest after so long an answer without any."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()

    def heard(_hint: Hint) -> None:
        loop.call_soon_threadsafe(changed.set)

    unlisten = operator.store.listen(heard)
    give_up = operator.clock.monotonic() + wait.total_seconds()
    try:
        while True:
            changed.clear()
            claimed = await operator.store.claim(claim_request(operator, body))
            left = give_up - operator.clock.monotonic()
            if claimed.jobs or left <= 0:
                return claimed
            pause = min(left, LOOK_AGAIN_MAX, seconds_until(claimed.next_due_at, operator))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()
    finally:
        unlisten()


def seconds_until(at: datetime | None, operator: Operator) -> float:
    if at is None:
        return LOOK_AGAIN_MAX
    return max(0.0, (at - operator.clock.now()).total_seconds())


def claim_request(operator: Operator, body: ClaimBody) -> ClaimRequest:
    queues = body.queues or None
    return ClaimRequest(
        worker=remote_id(read_name(body.worker, "worker", chars_max=NAME_CHARS_MAX)),
        now=operator.clock.now(),
        limit=body.limit,
        lanes=frozenset(read_task(task, place) for place, task in enumerate(body.tasks)),
        queues=None if queues is None else tuple(read_name(name, "queues") for name in queues),
        lease=read_lease(body.lease),
    )


def read_task(task: str, place: int) -> str:
    field = f"tasks[{place}]"
    if task.startswith("@"):
        raise Invalid(f"{field}: what begins with @ is made by Onbeat itself", field)
    return read_name(task, field)


def read_lease(value: str | float | UnsetType) -> timedelta:
    if value is UNSET:
        return LEASE_DEFAULT
    return read_span(value, "lease", least=LEASE_MIN, most=LEASE_MAX)


def read_wait(value: str | float | UnsetType) -> timedelta:
    return timedelta() if value is UNSET else read_span(value, "wait", most=WAIT_MAX)


async def start(operator: Operator, request: StartJob) -> WorkAnswer:
    """All of a job of which a worker has only been told; its lease lasts from now at least."""
    job, token = await held(operator, request.id, request.lease.token)
    until = operator.clock.now() + read_lease(request.lease.lease)
    until = max(until, job.lease_until or until)
    (lease,) = await operator.store.renew([(job.id, token)], until)
    if lease is None:
        raise lost(job)
    return work_answer(await found(operator, job.id))


async def renew(operator: Operator, request: RenewJob) -> RenewedAnswer:
    """The lease lasts from now. Raises `LeaseLost` when somebody else may have the job."""
    id, token = job_id(request.id), read_token(request.lease.token)
    until = operator.clock.now() + read_lease(request.lease.lease)
    (lease,) = await operator.store.renew([(id, token)], until)
    if lease is None:
        raise lost(await found(operator, id))
    return RenewedAnswer(lease_until=until, cancel_reason=lease.cancel_reason)


async def settle(operator: Operator, request: SettleJob) -> SettledAnswer:
    """Store what the attempt came to. Told again in the same words, it is answered again."""
    job, token = await found(operator, request.id), read_token(request.report.token)
    settled = await settled_or_lost(operator, job, token, read_report(request.report), SETTLED_BY)
    return SettledAnswer(settled=True, state=settled.state)


async def held(operator: Operator, id: str, token: int | str) -> tuple[Job, Token]:
    """The job that runs under this token; raises `LeaseLost` where it does not."""
    job, given = await found(operator, id), read_token(token)
    if job.state is not JobState.RUNNING or job.token != given:
        raise lost(job)
    return job, given


def lost(job: Job) -> LeaseLost:
    if job.state is JobState.RUNNING:
        return LeaseLost(f"Job {job.id} runs under another lease, or under none that is timed")
    return LeaseLost(f"Job {job.id} is {job.state}: the lease of this attempt has ended")
