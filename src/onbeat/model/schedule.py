"""A schedule: a standing instruction that yields jobs."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from onbeat.model.condition import Condition, Window
from onbeat.model.ids import ScheduleId
from onbeat.model.reaction import EventPattern, Gather
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


class PauseReason(StrEnum):
    """Why a schedule is paused where nobody paused it by hand."""

    DECLARED = "declared so"
    ORPHANED = "no longer declared"


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a schedule: changes by edits only.

    This is the list of what a schedule is made of; fields that `JobSpec` has, too, go to its jobs.
    `zone_data` is the version of the time zone data used for the latest plan.

    A schedule with `on` has no occurrences: its jobs are made for events, and are due `delay` after
    these. Events of `cancel_on` end its waiting jobs with the same key.

    `owner` is the program that declares it, and `release` the newest one of that program which did;
    `pause_reason` is None where it is not paused, or paused by hand.
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
    on: tuple[EventPattern, ...] = ()
    cancel_on: tuple[EventPattern, ...] = ()
    gather: Gather | None = None
    delay: timedelta = timedelta()
    condition: Condition | None = None
    window: tuple[Window, ...] = ()
    sensitive: bool = False
    labels: dict[str, str] = {}
    owner: str | None = None
    release: str | None = None
    pause_reason: PauseReason | None = None
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
