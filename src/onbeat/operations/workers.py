"""The operations of workers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import JobFilter
from onbeat.model.worker import RECEIVER, is_carried, is_remote
from onbeat.operations.context import OperationContext
from onbeat.wire.requests import ListWorkers
from onbeat.wire.workers import WorkersAnswer, remote_answer, worker_answer


async def list_workers(context: OperationContext, request: ListWorkers) -> WorkersAnswer:
    """Workers with their running jobs: at most a page of jobs in total, oldest start first."""
    now = context.clock.now()
    rows = [row for row in await context.store.workers() if not is_carried(row.id)]
    running = by_worker(await running_jobs(context))
    return WorkersAnswer(
        workers=tuple(worker_answer(row, running[row.id][: request.jobs], now) for row in rows),
        remote=tuple(
            remote_answer(worker, jobs, request.jobs)
            for worker, jobs in sorted(running.items())
            if is_remote(worker) or worker == RECEIVER
        ),
    )


async def running_jobs(context: OperationContext) -> Sequence[Job]:
    page = await context.store.jobs(JobFilter(state=JobState.RUNNING, limit=PAGE_LIMIT_MAX))
    return page.items


def by_worker(jobs: Sequence[Job]) -> Mapping[WorkerId, list[Job]]:
    """The jobs of each worker, longest-running first."""
    result: dict[WorkerId, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=start_order):
        if job.worker is not None:
            result[job.worker].append(job)
    return result


def start_order(job: Job) -> tuple[datetime, str]:
    return job.started_at or datetime.max.replace(tzinfo=UTC), job.id
