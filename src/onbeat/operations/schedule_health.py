"""How the last occurrences of schedules went, and which schedules are in trouble."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from onbeat.model.ids import ScheduleId
from onbeat.model.job import JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.model.page import ScheduleFilter
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.timeline import JobRun, SkippedSpan
from onbeat.operations.context import OperationContext
from onbeat.operations.schedules import schedule_answers
from onbeat.rules.calendar import shifted
from onbeat.rules.outcomes import skip_of
from onbeat.wire.schedules import ScheduleAnswer

RECENT: Final = timedelta(days=90)
"""How far back occurrences are looked for."""
MISFIRED_WITHIN: Final = timedelta(hours=24)
RUNS_JUDGED: Final = 5
"""The newest runs of which the last one that ended decides whether a schedule fails."""
SKIPS_JUDGED: Final = 100
OUTCOMES: Final = {
    JobState.SUCCEEDED: OccurrenceOutcome.RAN,
    JobState.FAILED: OccurrenceOutcome.FAILED,
    JobState.CANCELLED: OccurrenceOutcome.CANCELLED,
    JobState.RUNNING: OccurrenceOutcome.RUNNING,
    JobState.WAITING: OccurrenceOutcome.PLANNED,
}


class ScheduleTrouble(StrEnum):
    """The last run failed, or an occurrence misfired within the last day."""

    FAILING = "failing"
    MISFIRED = "misfired"


class TroubledSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """A page of them; `more` where there are schedules that were not looked at."""

    schedules: tuple[ScheduleAnswer, ...]
    total: int
    more: bool


async def troubled_schedules(
    context: OperationContext,
    trouble: ScheduleTrouble,
    *,
    status: ScheduleStatus | None,
    q: str | None,
    limit: int,
    page: int,
) -> TroubledSchedules:
    """Among the newest schedules that match, newest first."""
    found = await context.store.schedules(ScheduleFilter(status=status, q=q, limit=PAGE_LIMIT_MAX))
    ids = [one.id for one in found.items]
    judge = failing if trouble is ScheduleTrouble.FAILING else misfired
    troubled = await judge(context, ids)
    chosen: Sequence[Schedule] = [one for one in found.items if one.id in troubled]
    start = (page - 1) * limit
    return TroubledSchedules(
        schedules=tuple(await schedule_answers(context, chosen[start : start + limit])),
        total=len(chosen),
        more=(found.total or 0) > len(ids),
    )


async def failing(context: OperationContext, ids: Sequence[ScheduleId]) -> set[ScheduleId]:
    """Those whose last ended run failed."""
    now = context.clock.now()
    runs = await context.store.runs_between(ids, shifted(now, -RECENT), now, RUNS_JUDGED)
    last: dict[ScheduleId, JobState] = {}
    for run in runs:
        if run.finished_at is not None:
            last.setdefault(run.schedule_id, run.state)
    return {id for id, state in last.items() if state is JobState.FAILED}


async def misfired(context: OperationContext, ids: Sequence[ScheduleId]) -> set[ScheduleId]:
    now = context.clock.now()
    first = shifted(now, -MISFIRED_WITHIN)
    skips = await context.store.skips_between(ids, first, now, SKIPS_JUDGED)
    return {
        skip.schedule_id for skip in skips if skip_of(skip.reason) is OccurrenceOutcome.MISFIRED
    }


async def last_outcomes(
    context: OperationContext, ids: Sequence[ScheduleId], count: int
) -> Mapping[ScheduleId, list[OccurrenceOutcome]]:
    """What became of at most `count` occurrences of each schedule, the newest last."""
    now = context.clock.now()
    first = shifted(now, -RECENT)
    runs = await context.store.runs_between(ids, first, now, count)
    skips = await context.store.skips_between(ids, first, now, count)
    found: dict[ScheduleId, list[tuple[datetime, OccurrenceOutcome]]] = {id: [] for id in ids}
    records: list[JobRun | SkippedSpan] = [*runs, *skips]
    for record in records:
        found[record.schedule_id].append(judged(record))
    return {id: [outcome for _, outcome in sorted(those)[-count:]] for id, those in found.items()}


def judged(record: JobRun | SkippedSpan) -> tuple[datetime, OccurrenceOutcome]:
    if isinstance(record, SkippedSpan):
        return record.last, skip_of(record.reason)
    return record.due_at, OUTCOMES[record.state]
