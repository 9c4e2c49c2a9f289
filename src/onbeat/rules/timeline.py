"""Lanes of a timeline: what one schedule did and will do, as marks and as counts.

A lane with few runs shows each; one with more shows how many there were in each bucket. A bucket
lies on one side of now.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.ids import ScheduleId
from onbeat.model.job import JobState
from onbeat.model.limits import GRACE_DEFAULT_MAX, LANE_FIRES_MAX
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.timeline import (
    Bucket,
    ForgottenRun,
    JobRun,
    Lane,
    LaneOrder,
    Mark,
    MarkKind,
    RunCount,
    SkippedSpan,
)
from onbeat.recurrence import compile_spec
from onbeat.rules.calendar import FIRST, LAST, shifted
from onbeat.rules.day_axis import DayAxis
from onbeat.rules.plans import TICK, Compile, bounded_recurrence, jitter_of
from onbeat.rules.windows import opening_at_or_after

SINGLES_MAX: Final = 60
"""Marks of a lane that are shown one by one."""
KINDS: Final = {
    JobState.SUCCEEDED: MarkKind.SUCCEEDED,
    JobState.FAILED: MarkKind.FAILED,
    JobState.CANCELLED: MarkKind.CANCELLED,
    JobState.RUNNING: MarkKind.RUNNING,
    JobState.WAITING: MarkKind.WAITING,
}


class Fires(msgspec.Struct, frozen=True, kw_only=True):
    """The occurrences to come with the instants at which they will be due.

    Where there are more than could be listed, `rest_from` is where the list ends.
    """

    due: tuple[tuple[datetime, datetime], ...] = ()
    rest_from: datetime | None = None


NO_FIRES: Final = Fires()


def fires_of(schedule: Schedule, axis: DayAxis, compile: Compile = compile_spec) -> Fires:
    """The fires of an active schedule on the axis that are still to come.

    Raises `BadRecurrence` for a rule that cannot be computed here or takes too many steps.
    """
    if schedule.status is not ScheduleStatus.ACTIVE or axis.last <= axis.now:
        return NO_FIRES
    since = max(axis.now, shifted(axis.first, -TICK))
    rule = bounded_recurrence(schedule, compile)
    found = rule.between(since, shifted(axis.last, -TICK), LANE_FIRES_MAX + 1)
    rest_from = found[LANE_FIRES_MAX] if len(found) > LANE_FIRES_MAX else None
    due = ((at, due_of(schedule, at)) for at in found[:LANE_FIRES_MAX])
    return Fires(due=tuple(one for one in due if one[1] < axis.last), rest_from=rest_from)


def due_of(schedule: Schedule, occurrence: datetime) -> datetime:
    """As planned: with its jitter, and no earlier than a window opens."""
    return opening_at_or_after(
        schedule.window, shifted(occurrence, jitter_of(schedule, occurrence))
    )


def lane_of_runs(
    axis: DayAxis,
    schedule: Schedule,
    runs: Sequence[JobRun],
    skips: Sequence[SkippedSpan],
    fires: Fires,
    forgotten: Sequence[ForgottenRun] = (),
) -> Lane:
    """A lane whose runs are all known; some may have begun before the axis does."""
    grace = schedule.grace or GRACE_DEFAULT_MAX
    inside = [run for run in runs if axis.first <= run.due_at < axis.last]
    planned = planned_marks(fires, runs, skips)
    skipped = [*(skip_mark(axis, one) for one in skips), *map(forgotten_mark, forgotten)]
    marks = [
        *(run_mark(axis, run, grace) for run in runs if touches(axis, run)),
        *planned,
        *skipped,
    ]
    marks.sort(key=lambda mark: (mark.first, mark.planned_at))
    counted = Counter((run.due_at, kind_at(axis, run.state, run.due_at).value) for run in inside)
    counts = [(at, name, number) for (at, name), number in counted.items()]
    failures = [run.due_at for run in inside if run.state is JobState.FAILED]
    is_few = len(marks) <= SINGLES_MAX and fires.rest_from is None
    return Lane(
        marks=tuple(marks) if is_few else None,
        buckets=buckets_of(
            axis, [*counts, *names_of([*planned, *skipped])], fires.rest_from, failures
        ),
        runs=len(inside),
        planned=len(planned),
        paused_from=paused_from(axis, schedule),
    )


def lane_of_counts(
    axis: DayAxis,
    schedule: Schedule,
    counts: Sequence[RunCount],
    since: datetime | None,
    skips: Sequence[SkippedSpan],
    fires: Fires,
    forgotten: Sequence[ForgottenRun] = (),
) -> Lane:
    """A lane of so many runs that they were only counted.

    Counts begin up to now, or after it where no rule tells what comes.
    """
    planned = planned_marks(fires, (), ())
    skipped = [*(skip_mark(axis, one) for one in skips), *map(forgotten_mark, forgotten)]
    failures = [one.first_at for one in counts if one.state is JobState.FAILED]
    counted = [(one.at, kind_at(axis, one.state, one.at).value, one.count) for one in counts]
    return Lane(
        marks=None,
        buckets=buckets_of(
            axis, [*counted, *names_of([*planned, *skipped])], fires.rest_from, failures
        ),
        runs=sum(one.count for one in counts),
        planned=len(planned),
        since=since,
        paused_from=paused_from(axis, schedule),
    )


def touches(axis: DayAxis, run: JobRun) -> bool:
    """Whether it is due on the axis, or ran on it."""
    if axis.first <= run.due_at < axis.last:
        return True
    begin, end = run_bounds(axis, run)
    return begin < axis.last and end > axis.first


def run_bounds(axis: DayAxis, run: JobRun) -> tuple[datetime, datetime]:
    """From its start to its end, or to now; its due time where it has not started."""
    if run.started_at is None or run.state is JobState.WAITING:
        return run.due_at, run.due_at
    end = run.finished_at or axis.now
    return run.started_at, max(end, run.started_at)


def run_mark(axis: DayAxis, run: JobRun, grace: timedelta) -> Mark:
    begin, end = run_bounds(axis, run)
    is_late = begin > shifted(run.due_at, grace) and run.attempt <= 1
    return Mark(
        kind=kind_at(axis, run.state, run.due_at),
        first=axis.clipped(begin),
        last=axis.clipped(end),
        planned_at=axis.clipped(run.due_at),
        job_id=run.id,
        misfired=is_late and run.occurrence is not None,
        attempt=run.attempt,
        reason=run.reason,
    )


def planned_marks(fires: Fires, runs: Iterable[JobRun], skips: Iterable[SkippedSpan]) -> list[Mark]:
    """Fires that have neither a job nor a skip yet."""
    known = {run.occurrence for run in runs}
    spans = [(one.first, one.last) for one in skips]
    return [
        Mark(kind=MarkKind.PLANNED, first=due, last=due, planned_at=due)
        for at, due in fires.due
        if at not in known and not any(first <= at <= last for first, last in spans)
    ]


def skip_mark(axis: DayAxis, skip: SkippedSpan) -> Mark:
    first = axis.clipped(skip.first)
    return Mark(
        kind=MarkKind.SKIPPED,
        first=first,
        last=axis.clipped(skip.last),
        planned_at=first,
        reason=skip.reason,
    )


def forgotten_mark(run: ForgottenRun) -> Mark:
    return Mark(kind=MarkKind.FORGOTTEN, first=run.at, last=run.at, planned_at=run.at)


Count = tuple[datetime, str, int]
"""How many of what there are at an instant; the names are those of the fields of a bucket."""


def kind_at(axis: DayAxis, state: JobState, due_at: datetime) -> MarkKind:
    """A job that waits for its time to come is planned."""
    is_later = state is JobState.WAITING and due_at > axis.now
    return MarkKind.PLANNED if is_later else KINDS[state]


def names_of(marks: Iterable[Mark]) -> list[Count]:
    return [(mark.first, mark.kind.value, 1) for mark in marks]


def buckets_of(
    axis: DayAxis,
    counts: Iterable[Count],
    rest_from: datetime | None = None,
    failures: Iterable[datetime] = (),
) -> tuple[Bucket, ...]:
    """The buckets that have something, in order. `failures` are when those that failed were due."""
    edges = axis.edges()
    found: dict[int, Counter[str]] = {}
    for at, name, number in counts:
        found.setdefault(place_of(edges, at), Counter())[name] += number
    first_failures = {place_of(edges, at): at for at in sorted(failures, reverse=True)}
    about = estimate(axis, edges, rest_from) if rest_from is not None else {}
    for place, number in about.items():
        found.setdefault(place, Counter())["planned"] += number
    return tuple(
        Bucket(
            first=edges[place],
            last=edges[place + 1],
            about=place in about,
            first_failure=first_failures.get(place),
            **found[place],
        )
        for place in sorted(found)
    )


def place_of(edges: Sequence[datetime], at: datetime) -> int:
    return min(max(bisect_right(edges, at) - 1, 0), len(edges) - 2)


def estimate(axis: DayAxis, edges: Sequence[datetime], rest_from: datetime) -> dict[int, int]:
    """For each bucket from `rest_from` on, the fires to expect at the pace of those before."""
    begin = max(axis.now, axis.first)
    pace = LANE_FIRES_MAX / max((rest_from - begin) / TICK, 1.0)
    result: dict[int, int] = {}
    passed = 0
    for place in range(len(edges) - 1):
        until = max((edges[place + 1] - rest_from) / TICK, 0.0)
        number = int(until * pace) - passed
        if number > 0:
            result[place] = number
            passed += number
    return result


def paused_from(axis: DayAxis, schedule: Schedule) -> datetime | None:
    """Where the pause begins that still lasts; its last edit made it."""
    if schedule.status is not ScheduleStatus.PAUSED or schedule.updated_at >= axis.last:
        return None
    return axis.clipped(schedule.updated_at)


def all_lanes(lanes: Iterable[Lane]) -> tuple[Bucket, ...]:
    """The buckets of several lanes of one axis, added up."""
    sums: dict[datetime, Bucket] = {}
    for lane in lanes:
        for one in lane.buckets:
            other = sums.get(one.first)
            sums[one.first] = one if other is None else added(other, one)
    return tuple(sums[first] for first in sorted(sums))


def added(one: Bucket, other: Bucket) -> Bucket:
    counts = {kind: getattr(one, kind) + getattr(other, kind) for kind in MarkKind}
    failures = filter(None, (one.first_failure, other.first_failure))
    about, failure = one.about or other.about, min(failures, default=None)
    return replace(one, **counts, about=about, first_failure=failure)


def ordered(
    schedules: Iterable[Schedule],
    order: LaneOrder,
    failed_at: Mapping[ScheduleId, datetime],
    next_at: Mapping[ScheduleId, datetime | None],
) -> list[Schedule]:
    """In the order of lanes. What failed last comes first; what is not known comes last."""
    found = sorted(schedules, key=lambda one: (one.name.casefold(), one.id))
    if order is LaneOrder.TROUBLE:
        found.sort(key=lambda one: failed_at.get(one.id, FIRST), reverse=True)
    elif order is LaneOrder.NEXT:
        found.sort(key=lambda one: next_at.get(one.id) or LAST)
    return found
