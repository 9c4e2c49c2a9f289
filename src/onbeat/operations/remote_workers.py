"""The operations of remote workers: claim jobs, renew leases, and settle results."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET, UnsetType

from onbeat.model.errors import LeaseLost, Undecryptable
from onbeat.model.event import Event
from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.model.worker import remote_id
from onbeat.operations.context import OperationContext
from onbeat.operations.encryption import decrypted_job
from onbeat.operations.fence import fence_of, is_held_elsewhere, open_token
from onbeat.operations.jobs import get_job
from onbeat.operations.results import end_attempt, settle_or_raise
from onbeat.ports.store import Claimed, ClaimRequest, Hint
from onbeat.rules.access import check_queue, working_queues
from onbeat.rules.encryption import put_off
from onbeat.rules.event_delivery import GONE, reads_events
from onbeat.wire.requests import ClaimJobs, RenewJob, SettleJob, StartJob
from onbeat.wire.values import job_id, read_name, read_queue_name, read_span, read_task
from onbeat.wire.worker_results import (
    ClaimBody,
    ClaimedAnswer,
    RenewedAnswer,
    SettledAnswer,
    WorkAnswer,
    read_report,
    work_answer,
)

LEASE_DEFAULT: Final = timedelta(minutes=1)
LEASE_MIN: Final = timedelta(seconds=1)  # shorter, and a slow network alone would lose it
LEASE_MAX: Final = timedelta(hours=1)  # longer, and the job of a dead worker waits for hours
WAIT_MAX: Final = timedelta(seconds=30)  # longer, and proxies may close the request
LOOK_AGAIN_MAX: Final = 1.0  # seconds; hints may be lost
SETTLED_BY: Final = "job.settle"


async def claim(context: OperationContext, request: ClaimJobs) -> ClaimedAnswer:
    """Claim due jobs of the worker's tasks, each with a timed lease.

    Where none is due, wait for the first one as long as the worker asked.
    """
    fence = await fence_of(context.store)
    claimed = await claim_within(context, request.claim, read_wait(request.claim.wait))
    if context.telemetry is not None:
        for job in claimed.jobs:
            late = context.clock.now() - job.due_at
            context.telemetry.started(job, late.total_seconds())
    ready = [one for job in claimed.jobs if (one := await prepare(context, job)) is not None]
    allowed = await allowed_of(context, ready)
    return ClaimedAnswer(
        tuple(work_answer(job, fence.seal(job.id, job.token), events) for job, events in allowed)
    )


async def prepare(context: OperationContext, job: Job) -> tuple[Job, Sequence[Event]] | None:
    """The job in clear, with its events; None where its attempt ended.

    One that cannot be decrypted here is postponed, one whose events are gone has failed.
    """
    try:
        readable = decrypted_job(context.cipher, job)
    except Undecryptable as error:
        await end_attempt(context, job, put_off(error))
        return None
    if not reads_events(job):
        return readable, ()
    stored = await context.store.events_of_job(job.id)
    if not stored:
        await end_attempt(context, job, GONE)
        return None
    return readable, [one.event for one in stored]


async def allowed_of(
    context: OperationContext, ready: Sequence[tuple[Job, Sequence[Event]]]
) -> list[tuple[Job, Sequence[Event]]]:
    """The jobs whose condition holds and whose window is open; others end their attempt."""
    verdicts = await asyncio.gather(*(context.check_start(*one) for one in ready))
    for (job, _), verdict in zip(ready, verdicts, strict=True):
        if verdict is not None:
            await end_attempt(context, job, verdict)
    return [one for one, verdict in zip(ready, verdicts, strict=True) if verdict is None]


async def claim_within(context: OperationContext, body: ClaimBody, wait: timedelta) -> Claimed:
    """Claim jobs, or return none after `wait`."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_hint(_hint: Hint) -> None:
        loop.call_soon_threadsafe(changed.set)

    unlisten = context.store.listen(on_hint)
    give_up = context.clock.monotonic() + wait.total_seconds()
    try:
        while True:
            changed.clear()
            claimed = await context.store.claim(claim_request(context, body))
            left = give_up - context.clock.monotonic()
            if claimed.jobs or left <= 0:
                return claimed
            pause = min(left, LOOK_AGAIN_MAX, seconds_until(claimed.next_due_at, context))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()
    finally:
        unlisten()


def seconds_until(at: datetime | None, context: OperationContext) -> float:
    if at is None:
        return LOOK_AGAIN_MAX
    return max(0.0, (at - context.clock.now()).total_seconds())


def claim_request(context: OperationContext, body: ClaimBody) -> ClaimRequest:
    request = None if not body.queues else [read_queue_name(name, "queues") for name in body.queues]
    queues = working_queues(context.principal, request)
    return ClaimRequest(
        worker=remote_id(read_name(body.worker, "worker", chars_max=NAME_CHARS_MAX)),
        now=context.clock.now(),
        limit=body.limit,
        lanes=frozenset(
            read_task(task, f"tasks[{place}]") for place, task in enumerate(body.tasks)
        ),
        queues=None if queues is None else tuple(queues),
        lease=read_lease(body.lease),
    )


def read_lease(value: str | float | UnsetType) -> timedelta:
    if value is UNSET:
        return LEASE_DEFAULT
    return read_span(value, "lease", least=LEASE_MIN, most=LEASE_MAX)


def read_wait(value: str | float | UnsetType) -> timedelta:
    return timedelta() if value is UNSET else read_span(value, "wait", most=WAIT_MAX)


async def start(context: OperationContext, request: StartJob) -> WorkAnswer:
    """The full job for a worker that received an announcement; the lease is extended from now."""
    job, token = await get_held_job(context, request.id, request.lease.token)
    until = context.clock.now() + read_lease(request.lease.lease)
    until = max(until, job.lease_until or until)
    (lease,) = await context.store.renew([(job.id, token)], until)
    if lease is None:
        raise lease_lost(job)
    started = await get_job(context, job.id)
    ready = await prepare(context, started)
    if ready is None:
        raise lease_lost(await get_job(context, job.id))
    return work_answer(ready[0], request.lease.token, ready[1])


async def renew(context: OperationContext, request: RenewJob) -> RenewedAnswer:
    """Extend the lease from now. Raises `LeaseLost` when another worker may have the job."""
    id = job_id(request.id)
    token = await open_token(context.store, id, request.lease.token)
    if context.principal.queues is not None:
        check_queue(context.principal, (await get_job(context, id)).queue)
    until = context.clock.now() + read_lease(request.lease.lease)
    (lease,) = await context.store.renew([(id, token)], until)
    if lease is None:
        raise lease_lost(await get_job(context, id))
    return RenewedAnswer(lease_until=until, cancel_reason=lease.cancel_reason)


async def settle(context: OperationContext, request: SettleJob) -> SettledAnswer:
    """Store the outcome of the attempt. A repeated identical report gets the same answer."""
    job = await get_job(context, request.id)
    token = await open_token(context.store, job.id, request.report.token)
    check_queue(context.principal, job.queue)
    settled = await settle_or_raise(context, job, token, read_report(request.report), SETTLED_BY)
    return SettledAnswer(settled=True, state=settled.state)


async def get_held_job(context: OperationContext, id: str, text: str) -> tuple[Job, Token]:
    """The job that runs under this token. Raises `LeaseLost` where it does not."""
    job = await get_job(context, id)
    token = await open_token(context.store, job.id, text)
    check_queue(context.principal, job.queue)
    if job.state is not JobState.RUNNING or job.token != token or not is_held_elsewhere(job):
        raise lease_lost(job)
    return job, token


def lease_lost(job: Job) -> LeaseLost:
    if job.state is JobState.RUNNING:
        return LeaseLost(f"Job {job.id} runs under another lease, or under none that is timed")
    return LeaseLost(f"Job {job.id} is {job.state}: the lease of this attempt has ended")
