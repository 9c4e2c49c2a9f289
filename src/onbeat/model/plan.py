"""The planner's decision for one schedule."""

from datetime import datetime

import msgspec

from onbeat.model.event import Event
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job


class Skip(msgspec.Struct, frozen=True):
    """Occurrences without a job: those from `first` to `last`, both included, and the reason.

    The `event` says so, where a schedule asks for its type.
    """

    first: datetime
    last: datetime
    reason: str
    event: Event | None = None


class Dropped(msgspec.Struct, frozen=True):
    """A waiting job that will not run, and the reason. Its occurrence becomes a skip.

    The `event` says so, where a schedule asks for its type.
    """

    job_id: JobId
    reason: str
    event: Event | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Stored whole or not at all, and only while the schedule's version is still `version`.

    `jobs` become waiting jobs, except those whose (schedule, occurrence) already has a disposition:
    planning is idempotent. A plan that goes on from `planned_from` is stored only while no other
    one has gone further: what that one decided may have run and been pruned with its disposition.

    `dropped` jobs are cancelled if they still wait and never started; `allowed_late` jobs may start
    although their `start_by` has passed. The history tells of both at `decided_at`; without one, at
    the instant from which each job could no longer start.
    """

    schedule_id: ScheduleId
    version: int
    planned_from: datetime | None = None
    planned_through: datetime
    plan_at: datetime | None
    jobs: tuple[Job, ...] = ()
    skips: tuple[Skip, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    allowed_late: tuple[JobId, ...] = ()
    decided_at: datetime | None = None
    finished: bool = False
