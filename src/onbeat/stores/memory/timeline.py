"""Runs of schedules within a span of time."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job, JobState
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.stores.memory.tables import ByTime, Tables


def runs_between(
    tables: Tables, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
) -> Sequence[JobRun]:
    result: list[JobRun] = []
    for id in sorted(ids):
        found = [run_of(id, job) for job in both(tables, id, first, last, limit)]
        found.sort(key=lambda run: (run.due_at, run.id), reverse=True)
        result += found[:limit]
    return result


def both(
    tables: Tables, id: ScheduleId, first: datetime, last: datetime, limit: int
) -> Iterator[Job]:
    """Jobs that are due in the span: the latest live ones and the latest ended ones."""
    for index in (tables.live, tables.ended_of):
        keys = index.get(id, ByTime())
        due = takewhile(lambda key: key[0] >= first, keys.before((last, JobId(""))))
        yield from (tables.jobs[job_id] for _, job_id in islice(due, limit))


def run_of(id: ScheduleId, job: Job) -> JobRun:
    return JobRun(
        id=job.id,
        schedule_id=id,
        state=job.state,
        due_at=job.due_at,
        occurrence=job.occurrence,
        started_at=job.started_at,
        finished_at=job.finished_at,
        attempt=job.attempt,
        reason=job.reason,
    )


def run_counts(
    tables: Tables,
    ids: Collection[ScheduleId],
    first: datetime,
    last: datetime,
    width: timedelta,
    limit: int,
) -> Sequence[RunCount]:
    due: dict[tuple[ScheduleId, datetime, JobState], list[datetime]] = {}
    for id in ids:
        for job in both(tables, id, first, last, limit):
            at = job.due_at - (job.due_at - first) % width
            due.setdefault((id, at, job.state), []).append(job.due_at)
    return [
        RunCount(schedule_id=id, at=at, state=state, count=len(all_of_it), first_at=min(all_of_it))
        for (id, at, state), all_of_it in due.items()
    ]


def skips_between(
    tables: Tables, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
) -> Sequence[SkippedSpan]:
    return [
        SkippedSpan(schedule_id=id, first=row.first, last=row.last, reason=row.reason)
        for id in sorted(ids)
        for row in tables.dispositions.between(id, first, last)[-limit:]
        if row.reason is not None
    ]


def forgotten_between(
    tables: Tables, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
) -> Sequence[ForgottenRun]:
    return [
        ForgottenRun(schedule_id=id, at=row.first)
        for id in sorted(ids)
        for row in tables.dispositions.between(id, first, last)[-limit:]
        if row.job_id is not None and row.job_id not in tables.jobs
    ]
