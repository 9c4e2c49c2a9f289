"""A job: one piece of work for a target, due once.

Records that exist in large numbers are not tracked by the garbage collector: they cannot form a
cycle, and traversing them would cost more than most jobs do.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from onbeat.model.ids import JobId, ScheduleId, Token, WorkerId
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Overlap, ScheduleSpec
from onbeat.model.target import Target


class JobState(StrEnum):
    """The five states; due, later and blocked are predicates over `waiting`."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class Progress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Progress as reported by a running job."""

    done: float
    total: float | None = None


class Suspicion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Evidence against a job whose worker died while the job ran.

    `alone` counts the deaths that no other job of that worker can explain. `company_max` is how
    many jobs its worker may hold at once while it runs, itself included; None without a bound.
    """

    alone: int = 0
    company_max: int | None = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The definition of a job: never changes after enqueue, except by an edit of its schedule.

    This is the list of what a job is made of; stored text, request bodies and options follow it.
    `after` names jobs that must have succeeded first. `start_by` is the latest instant at which a
    first attempt may start on time: the misfire bound of an occurrence or the job's expiry; a job
    that waits again after an attempt has none. `group` names the jobs of its queue with which it
    shares the group limits.
    """

    id: JobId
    target: Target
    created_at: datetime
    due_at: datetime
    queue: str = "default"
    priority: int = 0
    unique: str | None = None
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    start_by: datetime | None = None
    after: tuple[JobId, ...] = ()
    labels: dict[str, str] = {}
    schedule_id: ScheduleId | None = None
    occurrence: datetime | None = None
    overlap: Overlap = Overlap.ALLOW
    group: str | None = None


INHERITED: Final = tuple(
    name
    for name in ScheduleSpec.__struct_fields__
    if name in JobSpec.__struct_fields__ and name not in {"id", "created_at"}
)
"""The fields that a schedule passes on to its jobs."""


class Job(JobSpec, frozen=True, kw_only=True, gc=False):
    """One job as stored. Changes by copy: `msgspec.structs.replace(job, state=...)`.

    `attempt` counts attempts started, less those snoozed or released; `lost` counts those whose
    worker died, and `suspicion` is the evidence from these. `token` is the fence: it rises at every
    claim, and a write by an attempt counts only while the stored token is the attempt's and the job
    is running. `lease_until` is when a timed lease runs out; None where the lease lasts as long as
    the heartbeats of its worker. `cursor` is JSON text that says where a job that sends others
    continues.
    """

    state: JobState = JobState.WAITING
    reason: str | None = None
    blocked_by: int = 0
    token: Token = Token(0)
    worker: WorkerId | None = None
    lease_until: datetime | None = None
    attempt: int = 0
    lost: int = 0
    released: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_reason: str | None = None
    result: msgspec.Raw | None = None
    error: str | None = None
    progress: Progress | None = None
    cursor: msgspec.Raw | None = None
    suspicion: Suspicion | None = None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES
