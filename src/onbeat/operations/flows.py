"""The operations of flows: jobs that were sent together, or by one job."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Final

from onbeat.model.errors import Invalid, NotFound
from onbeat.model.flow import FlowLook
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import FLOW_LOOK_MAX, PAGE_LIMIT_MAX
from onbeat.model.page import JobFilter
from onbeat.operations.alerts import name_of
from onbeat.operations.context import OperationContext
from onbeat.operations.jobs import CANCELLED_BY_CALLER
from onbeat.ports.store import FlowCounts as StoredCounts
from onbeat.rules.dependents import end_of_flow, is_lost
from onbeat.rules.derived_ids import instant_of
from onbeat.rules.flows import after_flow
from onbeat.wire.flows import (
    FlowAnswer,
    FlowChange,
    FlowCounts,
    FlowInfo,
    FlowsAnswer,
    FlowSummary,
    edges_between,
)
from onbeat.wire.jobs import job_answer, read_reason
from onbeat.wire.requests import CancelFlow, FlowById, ListFlows, ShowFlow
from onbeat.wire.values import job_id

LIVE: Final = (JobState.RUNNING, JobState.WAITING)
LOOKS: Final = (JobState.WAITING, JobState.RUNNING, JobState.WAITING)
"""In which a cancel meets each job: one starts, or is put off, between two of them."""
STATES: Final = (*LIVE, JobState.FAILED, JobState.CANCELLED, JobState.SUCCEEDED)
ABSENT: Final = "Flow not found"


async def list_flows(context: OperationContext, request: ListFlows) -> FlowsAnswer:
    """Flows with members, by a few reads of an index each."""
    before = job_id(request.cursor, "cursor") if request.cursor else None
    looks = await looks_below(context, before, request.limit + 1)
    chosen = looks[: request.limit]
    senders = await context.store.jobs_by_id([one.flow for one, _ in chosen])
    found = [await info_of(context, one, last, senders.get(one.flow)) for one, last in chosen]
    cursor = chosen[-1][0].flow if len(looks) > len(chosen) else None
    return FlowsAnswer(flows=tuple(found), limit=request.limit, cursor=cursor)


async def looks_below(
    context: OperationContext, before: JobId | None, limit: int
) -> list[tuple[FlowLook, FlowLook | None]]:
    """Each flow with what waits for its end, which the store has as a flow of its own.

    Both have the same millisecond, so that they stand near one another, in any order.
    """
    found: dict[JobId, FlowLook] = {}
    at = before
    lasts: dict[JobId, JobId] = {} if before is None else {after_flow(before): before}
    while len(found.keys() - lasts.keys()) < limit:
        looks = await context.store.newest_flows(at, limit, FLOW_LOOK_MAX)
        found |= {one.flow: one for one in looks}
        lasts |= {after_flow(one.flow): one.flow for one in looks}
        if len(looks) < limit:
            break
        at = looks[-1].flow
    flows = [one for id, one in found.items() if id not in lasts]
    return [(one, found.get(after_flow(one.flow))) for one in flows[:limit]]


async def info_of(
    context: OperationContext, one: FlowLook, last: FlowLook | None, sender: Job | None
) -> FlowInfo:
    if sender is None:
        sender = next(iter((await context.store.jobs(JobFilter(flow=one.flow, limit=1))).items))
    counts = {sender.state: 1} if sender.id == one.flow else {}
    of_flow = Counter(one.counts) + Counter(counts)
    waiting = Counter[JobState]() if last is None else Counter(last.counts)
    return FlowInfo(
        id=one.flow,
        state=await state_of_look(context, one.flow, of_flow + waiting, sender),
        counts=named_counts(of_flow),
        last=named_counts(waiting),
        task=name_of(sender),
        at=sent_at(one.flow, sender),
        more=one.more or (last is not None and last.more),
    )


def sent_at(flow: JobId, sender: Job) -> datetime | None:
    """A job that is planned long before it runs sends the others when it runs."""
    started = sender.started_at if sender.id == flow else None
    return started or instant_of(flow)


async def state_of_look(
    context: OperationContext, flow: JobId, counts: Mapping[JobState, int], sender: Job
) -> JobState:
    """As `state_of` judges it, of at most a page of cancelled jobs."""
    if counts.get(JobState.RUNNING) or counts.get(JobState.WAITING):
        return JobState.RUNNING
    if counts.get(JobState.FAILED):
        return JobState.FAILED
    if not counts.get(JobState.CANCELLED):
        return JobState.SUCCEEDED
    cancelled = [sender] if sender.id == flow else []
    for part in (flow, after_flow(flow)):
        filter = JobFilter(flow=part, state=JobState.CANCELLED, limit=PAGE_LIMIT_MAX)
        cancelled += (await context.store.jobs(filter)).items
    return end_of_flow(cancelled)


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

    The job that sends the others comes first; then what waits, so that no end of a running job
    writes the same jobs meanwhile. What others send meanwhile may stay.
    """
    flow, reason = job_id(request.id), read_reason(request.why, CANCELLED_BY_CALLER)
    await summary_of(context, flow)
    changed = 0
    sender = await context.store.job(flow)
    if sender is not None and not sender.is_final:
        changed += await cancel_all(context, [flow], reason)
    for state in LOOKS:
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
    # Those that have ended with another one come back with it when the flow is retried.
    live = [job for id in ids if (job := before.get(id)) is not None and not job.is_final]
    await context.store.cancel([job.id for job in live], reason, context.clock.now())
    return sum(job.cancel_reason is None for job in live)


async def retry(context: OperationContext, request: FlowById) -> FlowChange:
    """Let failed jobs of the flow wait again, and with them what was cancelled because of them.

    So do jobs that were cancelled by hand while they were live; a way that was not taken stays so.
    What has never started keeps its own due time.
    """
    flow = job_id(request.id)
    before = done_in(await summary_of(context, flow))
    sender = await context.store.job(flow)
    if sender is not None and is_loose(sender):
        await context.store.retry([flow], context.clock.now(), at_once=False)
    for state in (JobState.FAILED, JobState.CANCELLED):
        await retry_those(context, members(context, flow, state), is_loose)
    if await has_live(context, flow):
        waited = members(context, flow, JobState.CANCELLED)
        await retry_those(context, waited, lambda job: is_only_caused(job, flow))
    done = done_in(await summary_of(context, flow))
    return await change(context, flow, max(before - done, 0))


async def retry_those(
    context: OperationContext, jobs: AsyncIterator[Job], chosen: Callable[[Job], bool]
) -> None:
    batch: list[JobId] = []
    async for job in jobs:
        batch += [job.id] if chosen(job) else []
        if len(batch) == PAGE_LIMIT_MAX:
            await context.store.retry(batch, context.clock.now(), at_once=False)
            batch = []
    if batch:
        await context.store.retry(batch, context.clock.now(), at_once=False)


def done_in(summary: FlowSummary) -> int:
    return summary.counts.done + summary.last.done


def is_loose(job: Job) -> bool:
    """Whether no other end was the cause that the job failed or was cancelled."""
    return is_lost(job.state) and job.cause_id is None


def is_only_caused(job: Job, flow: JobId) -> bool:
    """Whether the end of the flow alone has cancelled the job."""
    return job.cause_id == flow and job.cancel_reason is None


async def has_live(context: OperationContext, flow: JobId) -> bool:
    """Whether the flow itself goes on, which others may wait for."""
    counts = (await context.store.flow_counts([flow])).get(flow, {})
    return any(counts.get(state) for state in LIVE)


async def change(context: OperationContext, flow: JobId, changed: int) -> FlowChange:
    summary = await summary_of(context, flow)
    return FlowChange(
        id=flow, state=summary.state, counts=summary.counts, last=summary.last, changed=changed
    )
