"""Wire records of workers."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.model.worker import REMOTE, WorkerRecord
from onbeat.wire.answer import AnswerRecord

SILENT_LEASES = 2
"""A worker without a heartbeat for so many leases is shown as gone."""


class RunningAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A running job; `task` is `@http` for a callback."""

    id: str
    task: str
    attempt: int
    started_at: datetime | None


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A worker; `queues` is omitted when it serves all, `tasks` are those it can run.

    `running` counts its running jobs, `jobs` lists the oldest of them. `release` is the version of
    its program, and `memory` what it held at its last beat, in bytes; both are omitted where they
    are not known.
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
    release: str | UnsetType = UNSET
    memory: int | UnsetType = UNSET


class RemoteWorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A remote worker, by the name that it chose, and its running jobs."""

    name: str
    running: int
    jobs: tuple[RunningAnswer, ...]


class WorkersAnswer(AnswerRecord, frozen=True):
    """Workers of the store, and remote workers with running jobs."""

    workers: tuple[WorkerAnswer, ...]
    remote: tuple[RemoteWorkerAnswer, ...]


def worker_answer(worker: WorkerRecord, jobs: Sequence[Job], now: datetime) -> WorkerAnswer:
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
        release=UNSET if worker.release is None else worker.release,
        memory=UNSET if worker.memory is None else worker.memory,
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


def seems_alive(worker: WorkerRecord, now: datetime) -> bool:
    """Uses wall clocks, so only for display: rescues do not depend on them."""
    heard_at = worker.beat_at or worker.started_at
    return now - heard_at <= timedelta(seconds=worker.lease_seconds * SILENT_LEASES)
