"""Bulks: which jobs they are for, how they go on, and how they end."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.access import BEGUN, AuditRecord
from onbeat.model.bulk import Bulk, BulkAction, BulkId, BulkState, Chunk
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import BULK_LOOK, BULK_RATE_MAX, BULK_UNDO, BULK_UNDO_MIN
from onbeat.model.page import Counted, JobFilter, Page
from onbeat.rules.job_filters import matches
from onbeat.rules.reschedule import new_due_time

STATES: Final[Mapping[BulkAction, tuple[JobState, ...]]] = {
    BulkAction.RETRY: (JobState.FAILED, JobState.CANCELLED),
    BulkAction.CANCEL: (JobState.WAITING, JobState.RUNNING),
    BulkAction.RESCHEDULE: (JobState.WAITING,),
}
"""The states that an action is for; the first one, unless the filter names another."""
ACTION: Final = "job.bulk"


def filter_of(do: BulkAction, where: JobFilter, now: datetime) -> JobFilter:
    """The jobs that the action is for. Raises `Invalid` for a state that it cannot change.

    What fails only later was not counted, so a retry leaves it alone.
    """
    state = where.state or STATES[do][0]
    if state not in STATES[do]:
        allowed = " or ".join(STATES[do])
        raise Invalid(f"where.state must be {allowed} for a {do}", "where.state")
    chosen = replace(where, state=state, before=None)
    if do is BulkAction.RETRY and chosen.until is None:
        return replace(chosen, until=now + timedelta(microseconds=1))
    return chosen


def new_bulk(
    id: BulkId,
    do: BulkAction,
    where: JobFilter,
    upto: JobId,
    counted: Counted,
    by: str,
    now: datetime,
    run_at: datetime | None = None,
) -> Bulk:
    """A bulk of many jobs starts later, so that it can be stopped before it has done anything."""
    is_large = counted.count > BULK_UNDO_MIN or counted.more
    starts_at = now + BULK_UNDO if is_large else now
    return Bulk(
        id=id,
        do=do,
        where=where,
        run_at=run_at,
        upto=upto,
        cursor=above(upto),
        counted=counted.count,
        more=counted.more,
        made_by=by,
        created_at=now,
        starts_at=starts_at,
        next_at=starts_at,
    )


def above(id: JobId) -> JobId:
    """The id that follows."""
    digits = f"{(int(id.replace('-', ''), 16) + 1) % (1 << 128):032x}"
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return JobId("-".join(parts))


def is_due(bulk: Bulk, now: datetime) -> bool:
    return bulk.next_at is not None and bulk.next_at <= now


def next_filter(bulk: Bulk, limit: int) -> JobFilter:
    """The next jobs that the bulk may be for."""
    return replace(bulk.where, before=bulk.cursor, limit=limit, look=BULK_LOOK)


def still_fits(bulk: Bulk, job: Job) -> bool:
    """Whether the bulk acts on the job as it is now. A sensitive one has lost its payload."""
    is_lost = bulk.do is BulkAction.RETRY and job.sensitive
    return matches(bulk.where, job) and not is_lost


def new_due_times(
    bulk: Bulk, jobs: Sequence[Job], now: datetime
) -> tuple[Mapping[JobId, datetime], int]:
    """When each of the jobs that still fit is to be due, and how many would expire before that."""
    due: dict[JobId, datetime] = {}
    refused = 0
    for job in jobs:
        try:
            due[job.id] = new_due_time(job, bulk.run_at, None, now)
        except Invalid:
            refused += 1
    return due, refused


class Acted(msgspec.Struct, frozen=True):
    """Of the jobs of a page, how many were changed, and how many could not be."""

    done: int = 0
    failed: int = 0


def chunk_of(page: Page[Job], acted: Acted) -> Chunk:
    """What became of the jobs of a page: those that were not met had moved on."""
    return Chunk(
        cursor=cursor_after(page),
        done=acted.done,
        skipped=len(page.items) - acted.done - acted.failed,
        failed=acted.failed,
    )


def cursor_after(page: Page[Job]) -> JobId | None:
    return None if page.cursor is None else JobId(page.cursor)


def after_chunk(bulk: Bulk, chunk: Chunk, now: datetime) -> Bulk:
    """The bulk after its next chunk; the one after that waits for the rate."""
    count = chunk.done + chunk.skipped + chunk.failed
    moved = replace(
        bulk,
        state=BulkState.RUNNING,
        cursor=chunk.cursor or bulk.cursor,
        done=bulk.done + chunk.done,
        skipped=bulk.skipped + chunk.skipped,
        failed=bulk.failed + chunk.failed,
        next_at=now + timedelta(seconds=count / BULK_RATE_MAX),
    )
    return ended(moved, BulkState.DONE, now) if chunk.cursor is None else moved


def stopped(bulk: Bulk, now: datetime) -> Bulk:
    """The bulk as stopped; one that is over stays as it is."""
    if bulk.is_over:
        return bulk
    return replace(bulk, state=BulkState.STOPPED, next_at=None, finished_at=now)


def ended(bulk: Bulk, state: BulkState, now: datetime) -> Bulk:
    """Jobs that were counted and not met again had moved on before their chunk."""
    met = bulk.done + bulk.skipped + bulk.failed
    gone = 0 if bulk.more else max(0, bulk.counted - met)
    return replace(bulk, state=state, skipped=bulk.skipped + gone, next_at=None, finished_at=now)


def audit_of(bulk: Bulk) -> AuditRecord:
    """The one record of the bulk: begun, and at its end with its counts."""
    where = {
        name: value
        for name, value in msgspec.to_builtins(bulk.where).items()
        if name not in {"before", "limit", "look", "ids"} and value not in (None, [])
    }
    counts = {name: getattr(bulk, name) for name in ("counted", "done", "skipped", "failed")}
    run_at = {} if bulk.run_at is None else {"run_at": bulk.run_at}
    summary = {"do": str(bulk.do), "where": where, **run_at, **counts}
    return AuditRecord(
        id=bulk.id,
        at=bulk.created_at,
        actor=bulk.made_by,
        action=ACTION,
        object=f"bulk/{bulk.id}",
        summary=msgspec.json.encode(summary).decode(),
        outcome=str(bulk.state) if bulk.is_over else BEGUN,
    )


def reason_of(bulk: Bulk) -> str:
    """Why a job was cancelled, for its history."""
    return f"cancelled with bulk {bulk.id}"


def cause_of(bulk: Bulk) -> str:
    """What put off or brought forward a job, for its history."""
    return f"with bulk {bulk.id}"
