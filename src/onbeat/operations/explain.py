"""Explains why a job does not run: every reason, the deepest first."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import JobFilter
from onbeat.model.queue import NO_LIMITS, Queue, Rate
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.model.worker import WorkerRecord
from onbeat.operations.context import OperationContext
from onbeat.operations.jobs import get_job
from onbeat.operations.queues import get_queue
from onbeat.rules.suspicion import times
from onbeat.wire.limits import rate_text
from onbeat.wire.requests import Explanation, JobById
from onbeat.wire.workers import seems_alive

SHOWN_MAX = 10
"""The number of predecessors that an explanation names."""


class Blocker(msgspec.Struct, frozen=True):
    """One reason that a job does not run; `until` where it passes by itself."""

    code: str
    words: str
    until: datetime | None = None
    jobs: tuple[str, ...] = ()


async def explain(context: OperationContext, request: JobById) -> Explanation:
    """Why the job does not run now, what it waits for, and when it may run."""
    job = await get_job(context, request.id)
    if job.state is not JobState.WAITING:
        return answer(job, [not_waiting(job)])
    now = context.clock.now()
    blockers = [blocker async for blocker in find_blockers(context, job, now)]
    return answer(job, blockers or [Blocker("ready", "It is due and about to start.", now)])


def answer(job: Job, blockers: Sequence[Blocker]) -> Explanation:
    times = [blocker.until for blocker in blockers if blocker.until is not None]
    return Explanation(
        id=job.id,
        state=job.state,
        code=blockers[0].code,
        explanation=" ".join(blocker.words for blocker in blockers),
        may_run_at=max(times, default=None),
        waits_for=tuple(id for blocker in blockers for id in blocker.jobs),
    )


def not_waiting(job: Job) -> Blocker:
    """The explanation for a job that does not wait."""
    match job.state:
        case JobState.RUNNING if job.cancel_reason is not None:
            return Blocker("stopping", f"It runs and was asked to stop: {job.cancel_reason}.")
        case JobState.RUNNING:
            words = f"It runs on worker {job.worker}, attempt {job.attempt}"
            apart = "".join(f", {how}, and may wait there for that" for how in company(job))
            return Blocker("running", f"{words}{apart}.")
        case JobState.SUCCEEDED:
            return Blocker("succeeded", "It has succeeded.")
        case JobState.CANCELLED:
            reason = job.reason or job.cancel_reason or "no reason given"
            return Blocker("cancelled", f"It was cancelled: {reason}. It can be retried.")
        case _:
            answer = ": ".join(text for text in (job.reason, summary(job.error)) if text)
            return Blocker("failed", f"It has failed: {answer[:500]}. It can be retried.")


async def find_blockers(
    context: OperationContext, job: Job, now: datetime
) -> AsyncIterator[Blocker]:
    if job.start_by is not None and job.start_by < now:
        yield Blocker(
            "lapsed",
            f"It should have started by {instant_text(job.start_by)} and will be cancelled.",
        )
    if job.blocked_by > 0:
        yield await unfinished_predecessors(context, job)
    queue = await get_queue(context, job.queue)
    if queue.paused:
        yield Blocker("queue_paused", f"Its queue {job.queue} is paused.")
    if await is_schedule_paused(context, job):
        yield Blocker("schedule_paused", "Its schedule is paused.")
    if job.due_at > now:
        yield waiting_for_time(job)
    for blocker in [
        *(await limits_in_the_way(context, queue, job, now)),
        *(await missing_workers(context, job, now)),
        *kept_apart(job),
        *earlier_jobs(queue, job, now),
    ]:
        yield blocker


async def limits_in_the_way(
    context: OperationContext, queue: Queue, job: Job, now: datetime
) -> Sequence[Blocker]:
    if job.due_at > now or queue.limits == NO_LIMITS:
        return []
    return list(limit_blockers(queue, job, await running_beside(context, queue, job)))


async def missing_workers(context: OperationContext, job: Job, now: datetime) -> Sequence[Blocker]:
    workers = [each for each in await context.store.workers() if seems_alive(each, now)]
    return missing_worker(job, workers, is_due=job.due_at <= now)


def waiting_for_time(job: Job) -> Blocker:
    if job.reason is not None:
        return Blocker(
            "put_off", f"It was put off until {instant_text(job.due_at)}: {job.reason}.", job.due_at
        )
    if job.error is not None and job.attempt > 0:
        error = summary(job.error)[:200]
        return Blocker(
            "retry_later",
            f"Attempt {job.attempt} of {job.retry.attempts_max} failed ({error});"
            f" it is tried again at {instant_text(job.due_at)}.",
            job.due_at,
        )
    return Blocker("later", f"It is due at {instant_text(job.due_at)}.", job.due_at)


async def unfinished_predecessors(context: OperationContext, job: Job) -> Blocker:
    unfinished = [id async for id in unfinished_of(context, job.after)]
    if not unfinished:
        return Blocker("overlap", "It waits for an earlier job of its schedule to end.")
    more = f" and {job.blocked_by - len(unfinished)} more" if job.blocked_by > SHOWN_MAX else ""
    return Blocker(
        "blocked",
        f"It waits for {', '.join(unfinished)}{more} to succeed.",
        jobs=tuple(unfinished),
    )


async def unfinished_of(context: OperationContext, ids: Sequence[JobId]) -> AsyncIterator[JobId]:
    """The first of these jobs that have not ended."""
    shown_count = 0
    for id in ids:
        if shown_count == SHOWN_MAX:
            return
        earlier = await context.store.job(id)
        if earlier is not None and not earlier.is_final:
            shown_count += 1
            yield id


def limit_blockers(queue: Queue, job: Job, beside: int) -> Iterator[Blocker]:
    """The reasons from the queue's limits; `beside` jobs of the same group run."""
    limits, group = queue.limits, f"Group {job.group} of queue {queue.name}"
    if limits.concurrency is not None and queue.running >= limits.concurrency:
        yield capacity_blocker(
            "queue_full", f"Queue {queue.name}", queue.running, limits.concurrency
        )
    elif limits.rate is not None:
        yield rate_blocker("queue_rate", f"Queue {queue.name}", limits.rate)
    if job.group is None:
        return
    if limits.group_concurrency is not None and beside >= limits.group_concurrency:
        yield capacity_blocker("group_full", group, beside, limits.group_concurrency)
    elif limits.group_rate is not None:
        yield rate_blocker("group_rate", group, limits.group_rate)


def kept_apart(job: Job) -> Iterator[Blocker]:
    """A suspected job waits for a worker that holds few enough other jobs."""
    for how in company(job):
        died = f"Its worker died {times(job.lost)} while it ran"
        yield Blocker("apart", f"{died}, so it runs apart: {how}.")


def company(job: Job) -> Iterator[str]:
    """How many jobs its worker may hold at once, where this is bounded."""
    most = None if job.suspicion is None else job.suspicion.company_max
    if most == 1:
        yield "alone in its worker"
    elif most is not None:
        yield f"one of at most {most} jobs in its worker"


def earlier_jobs(queue: Queue, job: Job, now: datetime) -> Iterator[Blocker]:
    if queue.limits.fair and queue.due > 1 and job.due_at <= now:
        yield Blocker(
            "turn", f"The groups of queue {queue.name} take turns, and others may go first."
        )


def capacity_blocker(code: str, what: str, running: int, most: int) -> Blocker:
    return Blocker(code, f"{what} runs {running} of {most} jobs.")


def rate_blocker(code: str, what: str, rate: Rate) -> Blocker:
    return Blocker(code, f"{what} starts {rate_text(rate)} at most, and others may go first.")


async def running_beside(context: OperationContext, queue: Queue, job: Job) -> int:
    """The number of running jobs of the job's group, counted in one page of running jobs."""
    if job.group is None or queue.limits.group_concurrency is None:
        return 0
    page = await context.store.jobs(
        JobFilter(state=JobState.RUNNING, queue=queue.name, limit=PAGE_LIMIT_MAX)
    )
    return sum(other.group == job.group for other in page.items)


async def is_schedule_paused(context: OperationContext, job: Job) -> bool:
    if job.schedule_id is None:
        return False
    schedule = await context.store.schedule(job.schedule_id)
    return schedule is not None and schedule.status is ScheduleStatus.PAUSED


def missing_worker(job: Job, workers: Sequence[WorkerRecord], *, is_due: bool) -> Sequence[Blocker]:
    """A missing or busy worker as the reason; busy workers count only once the job is due."""
    if not workers:
        return [Blocker("no_worker", "No worker is alive.")]
    lane = lane_of(job.target)
    knowing = [worker for worker in workers if lane in worker.lanes]
    if not knowing:
        return [Blocker("unknown_task", f"No live worker knows {lane}.")]
    serving = [each for each in knowing if each.queues is None or job.queue in each.queues]
    if not serving:
        return [Blocker("no_worker_for_queue", f"No live worker serves queue {job.queue}.")]
    if is_due and all(worker.running >= worker.concurrency for worker in serving):
        return [Blocker("workers_busy", "All workers that could run it are full.")]
    return []


def summary(error: str | None) -> str:
    """The last line of an error: a traceback ends with its message."""
    return (error or "").strip().rpartition("\n")[2]


def instant_text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
