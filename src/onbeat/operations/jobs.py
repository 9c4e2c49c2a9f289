"""The operations of jobs."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET

from onbeat.model.errors import Conflict, NotFound
from onbeat.model.job import Job, JobState
from onbeat.model.limits import ASIDE_JOBS_MIN
from onbeat.model.page import JobFilter
from onbeat.operations.context import OperationContext
from onbeat.operations.drafts import job_from
from onbeat.ports.store import Enqueued as Stored
from onbeat.wire.jobs import EnqueueBody, JobInfo, job_answer, job_detail, read_jobs, read_reason
from onbeat.wire.requests import (
    CancelJob,
    Created,
    Enqueue,
    EnqueueAnswer,
    JobById,
    JobsAnswer,
    ListJobs,
)
from onbeat.wire.values import job_id, schedule_id

ABSENT = "Job not found"
CANCELLED_BY_CALLER = "cancelled by request"


async def enqueue(context: OperationContext, request: Enqueue) -> EnqueueAnswer:
    """One job, or many in one transaction."""
    await context.check_capacity()
    body, now = request.jobs, context.clock.now()
    bodies = () if body.jobs is UNSET else body.jobs
    ids = context.randomness.ids(max(len(bodies), 1))
    if len(bodies) >= ASIDE_JOBS_MIN:
        jobs = await asyncio.to_thread(jobs_of, context, body, now, ids)
    else:
        jobs = jobs_of(context, body, now, ids)
    answer = answer_of_one if body.jobs is UNSET else answer_of_many
    return answer(await context.store.enqueue(jobs, context.keyed_request(answer, ids)))


def jobs_of(
    context: OperationContext, body: EnqueueBody, now: datetime, ids: Sequence[str]
) -> list[Job]:
    many = body.jobs is not UNSET
    return [
        job_from(context, draft, now, id, f"jobs[{place}]." if many else "")
        for place, (draft, id) in enumerate(zip(read_jobs(body), ids, strict=True))
    ]


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
    page = await context.store.jobs(
        JobFilter(
            state=request.state,
            queue=request.queue or None,
            task=request.task or None,
            schedule_id=schedule_id(request.schedule_id, "schedule_id")
            if request.schedule_id
            else None,
            before=job_id(request.cursor, "cursor") if request.cursor else None,
            limit=request.limit,
        )
    )
    return JobsAnswer(
        jobs=tuple(job_answer(job) for job in page.items), limit=request.limit, cursor=page.cursor
    )


async def cancel(context: OperationContext, request: CancelJob) -> JobInfo:
    """Cancel a waiting job at once; ask a running one to stop."""
    id, reason = job_id(request.id), read_reason(request.why, CANCELLED_BY_CALLER)
    (job,) = await context.store.cancel([id], reason, context.clock.now())
    if job is None:
        raise NotFound(ABSENT)
    if job.state in {JobState.SUCCEEDED, JobState.FAILED}:
        raise Conflict(f"Job {id} has {job.state} already")
    return job_answer(job)


async def retry(context: OperationContext, request: JobById) -> JobInfo:
    """Make a failed or cancelled job wait again, due now, with a new budget of attempts."""
    id = job_id(request.id)
    keyed = context.keyed_request(lambda jobs: Created(check_retried(jobs).id), [id])
    return job_answer(check_retried(await context.store.retry([id], context.clock.now(), keyed)))


def check_retried(jobs: Sequence[Job | None]) -> Job:
    (job,) = jobs
    if job is None:
        raise NotFound(ABSENT)
    if job.state is not JobState.WAITING:
        raise Conflict(
            f"Job {job.id} is {job.state}; only failed and cancelled jobs can be retried"
        )
    return job


async def retry_again(context: OperationContext, request: JobById) -> JobInfo:
    """A repeated retry request returns the current state of the job."""
    return job_answer(await get_job(context, request.id))


async def get_job(context: OperationContext, id: str) -> Job:
    job = await context.store.job(job_id(id))
    if job is None:
        raise NotFound(ABSENT)
    return job
