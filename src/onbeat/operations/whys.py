"""Why a job does not run: everything that is in its way, the deepest reason first."""

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
from onbeat.model.worker import Worker
from onbeat.operations.jobs import found
from onbeat.operations.operator import Operator
from onbeat.operations.places import queue_as_it_is
from onbeat.wire.limits import rate_text
from onbeat.wire.places import seems_alive
from onbeat.wire.requests import JobById, Why

SHOWN_MAX = 10
"""Of many jobs that a job waits for, so many are named."""


class Obstacle(msgspec.Struct, frozen=True):
    """One thing that is in a job's way; `until` where it goes away by itself."""

    code: str
    words: str
    until: datetime | None = None
    jobs: tuple[str, ...] = ()


async def why(operator: Operator, request: JobById) -> Why:
    """Why the job does not run now, what it waits for, and when it may run."""
    job = await found(operator, request.id)
    if job.state is not JobState.WAITING:
        return answer(job, [standing(job)])
    now = operator.clock.now()
    obstacles = [obstacle async for obstacle in in_the_way(operator, job, now)]
    return answer(job, obstacles or [Obstacle("ready", "It is due and about to start.", now)])


def answer(job: Job, obstacles: Sequence[Obstacle]) -> Why:
    times = [obstacle.until for obstacle in obstacles if obstacle.until is not None]
    return Why(
        id=job.id,
        state=job.state,
        code=obstacles[0].code,
        explanation=" ".join(obstacle.words for obstacle in obstacles),
        may_run_at=max(times, default=None),
        waits_for=tuple(id for obstacle in obstacles for id in obstacle.jobs),
    )


def standing(job: Job) -> Obstacle:
    """What is to be said of a job that does not wait."""
    match job.state:
        case JobState.RUNNING if job.cancel_reason is not None:
            return Obstacle("stopping", f"It runs and was asked to stop: {job.cancel_reason}.")
        case JobState.RUNNING:
            return Obstacle("running", f"It runs on worker {job.worker}, attempt {job.attempt}.")
        case JobState.SUCCEEDED:
            return Obstacle("succeeded", "It has succeeded.")
        case JobState.CANCELLED:
            reason = job.reason or job.cancel_reason or "no reason given"
            return Obstacle("cancelled", f"It was cancelled: {reason}. It can be retried.")
        case _:
            told = ": ".join(text for text in (job.reason, summary(job.error)) if text)
            return Obstacle("failed", f"It has failed: {told[:500]}. It can be retried.")


async def in_the_way(operator: Operator, job: Job, now: datetime) -> AsyncIterator[Obstacle]:
    if job.start_by is not None and job.start_by < now:
        yield Obstacle(
            "lapsed", f"It should have started by {shown(job.start_by)} and will be cancelled."
        )
    if job.blocked_by > 0:
        yield await blocking(operator, job)
    queue = await queue_as_it_is(operator, job.queue)
    if queue.paused:
        yield Obstacle("queue_paused", f"Its queue {job.queue} is paused.")
    if await is_schedule_paused(operator, job):
        yield Obstacle("schedule_paused", "Its schedule is paused.")
    if job.due_at > now:
        yield waiting_for_time(job)
    for obstacle in [
        *(await over_limit(operator, queue, job, now)),
        *(await without_worker(operator, job, now)),
        *behind_others(queue, job, now),
    ]:
        yield obstacle


async def over_limit(
    operator: Operator, queue: Queue, job: Job, now: datetime
) -> Sequence[Obstacle]:
    if job.due_at > now or queue.limits == NO_LIMITS:
        return []
    return list(limited(queue, job, await running_beside(operator, queue, job)))


async def without_worker(operator: Operator, job: Job, now: datetime) -> Sequence[Obstacle]:
    workers = [each for each in await operator.store.workers() if seems_alive(each, now)]
    return missing_worker(job, workers, is_due=job.due_at <= now)


def waiting_for_time(job: Job) -> Obstacle:
    if job.reason is not None:
        return Obstacle(
            "put_off", f"It was put off until {shown(job.due_at)}: {job.reason}.", job.due_at
        )
    if job.error is not None and job.attempt > 0:
        error = summary(job.error)[:200]
        return Obstacle(
            "retry_later",
            f"Attempt {job.attempt} of {job.retry.attempts_max} failed ({error});"
            f" it is tried again at {shown(job.due_at)}.",
            job.due_at,
        )
    return Obstacle("later", f"It is due at {shown(job.due_at)}.", job.due_at)


async def blocking(operator: Operator, job: Job) -> Obstacle:
    unfinished = [id async for id in unfinished_of(operator, job.after)]
    if not unfinished:
        return Obstacle("overlap", "It waits for an earlier job of its schedule to end.")
    more = f" and {job.blocked_by - len(unfinished)} more" if job.blocked_by > SHOWN_MAX else ""
    return Obstacle(
        "blocked",
        f"It waits for {', '.join(unfinished)}{more} to succeed.",
        jobs=tuple(unfinished),
    )


async def unfinished_of(operator: Operator, ids: Sequence[JobId]) -> AsyncIterator[JobId]:
    """The first of the jobs that have not ended."""
    shown_count = 0
    for id in ids:
        if shown_count == SHOWN_MAX:
            return
        earlier = await operator.store.job(id)
        if earlier is not None and not earlier.is_final:
            shown_count += 1
            yield id


def limited(queue: Queue, job: Job, beside: int) -> Iterator[Obstacle]:
    """What the limits of the queue say, of which `beside` jobs of the same group run."""
    limits, group = queue.limits, f"Group {job.group} of queue {queue.name}"
    if limits.concurrency is not None and queue.running >= limits.concurrency:
        yield full("queue_full", f"Queue {queue.name}", queue.running, limits.concurrency)
    elif limits.rate is not None:
        yield slowed("queue_rate", f"Queue {queue.name}", limits.rate)
    if job.group is None:
        return
    if limits.group_concurrency is not None and beside >= limits.group_concurrency:
        yield full("group_full", group, beside, limits.group_concurrency)
    elif limits.group_rate is not None:
        yield slowed("group_rate", group, limits.group_rate)


def behind_others(queue: Queue, job: Job, now: datetime) -> Iterator[Obstacle]:
    if queue.limits.fair and queue.due > 1 and job.due_at <= now:
        yield Obstacle(
            "turn", f"The groups of queue {queue.name} take turns, and others may go first."
        )


def full(code: str, what: str, running: int, most: int) -> Obstacle:
    return Obstacle(code, f"{what} runs {running} of {most} jobs.")


def slowed(code: str, what: str, rate: Rate) -> Obstacle:
    return Obstacle(code, f"{what} starts {rate_text(rate)} at most, and others may go first.")


async def running_beside(operator: Operator, queue: Queue, job: Job) -> int:
    """How many jobs of the job's group run, of as many as a page of jobs holds."""
    if job.group is None or queue.limits.group_concurrency is None:
        return 0
    page = await operator.store.jobs(
        JobFilter(state=JobState.RUNNING, queue=queue.name, limit=PAGE_LIMIT_MAX)
    )
    return sum(other.group == job.group for other in page.items)


async def is_schedule_paused(operator: Operator, job: Job) -> bool:
    if job.schedule_id is None:
        return False
    schedule = await operator.store.schedule(job.schedule_id)
    return schedule is not None and schedule.status is ScheduleStatus.PAUSED


def missing_worker(job: Job, workers: Sequence[Worker], *, is_due: bool) -> Sequence[Obstacle]:
    """Nobody to run it; that those who can are busy counts only once it is due."""
    if not workers:
        return [Obstacle("no_worker", "No worker is alive.")]
    lane = lane_of(job.target)
    knowing = [worker for worker in workers if lane in worker.lanes]
    if not knowing:
        return [Obstacle("unknown_task", f"No live worker knows {lane}.")]
    serving = [each for each in knowing if each.queues is None or job.queue in each.queues]
    if not serving:
        return [Obstacle("no_worker_for_queue", f"No live worker serves queue {job.queue}.")]
    if is_due and all(worker.running >= worker.concurrency for worker in serving):
        return [Obstacle("workers_busy", "All workers that could run it are full.")]
    return []


def summary(error: str | None) -> str:
    """The line of an error that says most: a traceback ends with it."""
    return (error or "").strip().rpartition("\n")[2]


def shown(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
