"""What the planner decided for one schedule."""

from datetime import datetime

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job


class Skip(msgspec.Struct, frozen=True):
    """Occurrences that get no job: those from `first` to `last`, both included, and why."""

    first: datetime
    last: datetime
    reason: str


class Dropped(msgspec.Struct, frozen=True):
    """A waiting job that shall not run after all, and why. Its occurrence becomes a skip."""

    job_id: JobId
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Stored whole or not at all, and only while the schedule's version is still `version`.

    `jobs` become waiting jobs, except those whose (schedule, occurrence) has a disposition
    already: planning twice is planning once. `dropped` are cancelled if they still wait and never
    started; `excused` may start although their `start_by` has passed.
    """

    schedule_id: ScheduleId
    version: int
    planned_through: datetime
    plan_at: datetime | None
    jobs: tuple[Job, ...] = ()
    skips: tuple[Skip, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    excused: tuple[JobId, ...] = ()
    finished: bool = False
