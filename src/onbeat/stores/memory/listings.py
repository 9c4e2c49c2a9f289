"""Listings: pages, queues and counts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from onbeat.model.event import Stats
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.queue import NO_LIMITS, Queue
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.stores.memory.tables import ByTime, Tables


def jobs_page(tables: Tables, filter: JobFilter) -> Page[Job]:
    ids = reversed(tables.ids) if filter.before is None else tables.ids.before(filter.before)
    result = tuple(islice(matching(tables, filter, ids), filter.limit + 1))
    items = result[: filter.limit]
    return Page(
        items,
        total=sum(1 for _ in matching(tables, filter, tables.jobs)),
        cursor=items[-1].id if items and len(result) > len(items) else None,
    )


def matching(tables: Tables, filter: JobFilter, ids: Iterable[JobId]) -> Iterator[Job]:
    return (job for id in ids if matches(filter, job := tables.jobs[id]))


def matches(filter: JobFilter, job: Job) -> bool:
    return (
        filter.state in (None, job.state)
        and filter.queue in (None, job.queue)
        and filter.task in (None, lane_of(job.target))
        and filter.schedule_id in (None, job.schedule_id)
    )


def schedules_page(tables: Tables, filter: ScheduleFilter) -> Page[Schedule]:
    result = [
        schedule
        for _, schedule in sorted(tables.schedules.items(), reverse=True)
        if filter.status in (None, schedule.status) and mentions(schedule, filter.q)
    ]
    return Page(tuple(result[filter.offset : filter.offset + filter.limit]), total=len(result))


def mentions(schedule: Schedule, q: str | None) -> bool:
    if q is None:
        return True
    return any(q.casefold() in text.casefold() for text in (schedule.name, schedule.key or ""))


def occurrences_page(tables: Tables, filter: OccurrenceFilter) -> Page[Job]:
    index = tables.ended_of if filter.ended else tables.live
    keys = index.get(filter.schedule_id, ByTime())
    end = filter.offset + filter.limit
    result = tuple(tables.jobs[id] for _, id in islice(reversed(keys), filter.offset, end))
    return Page(result, total=len(keys))


def queues(tables: Tables, now: datetime) -> Sequence[Queue]:
    by_name: dict[str, list[Job]] = {name: [] for name in (*tables.paused_queues, *tables.limits)}
    for job in tables.jobs.values():
        if not job.is_final:
            by_name.setdefault(job.queue, []).append(job)
    return tuple(queue_of(tables, name, jobs, now) for name, jobs in sorted(by_name.items()))


def queue_of(tables: Tables, name: str, jobs: Sequence[Job], now: datetime) -> Queue:
    due = [job.due_at for job in jobs if is_due(job, now)]
    return Queue(
        name=name,
        paused=name in tables.paused_queues,
        limits=tables.limits.get(name, NO_LIMITS),
        waiting=sum(job.state is JobState.WAITING for job in jobs),
        due=len(due),
        running=sum(job.state is JobState.RUNNING for job in jobs),
        oldest_due_at=min(due, default=None),
    )


def is_due(job: Job, now: datetime) -> bool:
    return job.state is JobState.WAITING and job.blocked_by == 0 and job.due_at <= now


def stats(tables: Tables, now: datetime) -> Stats:
    statuses = Counter(schedule.status for schedule in tables.schedules.values())
    waited = (now - job.due_at for job in tables.jobs.values() if is_due(job, now))
    return Stats(
        jobs={state.value: tables.counts[state] for state in JobState},
        schedules={status.value: statuses[status] for status in ScheduleStatus},
        workers=len(tables.workers),
        oldest_due_seconds=max(waited, default=timedelta()).total_seconds(),
        unknown_tasks=unknown_tasks(tables),
    )


def unknown_tasks(tables: Tables) -> dict[str, int]:
    """Counts of waiting jobs of tasks that no live worker knows."""
    known = {lane for worker in tables.workers.values() for lane in worker.lanes}
    lanes = Counter(
        lane_of(job.target) for job in tables.jobs.values() if job.state is JobState.WAITING
    )
    return {lane: count for lane, count in sorted(lanes.items()) if lane not in known}
