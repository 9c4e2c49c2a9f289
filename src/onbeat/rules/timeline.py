"""Lanes of a timeline: what one schedule did and will do, as marks and as counts.

A lane with few runs shows each; one with more shows how many there were in each bucket. A bucket
lies on one side of now.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter
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
from onbeat.recurrence.instants import from_us, to_us
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
COUNTED: Final = tuple(kind.value for kind in MarkKind)
COUNTS: Final[Callable[[Bucket], tuple[int, ...]]] = attrgetter(*COUNTED)
"""Those of a bucket, in this order."""


class Fires(msgspec.Struct, frozen=True, kw_only=True):
    """The occurrences to come, and when each of them will be due; in microseconds since 1970.

    Where there are more than could be listed, `rest_from` is where the list ends.
    """

    at: Sequence[int] = ()
    due: Sequence[int] = ()
    rest_from: datetime | None = None


NO_FIRES: Final = Fires()


def fires_of(schedule: Schedule, axis: DayAxis, compile: Compile = compile_spec) -> Fires:
    """The fires of an active schedule on the axis that are still to come.

    Raises `BadRecurrence` for a rule that cannot be computed here or takes too many steps.
    """
    if schedule.status is not ScheduleStatus.ACTIVE or axis.last <= axis.now:
        return NO_FIRES
    last = to_us(axis.last)
    since = max(axis.now, shifted(axis.first, -TICK))
    rule = bounded_recurrence(schedule, compile)
    # There may be thousands on each of many lanes, so they stay integers.
    found = list(islice(rule.instants(since, shifted(axis.last, -TICK)), LANE_FIRES_MAX + 1))
    rest_from = from_us(found.pop()) if len(found) > LANE_FIRES_MAX else None
    if not schedule.jitter and not schedule.window:
        return Fires(at=found, due=found, rest_from=rest_from)
    due = [to_us(due_of(schedule, from_us(at))) for at in found]
    listed = [place for place, at in enumerate(due) if at < last]
    return Fires(
        at=[found[place] for place in listed],
        due=[due[place] for place in listed],
        rest_from=rest_from,
    )


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
    inside = [run for run in runs if axis.first <= run.due_at < axis.last]
    drawn = [run for run in runs if touches(axis, run)]
    planned = planned_of(fires, runs, skips)
    number = len(drawn) + len(planned) + len(skips) + len(forgotten)
    is_few = number <= SINGLES_MAX and fires.rest_from is None
    counted = Counter((run.due_at, kind_at(axis, run.state, run.due_at).value) for run in inside)
    counts = [(at, name, number) for (at, name), number in counted.items()]
    failures = [run.due_at for run in inside if run.state is JobState.FAILED]
    return Lane(
        marks=marks_of(axis, schedule, drawn, planned, skips, forgotten) if is_few else None,
        buckets=buckets_of(
            axis,
            [*counts, *counts_without_jobs(axis, skips, forgotten)],
            planned,
            fires.rest_from,
            failures,
        ),
        runs=len(inside),
        planned=len(planned),
        paused_from=paused_from(axis, schedule),
    )


def marks_of(
    axis: DayAxis,
    schedule: Schedule,
    runs: Iterable[JobRun],
    planned: Iterable[int],
    skips: Iterable[SkippedSpan],
    forgotten: Iterable[ForgottenRun],
) -> tuple[Mark, ...]:
    """Everything one by one, in order."""
    grace = schedule.grace or GRACE_DEFAULT_MAX
    marks = [
        *(run_mark(axis, run, grace) for run in runs),
        *map(planned_mark, planned),
        *(skip_mark(axis, one) for one in skips),
        *map(forgotten_mark, forgotten),
    ]
    return tuple(sorted(marks, key=lambda mark: (mark.first, mark.planned_at)))


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
    failures = [one.first_at for one in counts if one.state is JobState.FAILED]
    counted = [(one.at, kind_at(axis, one.state, one.at).value, one.count) for one in counts]
    return Lane(
        marks=None,
        buckets=buckets_of(
            axis,
            [*counted, *counts_without_jobs(axis, skips, forgotten)],
            sorted(fires.due),
            fires.rest_from,
            failures,
        ),
        runs=sum(one.count for one in counts),
        planned=len(fires.due),
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


def planned_of(fires: Fires, runs: Iterable[JobRun], skips: Iterable[SkippedSpan]) -> Sequence[int]:
    """When the fires are due that have neither a job nor a skip yet, in order."""
    if not fires.at:
        return ()
    known = {to_us(run.occurrence) for run in runs if run.occurrence is not None}
    spans = [(to_us(one.first), to_us(one.last)) for one in skips]
    spans = [one for one in spans if one[1] >= fires.at[0]]
    return sorted(
        due
        for at, due in zip(fires.at, fires.due, strict=True)
        if at not in known and not any(first <= at <= last for first, last in spans)
    )


def planned_mark(due: int) -> Mark:
    at = from_us(due)
    return Mark(kind=MarkKind.PLANNED, first=at, last=at, planned_at=at)


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


def counts_without_jobs(
    axis: DayAxis, skips: Iterable[SkippedSpan], forgotten: Iterable[ForgottenRun]
) -> list[Count]:
    return [
        *((axis.clipped(one.first), "skipped", 1) for one in skips),
        *((one.at, "forgotten", 1) for one in forgotten),
    ]


def buckets_of(
    axis: DayAxis,
    counts: Iterable[Count],
    planned: Sequence[int],
    rest_from: datetime | None = None,
    failures: Iterable[datetime] = (),
) -> tuple[Bucket, ...]:
    """The buckets that have something, in order. `failures` are when those that failed were due.

    `planned` are instants to come, in order.
    """
    edges = axis.edges()
    found: dict[int, dict[str, int]] = {}
    for at, name, number in counts:
        add_to(found, place_of(edges, at), name, number)
    for place, number in numbers_between(axis.edges_in_us(), planned):
        add_to(found, place, "planned", number)
    first_failures = {place_of(edges, at): at for at in sorted(failures, reverse=True)}
    about = estimate(axis, edges, rest_from) if rest_from is not None else {}
    for place, number in about.items():
        add_to(found, place, "planned", number)
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


def add_to(found: dict[int, dict[str, int]], place: int, name: str, number: int) -> None:
    counts = found.setdefault(place, {})
    counts[name] = counts.get(name, 0) + number


def numbers_between(edges: Sequence[int], instants: Sequence[int]) -> Iterator[tuple[int, int]]:
    """How many of the instants, which are in order, lie behind each edge that has any.

    It takes as many steps as there are edges, however many instants.
    """
    seen = 0
    for place in range(len(edges) - 1):
        until = bisect_left(instants, edges[place + 1], seen)
        if until > seen:
            yield place, until - seen
        seen = until


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
    found: dict[datetime, list[Bucket]] = {}
    for lane in lanes:
        for one in lane.buckets:
            found.setdefault(one.first, []).append(one)
    return tuple(sum_of(found[first]) for first in sorted(found))


def sum_of(buckets: Sequence[Bucket]) -> Bucket:
    """Of those of one part of the axis."""
    sums = map(sum, zip(*map(COUNTS, buckets), strict=True))
    failures = [one.first_failure for one in buckets if one.first_failure is not None]
    return replace(
        buckets[0],
        **dict(zip(COUNTED, sums, strict=True)),
        about=any(one.about for one in buckets),
        first_failure=min(failures, default=None),
    )


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
