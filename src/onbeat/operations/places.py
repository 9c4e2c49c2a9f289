"""The verbs of queues, workers and figures."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import JobFilter
from onbeat.model.queue import Queue
from onbeat.model.worker import is_carried, is_remote
from onbeat.operations.operator import Operator
from onbeat.wire.limits import changed_limits
from onbeat.wire.places import (
    QueueAnswer,
    QueuesAnswer,
    QueueState,
    StatsAnswer,
    WorkersAnswer,
    queue_answer,
    remote_answer,
    stats_answer,
    worker_answer,
)
from onbeat.wire.requests import LimitQueue, ListWorkers, Nothing, QueueByName
from onbeat.wire.values import read_name


async def list_queues(operator: Operator, _request: Nothing) -> QueuesAnswer:
    """Queues that have live jobs or are paused."""
    queues = await operator.store.queues(operator.clock.now())
    return QueuesAnswer(tuple(map(queue_answer, queues)))


async def pause_queue(operator: Operator, request: QueueByName) -> QueueState:
    """No job of it is given out until it is resumed; what runs, runs on."""
    return await switch(operator, request.name, paused=True)


async def resume_queue(operator: Operator, request: QueueByName) -> QueueState:
    return await switch(operator, request.name, paused=False)


async def switch(operator: Operator, name: str, *, paused: bool) -> QueueState:
    await operator.store.pause_queue(read_name(name, "name"), paused=paused)
    return QueueState(name=name, paused=paused)


async def limit_queue(operator: Operator, request: LimitQueue) -> QueueAnswer:
    """The limits that are given change; they hold from the next claim on, over all workers."""
    name = read_name(request.name, "name")
    before = await queue_as_it_is(operator, name)
    await operator.store.limit_queue(name, changed_limits(before.limits, request.limits))
    return queue_answer(await queue_as_it_is(operator, name))


async def queue_as_it_is(operator: Operator, name: str) -> Queue:
    queues = await operator.store.queues(operator.clock.now())
    return next((queue for queue in queues if queue.name == name), Queue(name=name))


async def list_workers(operator: Operator, request: ListWorkers) -> WorkersAnswer:
    """Workers, and what each runs: of all together those a page of jobs holds, begun first."""
    now = operator.clock.now()
    rows = [row for row in await operator.store.workers() if not is_carried(row.id)]
    running = by_worker(await running_jobs(operator))
    return WorkersAnswer(
        workers=tuple(worker_answer(row, running[row.id][: request.jobs], now) for row in rows),
        remote=tuple(
            remote_answer(worker, jobs, request.jobs)
            for worker, jobs in sorted(running.items())
            if is_remote(worker)
        ),
    )


async def running_jobs(operator: Operator) -> Sequence[Job]:
    page = await operator.store.jobs(JobFilter(state=JobState.RUNNING, limit=PAGE_LIMIT_MAX))
    return page.items


def by_worker(jobs: Sequence[Job]) -> Mapping[WorkerId, list[Job]]:
    """The jobs of each worker, the one that has run longest first."""
    found: dict[WorkerId, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=begun):
        if job.worker is not None:
            found[job.worker].append(job)
    return found


def begun(job: Job) -> tuple[datetime, str]:
    return job.started_at or datetime.max.replace(tzinfo=UTC), job.id


async def show_stats(operator: Operator, _request: Nothing) -> StatsAnswer:
    """Counts over the whole store."""
    return stats_answer(await operator.store.stats(operator.clock.now()))
