"""The request and the answer of a timeline."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from onbeat.model.errors import Invalid
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.timeline import (
    Bucket,
    ClockChange,
    Lane,
    LaneOrder,
    Mark,
    MarkKind,
    TimelineSpan,
)
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.recurrences import ZoneForm
from onbeat.wire.requests import IdForm, PageForm, SearchForm

DAY_CHARS_MAX = 40
FROM_TO = {"first": "from", "last": "to"}


class ShowTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """Without a day it is today. `schedule_id` shows one schedule alone."""

    day: (
        Annotated[
            str,
            Meta(
                max_length=DAY_CHARS_MAX,
                description="A date, or the instant at which six hours begin",
                examples=["2026-03-29"],
            ),
        ]
        | None
    ) = None
    span: TimelineSpan = TimelineSpan.DAY
    tz: ZoneForm | None = None
    q: SearchForm | None = None
    status: ScheduleStatus | None = None
    queue: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    schedule_id: IdForm | None = None
    order: LaneOrder = LaneOrder.TROUBLE
    page: PageForm = 1


class MarkAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=FROM_TO):
    """One run, one fire to come, or occurrences skipped together; see `TimelineAnswer`."""

    kind: MarkKind
    first: datetime
    last: datetime
    planned_at: datetime
    job_id: str | None = None
    misfired: bool = False
    attempt: int = 0
    reason: str | None = None


class BucketAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=FROM_TO):
    """Counts of what is due in a part of the axis; with `about` those planned are estimates.

    `forgotten` counts runs that are no longer kept, `first_failure` is when the first of the failed
    ones was due.
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


class ClockChangeAnswer(
    msgspec.Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}
):
    """From one time of day to another that does not exist, a gap, or comes twice, a fold."""

    at: datetime
    kind: str
    first: str
    last: str


class LaneAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule. `marks` is null where there are too many: then only the buckets tell.

    `since` is set where earlier runs are not counted, being too many; `unknown` says why fires to
    come are not known. `clock_changes` are those of its own zone.
    """

    id: str
    name: str
    key: str | None
    status: ScheduleStatus
    queue: str
    timezone: str
    marks: tuple[MarkAnswer, ...] | None
    buckets: tuple[BucketAnswer, ...]
    runs: int
    planned: int
    since: datetime | None = None
    paused_from: datetime | None = None
    unknown: str | None = None
    clock_changes: tuple[datetime, ...]


class TimelineAnswer(AnswerRecord, frozen=True, kw_only=True, rename=FROM_TO):
    """Lanes on one axis of instants, from `from` to just before `to`, a page of them.

    `all` adds up the lanes of this page. `schedules` counts those that match; where `more` is true
    there are further ones that were not looked at, newer ones going first. Before `kept_since` jobs
    that succeeded are no longer kept, and before `failures_kept_since` failed ones are not either;
    both are null where the axis begins later.
    """

    first: datetime
    last: datetime
    now: datetime
    span: TimelineSpan
    timezone: str
    hours: float
    clock_changes: tuple[ClockChangeAnswer, ...]
    all: tuple[BucketAnswer, ...]
    lanes: tuple[LaneAnswer, ...]
    schedules: int
    more: bool
    page: int
    limit: int
    kept_since: datetime | None
    failures_kept_since: datetime | None


def read_day(text: str | None) -> date | datetime | None:
    """A date, or an instant with its offset. Raises `Invalid`."""
    if text is None:
        return None
    try:
        if len(text) == len("2026-03-29"):
            return date.fromisoformat(text)
        at = datetime.fromisoformat(text)
    except ValueError:
        raise bad_day() from None
    if at.tzinfo is None:
        raise bad_day()
    return at


def bad_day() -> Invalid:
    return Invalid(
        "day must be a date such as 2026-03-29, or an instant such as 2026-03-29T06:00:00Z", "day"
    )


def mark_answer(mark: Mark) -> MarkAnswer:
    return MarkAnswer(**msgspec.structs.asdict(mark))


def bucket_answers(buckets: Sequence[Bucket]) -> tuple[BucketAnswer, ...]:
    return tuple(BucketAnswer(**msgspec.structs.asdict(one)) for one in buckets)


def clock_change_answer(change: ClockChange) -> ClockChangeAnswer:
    earlier, later = sorted((change.before, change.after))
    return ClockChangeAnswer(
        at=change.at,
        kind="gap" if change.is_gap else "fold",
        first=f"{earlier:%H:%M}",
        last=f"{later:%H:%M}",
    )


def lane_answer(
    schedule: Schedule, lane: Lane, unknown: str | None, changes: Sequence[ClockChange]
) -> LaneAnswer:
    return LaneAnswer(
        id=schedule.id,
        name=schedule.name,
        key=schedule.key,
        status=schedule.status,
        queue=schedule.queue,
        timezone=schedule.recurrence.tz or "UTC",
        marks=None if lane.marks is None else tuple(map(mark_answer, lane.marks)),
        buckets=bucket_answers(lane.buckets),
        runs=lane.runs,
        planned=lane.planned,
        since=lane.since,
        paused_from=lane.paused_from,
        unknown=unknown,
        clock_changes=tuple(one.at for one in changes),
    )
