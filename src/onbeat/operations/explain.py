"""Explains why a job does not run: what is known of it, for the rule that decides."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from itertools import takewhile

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import JobFilter
from onbeat.model.queue import Queue, Rate
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.model.worker import WorkerRecord, is_carried
from onbeat.operations.context import OperationContext
from onbeat.operations.gatherings import gathering_of
from onbeat.operations.jobs import get_job
from onbeat.operations.queues import get_queue
from onbeat.rules.suspicion import is_unanswered
from onbeat.rules.why import (
    SHOWN_MAX,
    Blocker,
    WaitFacts,
    call_sent,
    key_it_holds,
    not_waiting,
    reasons,
    without_worker,
)
from onbeat.wire.limits import rate_text
from onbeat.wire.requests import Explanation, JobById
from onbeat.wire.workers import seems_alive


async def explain(context: OperationContext, request: JobById) -> Explanation:
    """Why the job does not run now, what it waits for, and when it may run."""
    job = await get_job(context, request.id)
    now = context.clock.now()
    if is_call(job):
        return answer(job, [call_sent(job, unanswered(await context.store.attempts(job.id)))])
    if job.state is JobState.RUNNING and await is_lost(context, job, now):
        return answer(job, [without_worker(job)])
    if job.state is not JobState.WAITING:
        return answer(job, [not_waiting(job), *await held_key(context, job, now)])
    return answer(job, reasons(await facts_of(context, job, now)))


def is_call(job: Job) -> bool:
    """Whether its call is in flight and unanswered, and nobody has cancelled the job."""
    return is_carried(job.worker) and job.lease_until is not None and job.cancel_reason is None


def unanswered(attempts: Sequence[Attempt]) -> int:
    """How many of the last attempts were calls that no worker answered."""
    return sum(1 for _ in takewhile(is_unanswered, reversed(attempts)))


async def is_lost(context: OperationContext, job: Job, now: datetime) -> bool:
    """Whether the job's worker is silent. A timed lease lasts without its worker."""
    if job.lease_until is not None:
        return now > job.lease_until
    workers = await context.store.workers()
    return any(each.id == job.worker and not seems_alive(each, now) for each in workers)


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


async def held_key(context: OperationContext, job: Job, now: datetime) -> Sequence[Blocker]:
    """Until when the ended job keeps its unique key from others."""
    if job.unique is None or not job.is_final:
        return []
    held = await context.store.held_key(job.unique, now)
    return [] if held is None else [key_it_holds(job, held)]


async def facts_of(context: OperationContext, job: Job, now: datetime) -> WaitFacts:
    queue = await get_queue(context, job.queue)
    is_blocked, is_due = job.blocked_by > 0, job.due_at <= now
    awaited = [id async for id in unfinished_of(context, job.after)] if is_blocked else []
    alive = [each for each in await context.store.workers() if seems_alive(each, now)]
    members, live = None, 0
    if is_blocked and not awaited and job.awaits_flow is not None:
        members, live = await live_members(context, job.awaits_flow)
    return WaitFacts(
        job=job,
        now=now,
        queue=queue,
        schedule=await paused_schedule(context, job),
        predecessors=tuple(awaited),
        members=members,
        live=live,
        gathered=None if is_due else await gathering_of(context, job, now),
        beside=await running_beside(context, queue, job) if is_due else 0,
        rate=rate_words(queue.limits.rate),
        group_rate=rate_words(queue.limits.group_rate),
        calls=await calls_in_flight(context, lane_of(job.target), alive) if is_due else 0,
        workers=alive,
    )


def rate_words(rate: Rate | None) -> str | None:
    return None if rate is None else rate_text(rate)


async def live_members(context: OperationContext, flow: JobId) -> tuple[tuple[JobId, ...], int]:
    """The first live jobs of a flow, the running ones and the sender first, and how many it has."""
    sender = await context.store.job(flow)
    live = [] if sender is None or sender.is_final else [sender.id]
    for state in (JobState.RUNNING, JobState.WAITING):
        page = await context.store.jobs(JobFilter(flow=flow, state=state, limit=SHOWN_MAX))
        live += [job.id for job in page.items]
    counts = (await context.store.flow_counts([flow])).get(flow, {})
    count = counts.get(JobState.RUNNING, 0) + counts.get(JobState.WAITING, 0)
    return tuple(live[:SHOWN_MAX]), count


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


async def running_beside(context: OperationContext, queue: Queue, job: Job) -> int:
    """The number of running jobs of the job's group, counted in one page of running jobs."""
    if job.group is None or queue.limits.group_concurrency is None:
        return 0
    page = await context.store.jobs(
        JobFilter(state=JobState.RUNNING, queue=queue.name, limit=PAGE_LIMIT_MAX)
    )
    return sum(other.group == job.group for other in page.items)


async def calls_in_flight(
    context: OperationContext, lane: str, alive: Sequence[WorkerRecord]
) -> int:
    """The number of calls of a task that no live worker knows, counted in one page of them."""
    if any(lane in worker.lanes for worker in alive):
        return 0
    page = await context.store.jobs(
        JobFilter(state=JobState.RUNNING, task=lane, limit=PAGE_LIMIT_MAX)
    )
    return sum(map(is_call, page.items))


async def paused_schedule(context: OperationContext, job: Job) -> Schedule | None:
    """The schedule of the job, if it is paused."""
    if job.schedule_id is None:
        return None
    schedule = await context.store.schedule(job.schedule_id)
    is_paused = schedule is not None and schedule.status is ScheduleStatus.PAUSED
    return schedule if is_paused else None
