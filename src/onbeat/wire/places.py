"""Queues, workers and figures, as they are shown."""

from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.event import Stats
from onbeat.model.queue import Queue
from onbeat.model.worker import Worker

SILENT_LEASES = 2
"""A worker that has not been heard of for so many leases is shown as gone."""


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool
    waiting: int
    due: int
    running: int
    oldest_due_at: datetime | None


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool


class QueuesAnswer(msgspec.Struct, frozen=True):
    queues: tuple[QueueAnswer, ...]


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A worker; `queues` is left out when it serves all, `tasks` is what it can run."""

    id: str
    host: str
    pid: int
    alive: bool
    started_at: datetime
    beat_at: datetime | None
    concurrency: int
    running: int
    tasks: tuple[str, ...]
    queues: tuple[str, ...] | UnsetType = UNSET


class WorkersAnswer(msgspec.Struct, frozen=True):
    workers: tuple[WorkerAnswer, ...]


class StatsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by state. `unknown_tasks` counts waiting jobs whose task no live worker knows."""

    jobs: dict[str, int]
    schedules: dict[str, int]
    workers: int
    oldest_due_seconds: float
    unknown_tasks: dict[str, int]


def queue_answer(queue: Queue) -> QueueAnswer:
    return QueueAnswer(
        name=queue.name,
        paused=queue.paused,
        waiting=queue.waiting,
        due=queue.due,
        running=queue.running,
        oldest_due_at=queue.oldest_due_at,
    )


def worker_answer(worker: Worker, now: datetime) -> WorkerAnswer:
    return WorkerAnswer(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        alive=seems_alive(worker, now),
        started_at=worker.started_at,
        beat_at=worker.beat_at,
        concurrency=worker.concurrency,
        running=worker.running,
        tasks=worker.lanes,
        queues=UNSET if worker.queues is None else worker.queues,
    )


def seems_alive(worker: Worker, now: datetime) -> bool:
    """By the clocks on the wall, so for show only: what is rescued is judged without them."""
    heard_at = worker.beat_at or worker.started_at
    return now - heard_at <= timedelta(seconds=worker.lease_seconds * SILENT_LEASES)


def stats_answer(stats: Stats) -> StatsAnswer:
    return StatsAnswer(
        jobs=stats.jobs,
        schedules=stats.schedules,
        workers=stats.workers,
        oldest_due_seconds=stats.oldest_due_seconds,
        unknown_tasks=stats.unknown_tasks,
    )
