"""The operations of jobs."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.errors import Conflict, NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import ASIDE_JOBS_MIN
from onbeat.model.origin import API
from onbeat.model.target import lane_of
from onbeat.operations.context import OperationContext
from onbeat.operations.drafts import job_from
from onbeat.operations.job_counts import count_states
from onbeat.operations.job_filters import filter_from
from onbeat.operations.unknown_tasks import unknown_tasks
from onbeat.ports.store import Enqueued as Stored
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.tracing import SendSpan
from onbeat.rules.flows import is_flow, link, link_all
from onbeat.rules.reschedule import new_due_time
from onbeat.wire.jobs import (
    EnqueueBody,
    JobInfo,
    check_dependents,
    job_answer,
    job_detail,
    read_due,
    read_jobs,
    read_reason,
)
from onbeat.wire.requests import (
    CancelJob,
    Created,
    Enqueue,
    EnqueueAnswer,
    JobById,
    JobsAnswer,
    ListJobs,
    RescheduleJob,
    RetryJob,
)
from onbeat.wire.values import job_id, value_or_unset

ABSENT = "Job not found"
CANCELLED_BY_CALLER = "cancelled by request"


async def enqueue(context: OperationContext, request: Enqueue) -> EnqueueAnswer:
    """One job, or many in one transaction."""
    await context.check_capacity()
    body, now = request.jobs, context.clock.now()
    bodies = () if body.jobs is UNSET else body.jobs
    ids = context.randomness.ids(max(len(bodies), 1))
    with context.sending() as span:
        if len(bodies) >= ASIDE_JOBS_MIN:
            made = await asyncio.to_thread(jobs_of, context, body, now, ids)
        else:
            made = jobs_of(context, body, now, ids)
        span.describe(made.jobs)
        one_or_many = answer_of_one if body.jobs is UNSET else answer_of_many
        answer = partial(answer_in_order, one_or_many, made)
        unknown = await unknown_tasks(context, (job.target for job in made.jobs))
        stored = await context.store.enqueue(made.jobs, context.keyed_request(answer, ids))
        describe_stored(span, made.jobs, stored)
    if context.live.is_read:
        context.live.made(new_jobs(made.jobs, stored), now)
    note_sent(context.telemetry, made.jobs, stored, API)
    return replace(answer(stored), unknown_tasks=unknown)


def describe_stored(span: SendSpan, jobs: Sequence[Job], stored: Sequence[Stored]) -> None:
    """Tell the span the id of its one job, where a store of several cells put a slot into it."""
    if len(jobs) == 1 and stored[0].created and stored[0].id != jobs[0].id:
        span.describe([replace(jobs[0], id=stored[0].id)])


def note_sent(
    telemetry: Telemetry | None, jobs: Sequence[Job], stored: Sequence[Stored], source: str
) -> None:
    """Tell of the jobs that were added, and of each that another one stands for."""
    if telemetry is None:
        return
    added = sum([one.created for one in stored])
    telemetry.sent(added, source)
    if added < len(stored):
        note_duplicates(telemetry, jobs, stored, source)


def note_duplicates(
    telemetry: Telemetry, jobs: Sequence[Job], stored: Sequence[Stored], source: str
) -> None:
    for job, one in zip(jobs, stored, strict=True):
        if not one.created:
            telemetry.duplicated(lane_of(job.target), one.id, source)


def new_jobs(jobs: Sequence[Job], stored: Sequence[Stored]) -> Iterable[Job]:
    """Those that were added, with the ids under which they are stored.

    A unique key may have led to another job, and a store of several cells puts slots into ids.
    """
    return (
        job if job.id == one.id else replace(job, id=one.id)
        for job, one in zip(jobs, stored, strict=True)
        if one.created
    )


class NewJobs(msgspec.Struct, frozen=True):
    """Jobs in the order in which they are stored, their places in the request, and their flow."""

    jobs: Sequence[Job]
    order: Sequence[int]
    flow: JobId | None = None


def jobs_of(
    context: OperationContext, body: EnqueueBody, now: datetime, ids: Sequence[str]
) -> NewJobs:
    drafts = read_jobs(body)
    if body.jobs is UNSET:
        ((draft,), (id,)) = drafts, ids
        return NewJobs([job_from(context, draft, now, id, "", link(draft.after, {}, "after"))], [0])
    names = [draft.options.get("name") for draft in drafts]
    awaited = [draft.after for draft in drafts]
    if body.flow is not True and not is_flow(names, awaited):
        jobs = [
            job_from(context, draft, now, id, f"jobs[{at}].")
            for at, (draft, id) in enumerate(zip(drafts, ids, strict=True))
        ]
        return NewJobs(jobs, range(len(jobs)))
    flow = JobId(context.randomness.ids(1)[0])
    linked, order = link_all(names, awaited, ids, flow)
    jobs = [job_from(context, drafts[at], now, ids[at], f"jobs[{at}].", linked[at]) for at in order]
    return NewJobs(jobs, order, flow)


def answer_in_order(
    answer: Callable[[Sequence[Stored]], EnqueueAnswer], new: NewJobs, stored: Sequence[Stored]
) -> EnqueueAnswer:
    """The answer for jobs that were stored in this order."""
    placed = dict(zip(new.order, stored, strict=True))
    result = answer([placed[at] for at in range(len(placed))])
    return result if new.flow is None else replace(result, flow=new.flow)


def answer_of_many(stored: Sequence[Stored]) -> EnqueueAnswer:
    existing = tuple(one.id for one in stored if not one.created)
    return EnqueueAnswer(ids=tuple(one.id for one in stored), existing=existing or UNSET)


def answer_of_one(stored: Sequence[Stored]) -> EnqueueAnswer:
    (one,) = stored
    return EnqueueAnswer(id=one.id, created=UNSET if one.created else False)


async def show(context: OperationContext, request: JobById) -> JobInfo:
    """The job with its attempts and its history."""
    job = await get_job(context, request.id)
    attempts = await context.store.attempts(job.id)
    return job_detail(job, attempts, await context.store.transitions(job.id))


async def list_jobs(context: OperationContext, request: ListJobs) -> JobsAnswer:
    """Newest first."""
    filter = replace(
        filter_from(request),
        before=job_id(request.cursor, "cursor") if request.cursor else None,
        limit=request.limit,
    )
    page = await context.store.jobs(filter)
    counts = await count_states(context, filter) if request.counts else None
    return JobsAnswer(
        jobs=tuple(job_answer(job) for job in page.items),
        limit=request.limit,
        cursor=page.cursor,
        searched=value_or_unset(page.searched),
        searched_to=value_or_unset(page.searched_to),
        counts=UNSET if counts is None else {str(name): one for name, one in counts.items()},
    )


async def cancel(context: OperationContext, request: CancelJob) -> JobInfo:
    """Cancel a waiting job at once; ask a running one to stop.

    Jobs that need its success are cancelled with it, when it has ended. One that was cancelled with
    another job does not come back with it any more.
    """
    check_dependents(request.why)
    id, reason = job_id(request.id), read_reason(request.why, CANCELLED_BY_CALLER)
    (job,) = await context.store.cancel([id], reason, context.clock.now())
    if job is None:
        raise NotFound(ABSENT)
    if job.state in {JobState.SUCCEEDED, JobState.FAILED}:
        raise Conflict(f"Job {id} has {job.state} already")
    return job_answer(job)


async def retry(context: OperationContext, request: RetryJob) -> JobInfo:
    """Make a failed or cancelled job wait again, due now, with a new budget of attempts.

    So do the jobs that were cancelled because of it, unless the request says otherwise.
    """
    id, now = job_id(request.id), context.clock.now()
    job = await context.store.job(id)
    if job is not None and job.sensitive and job.is_final:
        raise Conflict(f"Job {id} is sensitive: its payload was not kept when it ended")
    keyed = context.keyed_request(lambda jobs: Created(check_retried(jobs).id), [id])
    dependents = request.how.dependents
    jobs = await context.store.retry([id], now, keyed, dependents=dependents)
    return job_answer(check_retried(jobs))


async def reschedule(context: OperationContext, request: RescheduleJob) -> JobInfo:
    """Let a waiting job be due at another time.

    Raises `Conflict` for a job that does not wait, also where it is claimed meanwhile.
    """
    job, now = await get_job(context, request.id), context.clock.now()
    run_at, delay = read_due(request.due)
    due_at = new_due_time(job, run_at, delay, now)
    moved = await context.store.reschedule(job.id, due_at, now)
    if moved is None:
        raise NotFound(ABSENT)
    if moved.state is not JobState.WAITING:
        raise Conflict(f"Job {job.id} is {moved.state}; only waiting jobs can be rescheduled")
    return job_answer(moved)


def check_retried(jobs: Sequence[Job | None]) -> Job:
    (job,) = jobs
    if job is None:
        raise NotFound(ABSENT)
    if job.state is not JobState.WAITING:
        raise Conflict(
            f"Job {job.id} is {job.state}; only failed and cancelled jobs can be retried"
        )
    return job


async def retry_again(context: OperationContext, request: RetryJob) -> JobInfo:
    """A repeated retry request returns the current state of the job."""
    return job_answer(await get_job(context, request.id))


async def get_job(context: OperationContext, id: str) -> Job:
    job = await context.store.job(job_id(id))
    if job is None:
        raise NotFound(ABSENT)
    return job
