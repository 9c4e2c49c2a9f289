"""Reports of receivers that answer a callback later, whose only right is the seal."""

from datetime import datetime

from onbeat.model.errors import Forbidden, LeaseLost, NotFound
from onbeat.model.job import Job, JobState, Progress
from onbeat.operations.context import OperationContext
from onbeat.operations.fence import fence_of
from onbeat.operations.results import Verdict, effective, end_attempt, judge_late, late_reason
from onbeat.ports.access import AccessStore
from onbeat.rules.reports import ReportRight, open_seal, report_url
from onbeat.wire.reports import ReportAnswer, SealedReport, read_report_body
from onbeat.wire.values import job_id
from onbeat.wire.worker_results import WorkerReport


async def report_address(store: AccessStore, base: str, job: Job, until: datetime) -> str:
    """Where the running attempt of the job may be reported until then, below `base`."""
    return report_url(base, await fence_of(store), job.id, ReportRight(job.token, until))


async def right_of(context: OperationContext, id: str, seal: str) -> ReportRight:
    """The right of an address. Raises `Forbidden` for one that was not given out."""
    right = open_seal(await fence_of(context.store), job_id(id), seal)
    if right is None:
        raise Forbidden(
            f"This address was not given out for job {id[:100]}: use Onbeat-Report-Url as it came"
        )
    return right


async def report(context: OperationContext, request: SealedReport) -> ReportAnswer:
    """Store the outcome of the attempt, or its progress; a repeated report gets the same answer.

    It counts while the attempt runs, whoever holds it, until the deadline. Raises `Forbidden` for a
    forged seal, `NotFound` for a job that is gone, `LeaseLost` where it does not count, `Invalid`
    for a body that says nothing.
    """
    right = await right_of(context, request.id, request.seal)
    given = read_report_body(request.report)
    job = await context.store.job(job_id(request.id))
    if job is None:
        raise NotFound(f"Nothing has the id {request.id}")
    if isinstance(given, WorkerReport):
        return await settle(context, job, right, given)
    return await note(context, job, right, given)


async def settle(
    context: OperationContext, job: Job, right: ReportRight, given: WorkerReport
) -> ReportAnswer:
    if is_of_running(job, right):
        check_time(context, right)
        settled = await end_attempt(context, job, effective(job, given))
        if settled is not None:
            return ReportAnswer(settled=True, state=settled.state)
    judged = await judge_late(context, job.id, right.token, given)
    if judged.verdict is not Verdict.SETTLED or judged.job is None:
        raise LeaseLost(judged.reason)
    return ReportAnswer(settled=True, state=judged.job.state)


async def note(
    context: OperationContext, job: Job, right: ReportRight, progress: Progress | None
) -> ReportAnswer:
    if not is_of_running(job, right):
        raise LeaseLost(late_reason(job, right.token))
    check_time(context, right)
    if progress is not None:
        (is_kept,) = await context.store.note_progress([(job.id, right.token, progress)])
        if not is_kept:
            raise LeaseLost(late_reason(job, right.token))
    return ReportAnswer(settled=False, state=job.state, cancel_reason=job.cancel_reason)


def is_of_running(job: Job, right: ReportRight) -> bool:
    return job.state is JobState.RUNNING and job.token == right.token


def check_time(context: OperationContext, right: ReportRight) -> None:
    if context.clock.now() > right.until:
        raise LeaseLost(
            f"The time to report ended at {right.until:%Y-%m-%dT%H:%M:%SZ}; a longer timeout of "
            "the job gives more"
        )
