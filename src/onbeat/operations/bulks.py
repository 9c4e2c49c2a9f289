"""The operations of bulks: one action on all jobs that match."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.bulk import Bulk, BulkAction, BulkId
from onbeat.model.errors import Invalid, NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.limits import BULK_COUNTED_MAX, BULK_SAMPLE
from onbeat.model.page import Counted, JobFilter
from onbeat.operations.context import OperationContext
from onbeat.operations.job_filters import filter_from
from onbeat.rules.bulks import above, filter_of, new_bulk
from onbeat.rules.calendar import shifted
from onbeat.wire.bulks import (
    BulkBody,
    BulkById,
    BulkCount,
    BulkInfo,
    BulksAnswer,
    ListBulks,
    MakeBulk,
    bulk_answer,
)
from onbeat.wire.jobs import RescheduleBody, job_answer, read_due
from onbeat.wire.values import job_id, read_id, value_or_unset

ABSENT = "Bulk not found"
SEARCHES_MAX: Final = 50
"""Bounded searches for the sample: more would take longer than counting may."""


async def make_bulk(context: OperationContext, request: MakeBulk) -> BulkCount:
    """Count the jobs that match and, unless it is a dry run, begin to act on them."""
    body, now = request.bulk, context.clock.now()
    run_at = due_time_of(body, now)
    where = filter_of(body.do, chosen_by(request), now)
    given = job_id(body.upto, "upto") if body.upto else None
    bound = replace(where, before=None if given is None else above(given))
    counted = await context.store.count_jobs(bound, BULK_COUNTED_MAX)
    sample = await sample_of(context, bound) if counted.count else ()
    upto = given or next((job.id for job in sample), None)
    answer = BulkCount(
        do=body.do,
        count=counted.count,
        more=counted.more,
        states={str(where.state): counted.count},
        sample=tuple(map(job_answer, sample)),
        run_at=value_or_unset(run_at),
        upto=upto,
        created=False,
    )
    if body.dry_run:
        return answer
    bulk = begun_bulk(context, request, where, upto, counted, run_at)
    made = replace(answer, created=True, id=bulk.id, state=bulk.state, starts_at=bulk.starts_at)
    await context.store.add_bulk(bulk, context.keyed_request(lambda _: made))
    return made


def begun_bulk(
    context: OperationContext,
    request: MakeBulk,
    where: JobFilter,
    upto: JobId | None,
    counted: Counted,
    run_at: datetime | None,
) -> Bulk:
    id = BulkId(context.fresh_id())
    newest = upto or JobId(id)
    by, now = context.principal.name, context.clock.now()
    return new_bulk(id, request.bulk.do, where, newest, counted, by, now, run_at)


def due_time_of(body: BulkBody, now: datetime) -> datetime | None:
    """When the jobs are to be due, one instant for all; None for what is no rescheduling."""
    if body.do is BulkAction.RESCHEDULE:
        run_at, delay = read_due(RescheduleBody(run_at=body.run_at, delay=body.delay))
        return shifted(now, delay or timedelta()) if run_at is None else run_at
    for field in ("run_at", "delay"):
        if getattr(body, field) not in (UNSET, None):
            raise Invalid(f"{field} is for a rescheduling; leave it out, or do reschedule", field)
    return None


def chosen_by(request: MakeBulk) -> JobFilter:
    where = request.bulk.where
    filter = filter_from(where, "where.")
    if where.ids is UNSET or where.ids is None:
        return filter
    return replace(filter, ids=tuple(job_id(id, "where.ids") for id in where.ids))


async def sample_of(context: OperationContext, where: JobFilter) -> Sequence[Job]:
    """The newest that match, as far back as was counted."""
    filter = replace(where, limit=BULK_SAMPLE)
    for _ in range(SEARCHES_MAX):
        page = await context.store.jobs(filter)
        if page.items or page.cursor is None:
            return page.items
        filter = replace(filter, before=JobId(page.cursor))
    return ()


async def show(context: OperationContext, request: BulkById) -> BulkInfo:
    bulk = await context.store.bulk(bulk_id(request.id))
    return bulk_answer(found(bulk))


async def list_bulks(context: OperationContext, request: ListBulks) -> BulksAnswer:
    """Newest first."""
    before = bulk_id(request.cursor, "cursor") if request.cursor else None
    bulks = await context.store.bulks(before, request.limit)
    return BulksAnswer(
        bulks=tuple(map(bulk_answer, bulks)),
        limit=request.limit,
        cursor=bulks[-1].id if len(bulks) == request.limit else None,
    )


async def stop(context: OperationContext, request: BulkById) -> BulkInfo:
    """What it has done already stays."""
    bulk = await context.store.stop_bulk(bulk_id(request.id), context.clock.now())
    return bulk_answer(found(bulk))


def found(bulk: Bulk | None) -> Bulk:
    if bulk is None:
        raise NotFound(ABSENT)
    return bulk


def bulk_id(text: str, field: str = "") -> BulkId:
    return BulkId(read_id(text, "bulk", field))
