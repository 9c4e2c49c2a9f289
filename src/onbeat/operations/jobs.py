"""The verbs of jobs."""

from collections.abc import Sequence

from msgspec import UNSET

from onbeat.model.errors import Conflict, NotFound
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter
from onbeat.operations.drafts import job_from
from onbeat.operations.operator import Operator
from onbeat.ports.store import Enqueued as Stored
from onbeat.wire.jobs import JobAnswer, JobDraft, job_answer, job_detail, read_jobs, read_reason
from onbeat.wire.requests import CancelJob, Enqueue, Enqueued, JobById, JobsAnswer, ListJobs
from onbeat.wire.values import job_id, schedule_id

ABSENT = "Job not found"
CANCELLED_BY_CALLER = "cancelled by request"


async def enqueue(operator: Operator, request: Enqueue) -> Enqueued:
    """One job, or many in one write."""
    body = request.jobs
    many = body.jobs is not UNSET
    stored = await add(operator, read_jobs(body), many=many)
    if many:
        existing = tuple(one.id for one in stored if not one.created)
        return Enqueued(ids=tuple(one.id for one in stored), existing=existing or UNSET)
    (one,) = stored
    return Enqueued(id=one.id, created=UNSET if one.created else False)


async def add(
    operator: Operator, drafts: Sequence[JobDraft], *, many: bool = True
) -> Sequence[Stored]:
    """The same from drafts, for callers in this process."""
    await operator.check_room()
    now = operator.clock.now()
    ids = operator.chance.ids(len(drafts))
    jobs = [
        job_from(operator, draft, now, id, f"jobs[{place}]." if many else "")
        for place, (draft, id) in enumerate(zip(drafts, ids, strict=True))
    ]
    return await operator.store.enqueue(jobs)


async def show(operator: Operator, request: JobById) -> JobAnswer:
    """The job with its tries and its history."""
    job = await found(operator, request.id)
    attempts = await operator.store.attempts(job.id)
    return job_detail(job, attempts, await operator.store.transitions(job.id))


async def list_jobs(operator: Operator, request: ListJobs) -> JobsAnswer:
    """Newest first."""
    page = await operator.store.jobs(
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


async def cancel(operator: Operator, request: CancelJob) -> JobAnswer:
    """A waiting job ends at once; a running one is asked to stop."""
    id, reason = job_id(request.id), read_reason(request.why, CANCELLED_BY_CALLER)
    (job,) = await operator.store.cancel([id], reason, operator.clock.now())
    if job is None:
        raise NotFound(ABSENT)
    if job.state in {JobState.SUCCEEDED, JobState.FAILED}:
        raise Conflict(f"Job {id} has {job.state} already")
    return job_answer(job)


async def retry(operator: Operator, request: JobById) -> JobAnswer:
    """A failed or cancelled job waits again, due now, with a fresh budget of tries."""
    id = job_id(request.id)
    (job,) = await operator.store.retry([id], operator.clock.now())
    if job is None:
        raise NotFound(ABSENT)
    if job.state is not JobState.WAITING:
        raise Conflict(f"Job {id} is {job.state}; only failed and cancelled jobs can be retried")
    return job_answer(job)


async def found(operator: Operator, id: str) -> Job:
    job = await operator.store.job(job_id(id))
    if job is None:
        raise NotFound(ABSENT)
    return job
