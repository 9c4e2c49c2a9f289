"""Listings: pages, queues and counts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.page import Counted, JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.pulse import Depth, Gauges
from onbeat.model.queue import NO_LIMITS, Queue
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.model.transition import Stats
from onbeat.rules.job_filters import matches
from onbeat.stores.memory.tables import Tables


def jobs_page(tables: Tables, filter: JobFilter) -> Page[Job]:
    ids = reversed(tables.ids) if filter.before is None else tables.ids.before(filter.before)
    looked = Looked(filter)
    found = tuple(islice(looked.matching(tables, ids), filter.limit + 1))
    items = found[: filter.limit]
    total = sum(matches(filter, job) for job in tables.jobs.values())
    if len(found) > len(items):
        return Page(items, total=total, cursor=items[-1].id if items else None)
    if looked.last is None:
        return Page(items, total=total)
    made_at = tables.jobs[looked.last].created_at
    return Page(items, total, looked.last, searched=filter.look, searched_to=made_at)


class Looked:
    """A search. `last` is the last job that it looked at, if there may be more after it."""

    def __init__(self, filter: JobFilter) -> None:
        self.filter = filter
        self.last: JobId | None = None

    def matching(self, tables: Tables, ids: Iterable[JobId]) -> Iterator[Job]:
        rest = iter(ids)
        last: JobId | None = None
        for last in islice(rest, self.filter.look if self.filter.is_search else None):
            if matches(self.filter, job := tables.jobs[last]):
                yield job
        if next(rest, None) is not None:
            self.last = last


def count_jobs(tables: Tables, filter: JobFilter, most: int, look: int | None = None) -> Counted:
    """How many match, up to `most`, of the newest `look` of the state."""
    older = reversed(tables.ids) if filter.before is None else tables.ids.before(filter.before)
    ids = (id for id in older if filter.state in {None, tables.jobs[id].state})
    seen = islice(ids, look)
    found = sum(1 for _ in islice(matching(tables, filter, seen), most + 1))
    is_far = look is not None and next(iter(ids), None) is not None
    return Counted(min(found, most), more=found > most or is_far)


def matching(tables: Tables, filter: JobFilter, ids: Iterable[JobId]) -> Iterator[Job]:
    return (job for id in ids if matches(filter, job := tables.jobs[id]))


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
    return Page(tuple(tables.jobs[id] for id in tables.run_times.page(filter)))


def queues(tables: Tables, now: datetime, sampled: Gauges | None) -> Sequence[Queue]:
    if sampled is not None:
        return sampled_queues(tables, sampled)
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
        pause=tables.paused_queues.get(name),
        limits=tables.limits.get(name, NO_LIMITS),
        waiting=sum(job.state is JobState.WAITING for job in jobs),
        due=len(due),
        running=sum(job.state is JobState.RUNNING for job in jobs),
        oldest_due_at=min(due, default=None),
    )


def sampled_queues(tables: Tables, sampled: Gauges) -> Sequence[Queue]:
    running = running_by_queue(tables)
    names = {*tables.paused_queues, *tables.limits, *sampled.queues, *running}
    depths = {name: sampled.queues.get(name, Depth()) for name in sorted(names)}
    return tuple(
        Queue(
            name=name,
            paused=name in tables.paused_queues,
            limits=tables.limits.get(name, NO_LIMITS),
            waiting=depth.waiting,
            due=depth.due,
            running=running[name],
            oldest_due_at=depth.oldest_due_at,
        )
        for name, depth in depths.items()
    )


def running_by_queue(tables: Tables) -> Counter[str]:
    return Counter(job.queue for job in tables.jobs.values() if job.state is JobState.RUNNING)


def is_due(job: Job, now: datetime) -> bool:
    return job.state is JobState.WAITING and job.blocked_by == 0 and job.due_at <= now


def stats(
    tables: Tables, now: datetime, ended: Mapping[str, int] | None, sampled: Gauges | None
) -> Stats:
    statuses = Counter(schedule.status for schedule in tables.schedules.values())
    dues = [job.due_at for job in tables.jobs.values() if is_due(job, now)]
    oldest, waiting, unknown = min(dues, default=None), {}, unknown_tasks(tables)
    if sampled is not None:
        oldest, unknown = sampled.total.oldest_due_at, dict(sampled.unknown_tasks)
        waiting = {JobState.WAITING.value: sampled.total.waiting}
    jobs = {state.value: tables.counts[state] for state in JobState}
    return Stats(
        jobs=jobs | dict(ended or {}) | waiting,
        schedules={status.value: statuses[status] for status in ScheduleStatus},
        workers=len(tables.workers),
        oldest_due_seconds=0.0 if oldest is None else (now - oldest).total_seconds(),
        unknown_tasks=unknown,
    )


def unknown_tasks(tables: Tables) -> dict[str, int]:
    """Counts of waiting jobs of tasks that no live worker knows."""
    known = {lane for worker in tables.workers.values() for lane in worker.lanes}
    lanes = Counter(
        lane_of(job.target) for job in tables.jobs.values() if job.state is JobState.WAITING
    )
    return {lane: count for lane, count in sorted(lanes.items()) if lane not in known}
