"""Queues, workers and figures, as they are shown."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.event import Stats
from onbeat.model.job import Job
from onbeat.model.queue import Queue
from onbeat.model.target import lane_of
from onbeat.model.worker import REMOTE, Worker
from onbeat.wire.limits import LimitsAnswer, limits_answer

SILENT_LEASES = 2
"""A worker that has not been heard of for so many leases is shown as gone."""


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool
    waiting: int
    due: int
    running: int
    oldest_due_at: datetime | None
    limits: LimitsAnswer


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool


class QueuesAnswer(msgspec.Struct, frozen=True):
    queues: tuple[QueueAnswer, ...]


class RunningAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs; `task` is `@http` for a callback."""

    id: str
    task: str
    attempt: int
    started_at: datetime | None


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A worker; `queues` is left out when it serves all, `tasks` is what it can run.

    `running` counts the jobs that it runs, `jobs` shows those begun first.
    """

    id: str
    host: str
    pid: int
    alive: bool
    started_at: datetime
    beat_at: datetime | None
    concurrency: int
    running: int
    tasks: tuple[str, ...]
    jobs: tuple[RunningAnswer, ...]
    queues: tuple[str, ...] | UnsetType = UNSET


class RemoteWorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A worker in another language, by the name that it gave itself, and what it runs."""

    name: str
    running: int
    jobs: tuple[RunningAnswer, ...]


class WorkersAnswer(msgspec.Struct, frozen=True):
    """Workers of the store, and those elsewhere that run something now."""

    workers: tuple[WorkerAnswer, ...]
    remote: tuple[RemoteWorkerAnswer, ...]


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
        limits=limits_answer(queue.limits),
    )


def worker_answer(worker: Worker, jobs: Sequence[Job], now: datetime) -> WorkerAnswer:
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
        jobs=tuple(map(running_answer, jobs)),
        queues=UNSET if worker.queues is None else worker.queues,
    )


def remote_answer(worker: str, jobs: Sequence[Job], shown: int) -> RemoteWorkerAnswer:
    return RemoteWorkerAnswer(
        name=worker.removeprefix(REMOTE),
        running=len(jobs),
        jobs=tuple(map(running_answer, jobs[:shown])),
    )


def running_answer(job: Job) -> RunningAnswer:
    return RunningAnswer(
        id=job.id, task=lane_of(job.target), attempt=job.attempt, started_at=job.started_at
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
