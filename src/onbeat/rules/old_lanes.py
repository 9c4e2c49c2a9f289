"""How much of a schedule's past is over, so that a timeline need not read it again."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.ids import ScheduleId
from onbeat.model.job import JobState
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.rules.day_axis import DayAxis

BELIEVED: Final = timedelta(minutes=5)
"""For how long a lane is taken for true without a look into the store."""
STILL_MOVING: Final = timedelta(minutes=10)
"""How much of the past may still get a run: commits and routers come later than their times."""
UNENDED: Final = frozenset({JobState.WAITING, JobState.RUNNING})


class OldLane(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a schedule before `until`: its runs, or where these are many their counts."""

    until: datetime
    read_at: datetime
    updated_at: datetime
    runs: tuple[JobRun, ...]
    counts: tuple[RunCount, ...] | None
    skips: tuple[SkippedSpan, ...]
    forgotten: tuple[ForgottenRun, ...]


Key = tuple[datetime, timedelta]
"""Where an axis begins, and the width of its buckets."""


def key_of(axis: DayAxis) -> Key:
    return axis.first, axis.width


def weight_of(first: datetime, width: timedelta, lane: OldLane) -> int:
    """Its buckets, or its records where these are more."""
    records = len(lane.runs) + len(lane.counts or ()) + len(lane.skips) + len(lane.forgotten)
    return max((lane.until - first) // width, records)


def settled_until(
    axis: DayAxis, schedule: Schedule, runs: Sequence[JobRun], counts: Sequence[RunCount]
) -> datetime:
    """The last edge of a bucket before which nothing happens any more by itself."""
    bound = min(axis.last, axis.now - STILL_MOVING)
    if schedule.plan_at is not None and schedule.plan_at <= axis.now:
        bound = min(bound, schedule.planned_through)
    unended = [
        *(run.due_at for run in runs if run.state in UNENDED),
        *(one.at for one in counts if one.state in UNENDED),
    ]
    bound = min([bound, *unended])
    if bound == axis.last:
        return bound
    return axis.first + (bound - axis.first) // axis.width * axis.width


def counts_of_runs(axis: DayAxis, runs: Iterable[JobRun]) -> list[RunCount]:
    """The runs on the axis, counted as a store counts them."""
    due: dict[tuple[ScheduleId, datetime, JobState], list[datetime]] = {}
    for run in runs:
        if run.due_at >= axis.first:
            at = run.due_at - (run.due_at - axis.first) % axis.width
            due.setdefault((run.schedule_id, at, run.state), []).append(run.due_at)
    return [
        RunCount(schedule_id=id, at=at, state=state, count=len(found), first_at=min(found))
        for (id, at, state), found in due.items()
    ]
