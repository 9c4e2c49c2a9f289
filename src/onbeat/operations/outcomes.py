"""What became of the occurrences of a schedule, latest first."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.operations.context import OperationContext
from onbeat.ports.store import Disposition
from onbeat.rules.calendar import LAST, shifted
from onbeat.rules.outcomes import outcome_of_job, outcome_without_job
from onbeat.rules.plans import TICK
from onbeat.wire.outcomes import ListOccurrences, OccurrenceAnswer, OccurrencesAnswer
from onbeat.wire.values import read_instant, schedule_id, value_or_unset

READ_AT_ONCE: Final = 200
READ_MAX: Final = 2_000
"""Occurrences that one request looks at; a page that ends there has a cursor."""


async def list_occurrences(
    context: OperationContext, request: ListOccurrences
) -> OccurrencesAnswer:
    """Also of a deleted schedule. Planned ones come first, since they are the latest."""
    id = ScheduleId(schedule_id(request.id))
    since = None if request.since is None else read_instant(request.since, "from")
    found = [one for one in await running_on(context, id, request) if fits(request, one)]
    before, looked = begin_of(request), 0
    while len(found) < request.limit and looked < READ_MAX:
        wanted = READ_AT_ONCE if request.disposition else request.limit - len(found)
        rows = await context.store.latest_dispositions(id, before, min(wanted, READ_AT_ONCE))
        jobs = await jobs_of(context, rows)
        for row in rows:
            if since is not None and row.last < since:
                return answer_of(request, found, None)
            before, looked = row.first, looked + 1
            one = occurrence_answer(row, jobs)
            if fits(request, one):
                found.append(one)
            if len(found) == request.limit:
                break
        if len(rows) < min(wanted, READ_AT_ONCE) and len(found) < request.limit:
            return answer_of(request, found, None)
    return answer_of(request, found, before)


def begin_of(request: ListOccurrences) -> datetime:
    """The instant before which the page begins; `to` is included."""
    if request.cursor is not None:
        return read_instant(request.cursor, "cursor")
    if request.until is not None:
        return shifted(read_instant(request.until, "to"), TICK)
    return LAST.astimezone(UTC)


async def running_on(
    context: OperationContext, id: ScheduleId, request: ListOccurrences
) -> list[OccurrenceAnswer]:
    """The run of skips that goes on beyond the end of the span, on the first page."""
    if request.cursor is not None or request.until is None:
        return []
    until = read_instant(request.until, "to")
    rows = await context.store.dispositions(id, until, until)
    return [occurrence_answer(row, {}) for row in rows if row.last > until]


async def jobs_of(context: OperationContext, rows: Sequence[Disposition]) -> Mapping[JobId, Job]:
    ids = [row.job_id for row in rows if row.job_id is not None]
    return await context.store.jobs_by_id(ids) if ids else {}


def fits(request: ListOccurrences, one: OccurrenceAnswer) -> bool:
    return request.disposition is None or request.disposition is one.disposition


def occurrence_answer(row: Disposition, jobs: Mapping[JobId, Job]) -> OccurrenceAnswer:
    job = None if row.job_id is None else jobs.get(row.job_id)
    outcome, reason = outcome_without_job(row.reason) if job is None else outcome_of_job(job)
    return OccurrenceAnswer(
        at=row.first,
        until=UNSET if row.last == row.first else row.last,
        disposition=outcome,
        reason=value_or_unset(reason),
        job_id=value_or_unset(row.job_id),
        due_at=UNSET if job is None else job.due_at,
        started_at=UNSET if job is None else value_or_unset(job.started_at),
        finished_at=UNSET if job is None else value_or_unset(job.finished_at),
    )


def answer_of(
    request: ListOccurrences, found: Sequence[OccurrenceAnswer], cursor: datetime | None
) -> OccurrencesAnswer:
    return OccurrencesAnswer(occurrences=tuple(found), limit=request.limit, cursor=cursor)
