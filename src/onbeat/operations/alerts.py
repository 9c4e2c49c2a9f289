"""The operations of alerts, and what is wrong now."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET

from onbeat.model.alert import AlertSilence
from onbeat.model.errors import Conflict, Invalid, NotFound, Unavailable
from onbeat.model.job import Job, JobState
from onbeat.model.limits import SPAN_MAX
from onbeat.model.page import JobFilter
from onbeat.model.queue import Queue
from onbeat.model.target import HttpTarget, lane_of
from onbeat.operations.audit import without_secrets
from onbeat.operations.context import OperationContext
from onbeat.operations.depths import queues_now
from onbeat.operations.failures import list_failures
from onbeat.operations.pulses import show_pulses
from onbeat.rules.alerts import is_silenced
from onbeat.rules.verdict import (
    FAILING_WITHIN,
    LATE_AFTER,
    NO_TASKS,
    Concern,
    FailedJob,
    FaultLoad,
    QueueLoad,
    concerns,
    served_by,
    short_of_disk,
)
from onbeat.wire.alerts import (
    AlertsAnswer,
    AlertSilenceBody,
    CreateSilence,
    ListAlerts,
    SilenceAnswer,
    SilenceById,
    alert_answer,
    silence_answer,
)
from onbeat.wire.failures import FailureInfo, ListFailures
from onbeat.wire.pulses import AskPulses, PointAnswer, SampleAnswer
from onbeat.wire.queues import QueueAnswer
from onbeat.wire.requests import Message
from onbeat.wire.values import read_instant, read_span
from onbeat.wire.workers import seems_alive

FAILURES_LOOKED_AT: Final = 50
HOURS_LOOKED_AT: Final = 2  # the current hour has only begun
MINUTE: Final = 60
SILENCES_MAX: Final = 100
SPAN_MIN: Final = timedelta(seconds=1)
ABSENT: Final = "Silence not found"


async def list_alerts(context: OperationContext, request: ListAlerts) -> AlertsAnswer:
    """The newest first, and the silences that have not ended."""
    is_open, now = request.state == "open", context.clock.now()
    alerts = await context.store.alerts(is_open=is_open, limit=request.limit)
    silences = await context.store.silences(now)
    return AlertsAnswer(
        alerts=tuple(
            alert_answer(one, silenced=is_open and is_silenced(one.key, silences, now))
            for one in alerts
        ),
        silences=tuple(map(silence_answer, silences)),
    )


async def silence(context: OperationContext, request: CreateSilence) -> SilenceAnswer:
    """Tell no alerts of this kind for a while. Raises `Conflict` where there are too many."""
    body, now = request.silence, context.clock.now()
    starts_at = start_of(body, now)
    until = until_of(body, starts_at or now)
    if len(await context.store.silences(now)) >= SILENCES_MAX:
        raise Conflict(f"{SILENCES_MAX} silences hold already; end one first")
    made = AlertSilence(
        id=context.fresh_id(),
        match=body.match,
        starts_at=starts_at,
        until=until,
        note=body.note,
        made_by=context.principal.name,
        made_at=now,
    )
    await context.store.add_silence(made)
    return silence_answer(made)


def start_of(body: AlertSilenceBody, now: datetime) -> datetime | None:
    """None where it holds at once; an instant of the past is now."""
    if body.starts_at is UNSET:
        return None
    starts_at = read_instant(body.starts_at, "from")
    if starts_at > now + SPAN_MAX:
        raise Invalid(f"from is not within the next {SPAN_MAX.days} days", "from")
    return starts_at if starts_at > now else None


def until_of(body: AlertSilenceBody, now: datetime) -> datetime:
    """When it ends, if it begins `now`."""
    if (body.span is UNSET) == (body.until is UNSET):
        raise Invalid('give "for", a span such as 2h, or "until", an instant', "for")
    if body.span is not UNSET:
        return now + read_span(body.span, "for", least=SPAN_MIN, most=SPAN_MAX)
    assert body.until is not UNSET, "one of both is given"
    until = read_instant(body.until, "until")
    if not now < until <= now + SPAN_MAX:
        since = "" if body.starts_at is UNSET else " after from"
        raise Invalid(f"until is not within the next {SPAN_MAX.days} days{since}", "until")
    return until


async def end_silence(context: OperationContext, request: SilenceById) -> Message:
    """Alerts that it kept quiet and that still hold are told within seconds."""
    if not await context.store.end_silence(request.id):
        raise NotFound(ABSENT)
    return Message("Silence ended.")


async def concerns_now(
    context: OperationContext, loads: Sequence[QueueLoad] | None = None
) -> Sequence[Concern]:
    """What is wrong now, the worst first: a few reads, whatever the store holds.

    `loads` are those of all queues, where they have just been read.
    """
    now = context.clock.now()
    if loads is None:
        loads = [load_of(queue) for queue in await queues_now(context)]
    workers = [one for one in await context.store.workers() if seems_alive(one, now)]
    filter = JobFilter(state=JobState.FAILED, limit=FAILURES_LOOKED_AT)
    failed = (await context.store.jobs(filter)).items
    lately = ListFailures(since=now - FAILING_WITHIN, limit=FAILURES_LOOKED_AT)
    faults = (await list_failures(context, lately)).failures
    history = await show_pulses(context, AskPulses())
    found = concerns(
        loads,
        len(workers),
        [failed_job(job) for job in failed],
        now,
        served_by(worker.queues for worker in workers),
        failed_by_minute(history.points),
        [fault_load(one, now) for one in faults],
        unknown_tasks_of(history.sample),
    )
    try:
        await context.check_capacity()
    except Unavailable as error:
        return [short_of_disk(str(error)), *found]
    return found


def load_of(queue: Queue) -> QueueLoad:
    return QueueLoad(
        name=queue.name,
        paused=queue.paused,
        due=queue.due,
        running=queue.running,
        oldest_due_at=queue.oldest_due_at,
        running_max=queue.limits.concurrency,
        late_after=queue.limits.late_after or LATE_AFTER,
    )


def load_of_answer(queue: QueueAnswer, started: int | None = None) -> QueueLoad:
    """The same of what the API tells; `started` is how many started in the last minute."""
    limits = queue.limits
    late_after = limits.late_after
    return QueueLoad(
        name=queue.name,
        paused=queue.paused,
        due=queue.due,
        running=queue.running,
        oldest_due_at=queue.oldest_due_at,
        running_max=None if limits.concurrency is UNSET else limits.concurrency,
        late_after=LATE_AFTER if late_after is UNSET else read_span(late_after, "late_after"),
        started=started or 0,
    )


def unknown_tasks_of(sample: SampleAnswer | None) -> Mapping[str, int]:
    return NO_TASKS if sample is None else sample.unknown_tasks


def failed_job(job: Job) -> FailedJob:
    lines = (job.error or job.reason or "").strip().splitlines()
    return FailedJob(
        id=job.id,
        name=name_of(job),
        at=job.finished_at or job.created_at,
        error=lines[-1] if lines else "",
        fault=None if job.fault is None else str(job.fault),
    )


def fault_load(one: FailureInfo, now: datetime) -> FaultLoad:
    return FaultLoad(
        fault=one.fault,
        title=one.title,
        name=one.task,
        first_at=one.first_at,
        last_at=one.last_at,
        attempts=sum(one.hours[-HOURS_LOOKED_AT:]),
        failed=one.failed,
        waiting=one.waiting,
        is_silenced=one.silenced_until is not None and one.silenced_until > now,
    )


def failed_by_minute(points: Sequence[PointAnswer]) -> list[int | None]:
    """Failed attempts of each whole minute of an hour's points, back from the end."""
    size = round(MINUTE / points[0].seconds)
    ends = range(len(points), size - 1, -size)
    return [failed_in(points[end - size : end]) for end in ends][::-1]


def failed_in(points: Sequence[PointAnswer]) -> int | None:
    """None where nothing was measured."""
    counts = [point.failed for point in points if point.failed is not None]
    return sum(counts) if counts else None


def name_of(job: Job) -> str:
    """The task, or the address of a callback without what may be secret in it."""
    target = job.target
    if isinstance(target, HttpTarget):
        return f"{target.method} {without_secrets(target.url)}"
    return lane_of(target)
