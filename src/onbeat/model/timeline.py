"""What ran and what will run, on one axis of instants."""

from datetime import datetime
from enum import StrEnum

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import JobState


class JobRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a timeline needs of a job of a schedule, live or ended, without its payload."""

    id: JobId
    schedule_id: ScheduleId
    state: JobState
    due_at: datetime
    occurrence: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int = 0
    reason: str | None = None


class RunCount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many jobs of a schedule that are due in the span that begins `at` are in this state.

    `first_at` is when the first of them is due.
    """

    schedule_id: ScheduleId
    at: datetime
    state: JobState
    count: int
    first_at: datetime


class SkippedSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Occurrences without a job: those from `first` to `last`, both included, and the reason."""

    schedule_id: ScheduleId
    first: datetime
    last: datetime
    reason: str


class ForgottenRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The occurrence at this instant had a job, which was deleted after its time to be kept."""

    schedule_id: ScheduleId
    at: datetime


class TimelineSpan(StrEnum):
    """How much of time is shown at once."""

    HOURS = "6h"
    DAY = "day"
    WEEK = "week"


class LaneOrder(StrEnum):
    """Which schedules come first: those that failed last, those that fire next, or by name."""

    TROUBLE = "trouble"
    NEXT = "next"
    NAME = "name"


class MarkKind(StrEnum):
    """What a mark on a lane stands for."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RUNNING = "running"
    WAITING = "waiting"
    PLANNED = "planned"
    SKIPPED = "skipped"
    FORGOTTEN = "forgotten"


class Mark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run, one planned fire, or occurrences skipped together.

    `first` and `last` are where it lies on the axis, and equal for an instant. `planned_at` is the
    occurrence itself; a mark that `misfired` ran late, and joins it. `attempt` is above 1 where
    earlier attempts failed.
    """

    kind: MarkKind
    first: datetime
    last: datetime
    planned_at: datetime
    job_id: JobId | None = None
    misfired: bool = False
    attempt: int = 0
    reason: str | None = None


class Bucket(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Counts by outcome of what is due from `first` to just before `last`.

    It lies on one side of now. With `about` the planned fires are estimated. `first_failure` is
    when the first of those that failed was due.
    """

    first: datetime
    last: datetime
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0
    waiting: int = 0
    planned: int = 0
    skipped: int = 0
    forgotten: int = 0
    about: bool = False
    first_failure: datetime | None = None


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule on the axis: its marks where these are few, and always its buckets.

    `runs` is how many jobs were counted, and `since` the instant from which on they were, where
    earlier ones were too many. `paused_from` begins a span to the end of the axis.
    """

    marks: tuple[Mark, ...] | None
    buckets: tuple[Bucket, ...]
    runs: int
    planned: int
    since: datetime | None = None
    paused_from: datetime | None = None


class ClockChange(msgspec.Struct, frozen=True, kw_only=True):
    """The clock of the zone is turned at `at`: from the wall time `before` to `after`.

    A gap does not exist on the clock; a fold is shown twice.
    """

    at: datetime
    before: datetime
    after: datetime

    @property
    def is_gap(self) -> bool:
        return self.after > self.before
