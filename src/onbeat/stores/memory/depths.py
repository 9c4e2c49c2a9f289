"""Samples of depths."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.job import Job, JobState
from onbeat.model.limits import COUNTED_MAX
from onbeat.model.pulse import Depth, EndedCounts, Gauges
from onbeat.model.queue import GroupDepths
from onbeat.rules import group_depths as group_rules
from onbeat.rules.pulses import deepest
from onbeat.stores.memory.listings import is_due, unknown_tasks
from onbeat.stores.memory.tables import Tables


def count_depths(tables: Tables, now: datetime, queues_max: int) -> Gauges:
    live: dict[str, list[Job]] = {}
    for job in tables.jobs.values():
        if not job.is_final:
            live.setdefault(job.queue, []).append(job)
    sample = Gauges(
        at=now,
        total=depth_of([job for jobs in live.values() for job in jobs], now),
        queues={name: depth_of(jobs, now) for name, jobs in live.items()},
        unknown_tasks=unknown_tasks(tables),
        dead_letters=min(COUNTED_MAX, len(tables.dead_letters)),
        workers=len(tables.workers),
        slots=sum(worker.concurrency for worker in tables.workers.values()),
    )
    return deepest(sample, queues_max)


def depth_of(jobs: Sequence[Job], now: datetime) -> Depth:
    due = [job.due_at for job in jobs if is_due(job, now)]
    waiting = [job for job in jobs if job.state is JobState.WAITING]
    return Depth(
        waiting=len(waiting),
        due=len(due),
        running=len(jobs) - len(waiting),
        blocked=sum(job.blocked_by > 0 for job in waiting),
        oldest_due_at=min(due, default=None),
    )


def group_depths(tables: Tables, name: str, look: int) -> GroupDepths:
    """Waiting jobs that are not blocked, also those that are due later."""
    live = [job for job in tables.jobs.values() if job.queue == name and not job.is_final]
    ready = [job for job in live if job.state is JobState.WAITING and not job.blocked_by]
    ready.sort(key=lambda job: (job.priority, job.due_at, job.id))
    running = [job.group for job in live if job.state is JobState.RUNNING]
    turns: dict[str, int] = {}
    for key, turn in reversed(tables.turns.get(name, {}).items()):
        turns.setdefault(key.group, turn)
    more = len(ready) > look or len(running) > look
    groups = [job.group for job in ready[:look]]
    return group_rules.group_depths(groups, running[:look], turns, more=more)


def count_ended(tables: Tables, now: datetime) -> EndedCounts:
    states = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
    jobs = {state.value: tables.counts[state] for state in states}
    return EndedCounts(at=now, took=0.0, jobs=jobs)
