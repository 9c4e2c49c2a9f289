"""A schedule: a standing instruction that yields jobs."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from onbeat.model.ids import ScheduleId
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import Target


class CatchUp(StrEnum):
    """Which occurrences still run when they are found later than their grace."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """What to do with an occurrence while an earlier job of the schedule is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    WAIT = "wait"
    REPLACE = "replace"


class ScheduleStatus(StrEnum):
    """`finished` schedules have no occurrences left."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a schedule: changes by edits only.

    This is the list of what a schedule is made of; fields that `JobSpec` has, too, go to its jobs.
    `zone_data` is the version of the time zone data used for the latest plan.
    """

    id: ScheduleId
    name: str
    recurrence: RecurrenceSpec
    target: Target
    created_at: datetime
    updated_at: datetime
    key: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    catch_up: CatchUp = CatchUp.LATEST
    grace: timedelta | None = None
    overlap: Overlap = Overlap.ALLOW
    jitter: timedelta = timedelta()
    queue: str = "default"
    priority: int = 0
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_after: timedelta | None = None
    labels: dict[str, str] = {}
    zone_data: str = ""


class Schedule(ScheduleSpec, frozen=True, kw_only=True):
    """One schedule as stored.

    `planned_through` is the watermark: every occurrence up to and including it has its disposition,
    a job or a skip, and it never falls. `plan_at` is when the planner must plan it again, None when
    nothing is left to plan. `version` rises at every edit by a caller, so a plan made from an older
    version is refused.
    """

    planned_through: datetime
    plan_at: datetime | None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    version: int = 1
