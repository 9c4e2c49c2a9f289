"""The operations of flows: jobs that were sent together, or by one job."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import product
from typing import Final

from onbeat.model.errors import Invalid, NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import JobFilter
from onbeat.operations.context import OperationContext
from onbeat.operations.jobs import CANCELLED_BY_CALLER
from onbeat.ports.store import FlowCounts as StoredCounts
from onbeat.rules.dependents import end_of_flow, is_lost
from onbeat.rules.flows import after_flow
from onbeat.wire.flows import FlowAnswer, FlowChange, FlowCounts, FlowSummary, edges_between
from onbeat.wire.jobs import job_answer, read_reason
from onbeat.wire.requests import CancelFlow, FlowById, ShowFlow
from onbeat.wire.values import job_id

LIVE: Final = (JobState.RUNNING, JobState.WAITING)
STATES: Final = (*LIVE, JobState.FAILED, JobState.CANCELLED, JobState.SUCCEEDED)
ABSENT: Final = "Flow not found"


async def show(context: OperationContext, request: ShowFlow) -> FlowAnswer:
    """A page of the flow, what is unfinished first."""
    flow = job_id(request.id)
    summary = await summary_of(context, flow)
    if request.limit == 0:
        return answer(summary, [], 0, None)
    start, before = read_cursor(request.cursor)
    jobs: list[Job] = []
    if request.cursor is None and (sender := await context.store.job(flow)) is not None:
        jobs.append(sender)
    for place, (part, state) in list(enumerate(parts_of(flow)))[start:]:
        limit = request.limit - len(jobs)
        filter = JobFilter(flow=part, state=state, before=before, limit=max(limit, 1))
        page = await context.store.jobs(filter)
        before = None
        if page.items and limit <= 0:
            return answer(summary, jobs, request.limit, f"{place}")
        jobs += page.items
        if page.cursor is not None:
            return answer(summary, jobs, request.limit, f"{place}/{page.cursor}")
    return answer(summary, jobs, request.limit, None)


def parts_of(flow: JobId) -> list[tuple[JobId, JobState]]:
    """The parts of a listing: members and those that wait for their end, by state."""
    return [(part, state) for state, part in product(STATES, (flow, after_flow(flow)))]


def read_cursor(cursor: str | None) -> tuple[int, JobId | None]:
    if cursor is None:
        return 0, None
    place, _, id = cursor.partition("/")
    if not place.isascii() or not place.isdigit() or int(place) >= 2 * len(STATES):
        raise Invalid("cursor must be one of an earlier page", "cursor")
    return int(place), job_id(id, "cursor") if id else None


def answer(summary: FlowSummary, jobs: Sequence[Job], limit: int, cursor: str | None) -> FlowAnswer:
    return FlowAnswer(
        id=summary.id,
        state=summary.state,
        counts=summary.counts,
        last=summary.last,
        jobs=tuple(map(job_answer, jobs)),
        edges=tuple(edge for job in jobs for edge in edges_between(job)),
        limit=limit,
        cursor=cursor,
    )


async def summary_of(context: OperationContext, flow: JobId) -> FlowSummary:
    """Counts, in one query, and the state. Raises `NotFound`."""
    last = after_flow(flow)
    found = await context.store.flow_counts([flow, last])
    if last not in found and (flow not in found or not await is_known(context, flow, found[flow])):
        raise NotFound(ABSENT)
    counts, waiting = named_counts(found.get(flow, {})), named_counts(found.get(last, {}))
    state = await state_of(context, flow, found)
    return FlowSummary(id=flow, state=state, counts=counts, last=waiting)


async def is_known(context: OperationContext, flow: JobId, counts: Mapping[JobState, int]) -> bool:
    """Whether jobs are members; a job that has sent none is no flow."""
    return sum(counts.values()) > 1 or await context.store.job(flow) is None


def named_counts(counts: Mapping[JobState, int]) -> FlowCounts:
    return FlowCounts(**{state.value: count for state, count in counts.items()})


async def state_of(context: OperationContext, flow: JobId, found: StoredCounts) -> JobState:
    total = Counter[JobState]()
    for counts in found.values():
        total.update(counts)
    if total[JobState.RUNNING] or total[JobState.WAITING]:
        return JobState.RUNNING
    if total[JobState.FAILED]:
        return JobState.FAILED
    if not total[JobState.CANCELLED]:
        return JobState.SUCCEEDED
    sender = await context.store.job(flow)
    cancelled = [] if sender is None else [sender]
    cancelled += [job async for job in members(context, flow, JobState.CANCELLED)]
    return end_of_flow(cancelled)


async def members(context: OperationContext, flow: JobId, state: JobState) -> AsyncIterator[Job]:
    """The members in this state, and those that wait for their end, page by page."""
    for part in (flow, after_flow(flow)):
        before: JobId | None = None
        while True:
            filter = JobFilter(flow=part, state=state, before=before, limit=PAGE_LIMIT_MAX)
            page = await context.store.jobs(filter)
            for job in page.items:
                yield job
            if page.cursor is None:
                break
            before = JobId(page.cursor)


async def cancel(context: OperationContext, request: CancelFlow) -> FlowChange:
    """Cancel all waiting jobs of the flow, and ask the running ones to stop.

    The job that sends the others comes first. What others send meanwhile may stay.
    """
    flow, reason = job_id(request.id), read_reason(request.why, CANCELLED_BY_CALLER)
    await summary_of(context, flow)
    changed = 0
    sender = await context.store.job(flow)
    if sender is not None and not sender.is_final:
        changed += await cancel_all(context, [flow], reason)
    for state in LIVE:
        batch: list[JobId] = []
        async for job in members(context, flow, state):
            batch.append(job.id)
            if len(batch) == PAGE_LIMIT_MAX:
                changed += await cancel_all(context, batch, reason)
                batch = []
        changed += await cancel_all(context, batch, reason)
    return await change(context, flow, changed)


async def cancel_all(context: OperationContext, ids: Sequence[JobId], reason: str) -> int:
    """Returns how many were live."""
    before = await context.store.jobs_by_id(ids)
    await context.store.cancel(list(ids), reason, context.clock.now())
    return sum(not job.is_final and job.cancel_reason is None for job in before.values())


async def retry(context: OperationContext, request: FlowById) -> FlowChange:
    """Let failed jobs of the flow wait again, and with them what was cancelled because of them.

    So do jobs that were cancelled by hand; a way that was not taken stays so.
    """
    flow = job_id(request.id)
    before = done_in(await summary_of(context, flow))
    sender = await context.store.job(flow)
    if sender is not None and is_loose(sender):
        await context.store.retry([flow], context.clock.now())
    for state in (JobState.FAILED, JobState.CANCELLED):
        await retry_those(context, members(context, flow, state), is_loose)
    if await has_live(context, flow):
        waited = members(context, flow, JobState.CANCELLED)
        await retry_those(context, waited, lambda job: job.cause_id == flow)
    done = done_in(await summary_of(context, flow))
    return await change(context, flow, max(before - done, 0))


async def retry_those(
    context: OperationContext, jobs: AsyncIterator[Job], chosen: Callable[[Job], bool]
) -> None:
    batch: list[JobId] = []
    async for job in jobs:
        batch += [job.id] if chosen(job) else []
        if len(batch) == PAGE_LIMIT_MAX:
            await context.store.retry(batch, context.clock.now())
            batch = []
    if batch:
        await context.store.retry(batch, context.clock.now())


def done_in(summary: FlowSummary) -> int:
    return summary.counts.done + summary.last.done


def is_loose(job: Job) -> bool:
    """Whether no other end was the cause that the job failed or was cancelled."""
    return is_lost(job.state) and job.cause_id is None


async def has_live(context: OperationContext, flow: JobId) -> bool:
    """Whether the flow itself goes on, which others may wait for."""
    counts = (await context.store.flow_counts([flow])).get(flow, {})
    return any(counts.get(state) for state in LIVE)


async def change(context: OperationContext, flow: JobId, changed: int) -> FlowChange:
    summary = await summary_of(context, flow)
    return FlowChange(
        id=flow, state=summary.state, counts=summary.counts, last=summary.last, changed=changed
    )
