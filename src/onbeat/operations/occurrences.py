"""The occurrences of a schedule and their results, as events."""

from collections.abc import Sequence

from onbeat.model.attempt import Attempt
from onbeat.model.job import Job
from onbeat.model.page import OccurrenceFilter
from onbeat.operations.context import OperationContext
from onbeat.wire.occurrences import EventsAnswer, event_of, known_attempts
from onbeat.wire.requests import ListEvents
from onbeat.wire.values import schedule_id


async def pending(context: OperationContext, request: ListEvents) -> EventsAnswer:
    """Occurrences that have not ended, latest first."""
    return await list_events(context, request, ended=False)


async def history(context: OperationContext, request: ListEvents) -> EventsAnswer:
    """Occurrences that have ended, latest first, including those of a deleted schedule."""
    return await list_events(context, request, ended=True)


async def list_events(
    context: OperationContext, request: ListEvents, *, ended: bool
) -> EventsAnswer:
    page = await context.store.occurrence_jobs(
        OccurrenceFilter(
            schedule_id=schedule_id(request.id),
            ended=ended,
            limit=request.limit,
            offset=(request.page - 1) * request.limit,
        )
    )
    events = [event_of(job, await attempts_of(context, job)) for job in page.items]
    return EventsAnswer(events=tuple(events), page=request.page, limit=request.limit)


async def attempts_of(context: OperationContext, job: Job) -> Sequence[Attempt]:
    """The attempts of a job; most jobs imply them, which saves a query."""
    known = known_attempts(job)
    return await context.store.attempts(job.id) if known is None else known
