"""What became of a schedule's occurrences, as events."""

from collections.abc import Sequence

from onbeat.model.attempt import Attempt
from onbeat.model.job import Job
from onbeat.model.page import OccurrenceFilter
from onbeat.operations.operator import Operator
from onbeat.wire.events import EventsAnswer, event_of, known_attempts
from onbeat.wire.requests import ListEvents
from onbeat.wire.values import schedule_id


async def pending(operator: Operator, request: ListEvents) -> EventsAnswer:
    """Occurrences that have not ended, latest first."""
    return await listed(operator, request, ended=False)


async def history(operator: Operator, request: ListEvents) -> EventsAnswer:
    """Occurrences that have ended, latest first; also those of a schedule that is gone."""
    return await listed(operator, request, ended=True)


async def listed(operator: Operator, request: ListEvents, *, ended: bool) -> EventsAnswer:
    page = await operator.store.occurrence_jobs(
        OccurrenceFilter(
            schedule_id=schedule_id(request.id),
            ended=ended,
            limit=request.limit,
            offset=(request.page - 1) * request.limit,
        )
    )
    events = [event_of(job, await attempts_of(operator, job)) for job in page.items]
    return EventsAnswer(events=tuple(events), page=request.page, limit=request.limit)


async def attempts_of(operator: Operator, job: Job) -> Sequence[Attempt]:
    """Most jobs tell all of it themselves, and cost no second look into the store."""
    known = known_attempts(job)
    return await operator.store.attempts(job.id) if known is None else known
