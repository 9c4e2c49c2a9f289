"""What jobs that gather events have gathered."""

import uuid
from datetime import datetime

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.operations.context import OperationContext
from onbeat.rules.event_patterns import NoValue
from onbeat.rules.gathers import is_throttle, joined_until
from onbeat.rules.why import Gathered


async def gathering_of(context: OperationContext, job: Job, now: datetime) -> Gathered | None:
    """None for a job that takes no further events."""
    if job.cause is None or not job.cause.carried or job.schedule_id is None or job.attempt > 0:
        return None
    schedule = await context.store.schedule(job.schedule_id)
    if schedule is None or schedule.gather is None or is_throttle(schedule.gather):
        return None
    # Keys are listed by job, so the first one after the id before is that of the job.
    found = await context.store.export_event_keys(before(job.id), 1)
    if not found or found[0].job_id != job.id or found[0].gathered >= schedule.gather.most:
        return None
    try:
        until = joined_until(schedule, found[0].opened_at, job.due_at, context.compile)
    except NoValue:
        # The rule was edited, and has no instant since the first event: none can join.
        return None
    return None if now >= until else Gathered(found[0].key.by, found[0].gathered, until)


def before(id: JobId) -> JobId:
    return JobId(str(uuid.UUID(int=uuid.UUID(id).int - 1)))
