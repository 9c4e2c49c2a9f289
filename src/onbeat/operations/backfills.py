"""Jobs for past occurrences of a schedule."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET

from onbeat.model.errors import Invalid
from onbeat.model.job import Job
from onbeat.model.limits import PREVIEW_MAX
from onbeat.model.schedule import Schedule
from onbeat.operations import schedules
from onbeat.operations.context import OperationContext
from onbeat.rules import plans
from onbeat.rules.outcomes import Span, count_backfill
from onbeat.wire.requests import Backfill, Backfilled
from onbeat.wire.values import read_instant


async def backfill(context: OperationContext, request: Backfill) -> Backfilled:
    """Create jobs for past occurrences without one; repeating it adds nothing."""
    if not request.span.dry_run:
        await context.check_capacity()
    first = read_instant(request.span.first, "from")
    last = read_instant(request.span.last, "to")
    if last < first:
        raise Invalid("to must not be before from", "to")
    schedule, limit = await schedules.get_schedule(context, request.id), request.span.limit
    now = context.clock.now()

    def jobs_of(operator: OperationContext) -> tuple[Job, ...]:
        ids, read = operator.randomness.ids, operator.compile
        return plans.backfill_jobs(schedule, first, last, limit, now, ids, read)

    jobs = await schedules.compute_rule(context, "from", jobs_of)
    if request.span.dry_run:
        is_full = len(jobs) == limit
        return await count_jobs(context, schedule, jobs, last, is_full=is_full)
    through = UNSET if len(jobs) < limit else jobs[-1].occurrence or last

    def answer(added: int) -> Backfilled:
        return Backfilled(added, through)

    keyed = context.keyed_request(answer, [job.id for job in jobs])
    return answer(await context.store.backfill(schedule.id, jobs, (), keyed))


async def count_jobs(
    context: OperationContext,
    schedule: Schedule,
    jobs: Sequence[Job],
    last: datetime,
    *,
    is_full: bool,
) -> Backfilled:
    """What a backfill of these jobs would add."""
    occurrences = [job.occurrence for job in jobs if job.occurrence is not None]
    if not occurrences:
        return Backfilled(0, exist=0, skipped=0, more=False)
    known = await known_spans(context, schedule, occurrences)
    exist, skipped = count_backfill(occurrences, known)
    more = False
    if is_full:
        end = min(last, context.clock.now())
        following = await schedules.compute_rule(
            context,
            "from",
            lambda it: plans.bounded_recurrence(schedule, it.compile).after(occurrences[-1]),
        )
        more = following is not None and following <= end
    return Backfilled(
        len(occurrences) - exist,
        exist=exist,
        skipped=skipped,
        first=occurrences[0],
        last=occurrences[-1],
        more=more,
    )


async def known_spans(
    context: OperationContext, schedule: Schedule, occurrences: Sequence[datetime]
) -> list[Span]:
    """The dispositions of these occurrences, read in parts of a bounded length."""
    found: list[Span] = []
    for begin in range(0, len(occurrences), PREVIEW_MAX):
        part = occurrences[begin : begin + PREVIEW_MAX]
        rows = await context.store.dispositions(schedule.id, part[0], part[-1])
        found += [Span(row.first, row.last, row.job_id is not None) for row in rows]
    return sorted(set(found))
