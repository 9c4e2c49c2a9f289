"""The operations of failures, by fault."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.errors import Conflict, Invalid, NotFound
from onbeat.model.fault import FaultRecord, OperatorNote
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import (
    FAULT_JOBS_MAX,
    FAULT_LISTED_JOBS_MAX,
    FAULT_SPREAD_ATTEMPTS,
    FAULT_SPREAD_JOBS,
)
from onbeat.model.page import JobFilter
from onbeat.operations.context import OperationContext
from onbeat.rules.fault_spread import spread_of
from onbeat.rules.fault_tally import COUNTED
from onbeat.rules.faults import change_of, hours_until, with_change
from onbeat.wire.failures import (
    FailureById,
    FailureInfo,
    FailureOrder,
    FailuresAnswer,
    GroupReplayed,
    ListFailures,
    NoteFailure,
    ReplayFailures,
    SilenceFailure,
    failure_info,
    read_fault_key,
)
from onbeat.wire.jobs import job_answer
from onbeat.wire.values import job_id, read_instant, read_span

ABSENT: Final = "Failure not found"
HOURS_LISTED: Final = 24
NEWEST_JOBS: Final = 10
RETRIED_AT_ONCE: Final = 100

ORDERS: Final[dict[FailureOrder, Callable[[FaultRecord], Any]]] = {
    "last": lambda record: record.last_at,
    "count": lambda record: record.attempts,
    "first": lambda record: record.first_at,
}


async def list_failures(context: OperationContext, request: ListFailures) -> FailuresAnswer:
    """Latest failure first, unless the request says otherwise."""
    now, first = context.clock.now(), place_of(request.cursor)
    since = None if request.since is None else read_instant(request.since, "since")
    found = [one for one in await context.store.faults() if matches(request, one, since)]
    found.sort(key=lambda record: (ORDERS[request.order](record), record.fault), reverse=True)
    chosen = found[first : first + request.limit]
    jobs = await context.store.fault_jobs(
        [record.fault for record in chosen], FAULT_LISTED_JOBS_MAX + 1
    )
    end = first + len(chosen)
    return FailuresAnswer(
        failures=tuple(
            failure_info(one, jobs[one.fault], hours_until(one, now, HOURS_LISTED))
            for one in chosen
        ),
        total=len(found),
        limit=request.limit,
        cursor=str(end) if end < len(found) else None,
    )


def place_of(cursor: str | None) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit()):
        raise Invalid("cursor is the one of the page before", "cursor")
    return int(cursor)


def matches(request: ListFailures, record: FaultRecord, since: datetime | None) -> bool:
    return (
        request.queue in (None, "", record.queue)
        and request.task in (None, "", record.task)
        and (since is None or record.last_at >= since)
        and (request.q or "").casefold() in f"{record.title}\n{record.task}".casefold()
    )


async def show(context: OperationContext, request: FailureById) -> FailureInfo:
    """The fault with its newest jobs, and what these have in common."""
    key = read_fault_key(request.fault)
    newest = await jobs_of(context, key, FAULT_SPREAD_JOBS)
    info = await described(context, await get_fault(context, key, newest))
    return replace(
        info,
        jobs=tuple(job_answer(job) for job in newest[:NEWEST_JOBS]),
        spread=spread_of(newest, await workers_of(context, newest[:FAULT_SPREAD_ATTEMPTS])),
    )


async def described(context: OperationContext, record: FaultRecord) -> FailureInfo:
    jobs = await context.store.fault_jobs([record.fault], FAULT_JOBS_MAX + 1)
    return failure_info(record, jobs[record.fault], hours_until(record, context.clock.now()))


async def workers_of(context: OperationContext, jobs: Sequence[Job]) -> Sequence[str]:
    """Who ran the last failed attempt of each job; by host and process where that still runs."""
    known = {one.id: f"{one.host}:{one.pid}" for one in await context.store.workers()}
    found: list[str] = []
    for job in jobs:
        failed = [one for one in await context.store.attempts(job.id) if one.outcome in COUNTED]
        if failed and (worker := failed[-1].worker) is not None:
            found.append(known.get(worker, worker))
    return found


async def jobs_of(
    context: OperationContext,
    key: int,
    limit: int,
    state: JobState | None = None,
    before: JobId | None = None,
) -> Sequence[Job]:
    """The newest jobs of the fault."""
    filter = JobFilter(fault=key, state=state, before=before, limit=limit)
    return (await context.store.jobs(filter)).items


async def get_fault(context: OperationContext, key: int, newest: Sequence[Job]) -> FaultRecord:
    """As it is stored, else as a job of it tells: one that just failed, or is old.

    Raises `NotFound` where there is neither.
    """
    record = await context.store.fault(key)
    if record is not None:
        return record
    job = next((job for job in newest if job.error), None)
    if job is None:
        raise NotFound(ABSENT)
    at = job.finished_at or job.started_at or job.created_at
    record = with_change(None, change_of(job.target, job.queue, job.id, job.error or "", at))
    return replace(record, fault=key)


async def silence(context: OperationContext, request: SilenceFailure) -> FailureInfo:
    """Leave the fault out of what needs somebody, until an instant; it is counted on."""
    key, body, now = read_fault_key(request.fault), request.silence, context.clock.now()
    if (body.until is UNSET) is (body.span is UNSET):
        raise Invalid("Give until or for, and not both", "until")
    until = None
    if body.span is not UNSET:
        until = now + read_span(body.span, "for")
    elif body.until is not UNSET and body.until is not None:
        until = read_instant(body.until, "until")
    note = body.note if until is not None else None
    if not await context.store.silence_fault(key, until, note):
        raise NotFound(ABSENT)
    return await described(context, await get_fault(context, key, ()))


async def write_note(context: OperationContext, request: NoteFailure) -> FailureInfo:
    """Replace the operator's note; an empty text deletes it."""
    key, text = read_fault_key(request.fault), request.note.text.strip()
    by, at = context.principal.name, context.clock.now()
    note = OperatorNote(text=text, by=by, at=at) if text else None
    if not await context.store.write_fault_note(key, note):
        raise NotFound(ABSENT)
    return await described(context, await get_fault(context, key, ()))


async def replay(context: OperationContext, request: ReplayFailures) -> GroupReplayed:
    """Retry failed jobs of the fault, newest first; a repeated call goes on with the others.

    Sensitive jobs, whose payload is gone, and those whose unique key another job holds are skipped.
    """
    key, how = read_fault_key(request.fault), request.replay
    before = job_id(how.cursor, "cursor") if how.cursor else None
    found = await jobs_of(context, key, how.limit + 1, JobState.FAILED, before)
    chosen = found[: how.limit]
    retriable = [job.id for job in chosen if not job.sensitive]
    done = len(retriable)
    if not how.dry_run:
        done = 0
        for first in range(0, len(retriable), RETRIED_AT_ONCE):
            done += await retry(context, retriable[first : first + RETRIED_AT_ONCE])
    has_more = len(found) > len(chosen)
    return GroupReplayed(
        dry_run=how.dry_run,
        matched=len(chosen),
        done=done,
        skipped=len(chosen) - done,
        more=has_more,
        cursor=chosen[-1].id if has_more else None,
    )


async def retry(context: OperationContext, ids: Sequence[JobId]) -> int:
    """How many of the jobs wait again. If one cannot, each is tried alone."""
    now = context.clock.now()
    try:
        jobs = await context.store.retry(ids, now)
    except Conflict:
        if len(ids) == 1:
            return 0
        return sum([await retry(context, [id]) for id in ids])
    return sum(job is not None and job.state is JobState.WAITING for job in jobs)
