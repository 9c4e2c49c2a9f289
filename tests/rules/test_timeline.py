"""Lanes of a timeline: single marks, counts, and what is still to come."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.errors import TooCostly
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import LANE_FIRES_MAX
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.timeline import (
    Bucket,
    JobRun,
    LaneOrder,
    MarkKind,
    RunCount,
    SkippedSpan,
    TimelineSpan,
)
from onbeat.recurrence import Budget, compile_spec
from onbeat.recurrence.instants import from_us, to_us
from onbeat.recurrence.zones import zone_named
from onbeat.rules.day_axis import DayAxis, axis_of
from onbeat.rules.plans import bounded_recurrence, jitter_of, with_budget
from onbeat.rules.timeline import (
    NO_FIRES,
    SINGLES_MAX,
    Fires,
    all_lanes,
    fires_of,
    lane_of_counts,
    lane_of_runs,
    ordered,
)
from onbeat.testing.build import HOUR, MINUTE, SECOND, a_schedule, an_id

NOW = datetime(2026, 3, 2, 12, 5, tzinfo=UTC)
DAY = datetime(2026, 3, 2, tzinfo=UTC)
UTC_ZONE = zone_named("UTC")
COUNTED = tuple(kind.value for kind in MarkKind)


def axis(span: TimelineSpan = TimelineSpan.DAY, now: datetime = NOW) -> DayAxis:
    return axis_of(span, DAY.date(), UTC_ZONE, now)


def hourly(**fields: Any) -> Schedule:
    return a_schedule(updated_at=DAY - 24 * HOUR, **fields)


def every(text: str, **fields: Any) -> Schedule:
    return hourly(recurrence=RecurrenceSpec(kind="cron", text=text, tz="UTC"), **fields)


def a_run(schedule: Schedule, at: datetime, state: str = "succeeded", **fields: Any) -> JobRun:
    run = JobRun(
        id=JobId(an_id()),
        schedule_id=schedule.id,
        state=JobState(state),
        due_at=at,
        occurrence=at,
    )
    if state in {"succeeded", "failed"}:
        run = replace(run, started_at=at, finished_at=at + MINUTE, attempt=1)
    return replace(run, **fields)


def a_skip(
    schedule: Schedule, first: datetime, last: datetime, reason: str = "overlap"
) -> SkippedSpan:
    return SkippedSpan(schedule_id=schedule.id, first=first, last=last, reason=reason)


def total(buckets: Sequence[Bucket], name: str) -> int:
    return sum(getattr(one, name) for one in buckets)


def test_each_state_is_a_mark_where_it_was() -> None:
    one = hourly()
    runs = [
        a_run(one, DAY + HOUR),
        a_run(one, DAY + 2 * HOUR, "failed"),
        a_run(one, DAY + 3 * HOUR, "cancelled", reason="by hand", finished_at=DAY + 4 * HOUR),
        a_run(one, NOW - HOUR, "running", started_at=NOW - HOUR + SECOND, attempt=1),
        a_run(one, NOW - MINUTE, "waiting"),
        a_run(one, NOW + MINUTE, "waiting"),
    ]
    lane = lane_of_runs(axis(), one, runs, (), NO_FIRES)
    assert lane.marks is not None
    found = [(mark.kind.value, mark.first, mark.last, mark.reason) for mark in lane.marks]
    assert found == [
        ("succeeded", DAY + HOUR, DAY + HOUR + MINUTE, None),
        ("failed", DAY + 2 * HOUR, DAY + 2 * HOUR + MINUTE, None),
        ("cancelled", DAY + 3 * HOUR, DAY + 3 * HOUR, "by hand"),
        ("running", NOW - HOUR + SECOND, NOW, None),
        ("waiting", NOW - MINUTE, NOW - MINUTE, None),
        ("planned", NOW + MINUTE, NOW + MINUTE, None),
    ]
    assert [mark.job_id for mark in lane.marks] == [run.id for run in runs]
    assert {name: total(lane.buckets, name) for name in COUNTED} == {
        name: 0 if name in {"skipped", "forgotten"} else 1 for name in COUNTED
    }
    assert (lane.runs, lane.planned) == (6, 0)


def test_a_misfire_joins_its_late_run() -> None:
    one = hourly()
    late = a_run(one, DAY + HOUR, started_at=DAY + 3 * HOUR, finished_at=DAY + 4 * HOUR)
    on_time = a_run(one, DAY + 5 * HOUR, started_at=DAY + 5 * HOUR + MINUTE)
    by_hand = replace(late, occurrence=None)
    again = replace(late, attempt=2)
    lane = lane_of_runs(axis(), one, [late, on_time, by_hand, again], (), NO_FIRES)
    assert lane.marks is not None
    by_id = [mark for mark in lane.marks if mark.job_id == late.id]
    assert [mark.misfired for mark in by_id] == [True, False, False]
    assert by_id[0].planned_at == DAY + HOUR
    assert by_id[0].first == DAY + 3 * HOUR
    assert not next(mark for mark in lane.marks if mark.job_id == on_time.id).misfired
    patient = replace(one, grace=3 * HOUR)
    (mark,) = lane_of_runs(axis(), patient, [late], (), NO_FIRES).marks or ()
    assert not mark.misfired


def test_what_began_before_is_drawn_and_not_counted() -> None:
    one = hourly()
    runs = [
        a_run(one, DAY - 3 * HOUR, finished_at=DAY + HOUR),
        a_run(one, DAY - 2 * HOUR, "running", started_at=DAY - HOUR),
        a_run(one, DAY - 2 * HOUR),
        a_run(one, DAY - HOUR, "waiting"),
    ]
    lane = lane_of_runs(axis(), one, runs, (), NO_FIRES)
    assert lane.marks is not None
    assert [(mark.first, mark.last) for mark in lane.marks] == [(DAY, DAY + HOUR), (DAY, NOW)]
    assert (lane.runs, lane.buckets) == (0, ())


def test_many_runs_are_counted_instead() -> None:
    one = hourly()
    for count, is_single in ((SINGLES_MAX, True), (SINGLES_MAX + 1, False)):
        runs = [a_run(one, DAY + number * MINUTE) for number in range(count)]
        lane = lane_of_runs(axis(), one, runs, (), NO_FIRES)
        assert (lane.marks is not None) == is_single
        assert total(lane.buckets, "succeeded") == lane.runs == count


def test_a_bucket_never_crosses_now() -> None:
    one = every("* * * * *")
    here = axis()
    counts = [
        RunCount(
            schedule_id=one.id,
            at=NOW - 5 * MINUTE,
            state=JobState.SUCCEEDED,
            count=5,
            first_at=NOW - 5 * MINUTE,
        )
    ]
    lane = lane_of_counts(here, one, counts, None, (), fires_of(one, here))
    past, future = lane.buckets[:2]
    assert (past.first, past.last, past.succeeded, past.planned) == (NOW - 5 * MINUTE, NOW, 5, 0)
    assert (future.first, future.last, future.planned) == (NOW, NOW + 5 * MINUTE, 4)
    assert future.succeeded == 0
    assert lane.marks is None
    assert lane.runs == 5


def test_skips_show_their_reason_and_lie_on_the_axis() -> None:
    one = hourly()
    skips = [
        a_skip(one, DAY + HOUR, DAY + HOUR, "an earlier job is unfinished"),
        a_skip(one, DAY - 9 * HOUR, DAY + 3 * HOUR, "misfire"),
        a_skip(one, DAY + 23 * HOUR, DAY + 30 * HOUR, "misfire"),
    ]
    lane = lane_of_runs(axis(), one, (), skips, NO_FIRES)
    assert lane.marks is not None
    assert [(mark.first - DAY, mark.last - DAY, mark.reason) for mark in lane.marks] == [
        (0 * HOUR, 3 * HOUR, "misfire"),
        (HOUR, HOUR, "an earlier job is unfinished"),
        (23 * HOUR, 24 * HOUR, "misfire"),
    ]
    assert total(lane.buckets, "skipped") == 3


def test_fires_with_a_job_or_a_skip_are_not_planned_anew() -> None:
    one = hourly()
    at = DAY + 13 * HOUR
    runs = [a_run(one, at, "waiting", due_at=at + MINUTE)]
    skips = [a_skip(one, at + HOUR, at + 2 * HOUR)]
    lane = lane_of_runs(axis(), one, runs, skips, fires_of(one, axis()))
    assert lane.marks is not None
    planned = [mark.first for mark in lane.marks if mark.kind is MarkKind.PLANNED]
    assert planned == [at + MINUTE, *(at + number * HOUR for number in range(3, 11))]
    assert (lane.runs, lane.planned) == (1, 8)


def test_fires_come_as_they_will_be_due() -> None:
    one = every("*/30 * * * *", jitter=10 * MINUTE)
    fires = fires_of(one, axis())
    assert len(fires.due) == 23
    times = [from_us(at) for at in fires.at]
    assert [from_us(due) for due in fires.due] == [at + jitter_of(one, at) for at in times]
    assert fires.rest_from is None


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"starts_at": DAY + 15 * HOUR},
        {"ends_at": DAY + 15 * HOUR},
        {"starts_at": DAY + 15 * HOUR + SECOND, "ends_at": DAY + 15 * HOUR + 20 * MINUTE},
        {"starts_at": DAY + 30 * HOUR},
        {"ends_at": DAY},
    ],
)
def test_fires_are_those_that_will_be_planned(bounds: dict[str, datetime]) -> None:
    one, here = every("*/10 * * * *", **bounds), axis()
    planned = bounded_recurrence(one, compile_spec).walk(here.now, here.last - SECOND, 1_000)
    assert [from_us(at) for at in fires_of(one, here).due] == list(planned)


@given(st.lists(st.integers(0, 86_399_999_999), max_size=50).map(sorted))
def test_planned_fires_are_counted_where_they_lie(since: list[int]) -> None:
    here = axis(now=DAY)
    due = [to_us(DAY) + one for one in since]
    lane = lane_of_counts(here, hourly(), (), None, (), Fires(at=due, due=due))
    for bucket in lane.buckets:
        inside = [one for one in due if bucket.first <= from_us(one) < bucket.last]
        assert bucket.planned == len(inside)
    assert total(lane.buckets, "planned") == lane.planned == len(due)


def test_only_active_schedules_have_fires_and_only_to_come() -> None:
    assert fires_of(hourly(), axis(now=DAY + 24 * HOUR)) == NO_FIRES
    assert fires_of(hourly(status=ScheduleStatus.PAUSED), axis()) == NO_FIRES
    ahead = fires_of(hourly(), axis(now=DAY - 9 * HOUR))
    assert [from_us(at) for at in ahead.at] == [DAY + number * HOUR for number in range(24)]


def test_a_rule_that_takes_too_long_says_so() -> None:
    compiled = with_budget(compile_spec, Budget(3))
    with pytest.raises(TooCostly):
        fires_of(hourly(), axis(), compiled)


def test_more_fires_than_are_listed_are_estimated() -> None:
    one = hourly(recurrence=RecurrenceSpec(kind="every", text="PT1S"))
    here = axis(now=DAY)
    due = [to_us(DAY + number * SECOND) for number in range(1, LANE_FIRES_MAX + 1)]
    fires = Fires(at=due, due=due, rest_from=DAY + (LANE_FIRES_MAX + 1) * SECOND)
    lane = lane_of_runs(here, one, (), (), fires)
    assert lane.marks is None
    assert lane.planned == LANE_FIRES_MAX
    assert [one.about for one in lane.buckets] == [False] * 3 + [True] * 141
    assert abs(total(lane.buckets, "planned") - 86_400) <= 100


def test_a_pause_lasts_to_the_end() -> None:
    for since, expected in (
        (DAY + HOUR, DAY + HOUR),
        (DAY - HOUR, DAY),
        (DAY + 24 * HOUR, None),
    ):
        one = replace(hourly(status=ScheduleStatus.PAUSED), updated_at=since)
        assert lane_of_runs(axis(), one, (), (), NO_FIRES).paused_from == expected
    assert lane_of_runs(axis(), hourly(), (), (), NO_FIRES).paused_from is None


def test_lanes_are_added_up() -> None:
    one = hourly()
    first = lane_of_runs(axis(), one, [a_run(one, DAY), a_run(one, DAY + HOUR)], (), NO_FIRES)
    about = Fires(rest_from=DAY + 23 * HOUR)
    second = lane_of_runs(axis(), one, [a_run(one, DAY, "failed")], (), about)
    sums = all_lanes([first, second])
    assert (sums[0].succeeded, sums[0].failed) == (1, 1)
    assert total(sums, "succeeded") == 2
    assert [bucket.about for bucket in sums[:2]] == [False, False]
    assert sums[-1].about
    assert all_lanes([]) == ()


def test_lanes_come_in_the_order_that_is_asked_for() -> None:
    a, b, c = (hourly(name=name) for name in ("alpha", "Beta", "gamma"))
    failed_at = {c.id: NOW, b.id: NOW - HOUR}
    next_at = {b.id: NOW, a.id: NOW + HOUR, c.id: None}

    def order(by: LaneOrder) -> list[str]:
        return [one.name for one in ordered([c, b, a], by, failed_at, next_at)]

    assert order(LaneOrder.NAME) == ["alpha", "Beta", "gamma"]
    assert order(LaneOrder.TROUBLE) == ["gamma", "Beta", "alpha"]
    assert order(LaneOrder.NEXT) == ["Beta", "alpha", "gamma"]


instants = st.timedeltas(-30 * HOUR, 60 * HOUR).map(lambda span: DAY + span)
spans = st.tuples(instants, st.timedeltas(0 * HOUR, 30 * HOUR))


@given(
    st.lists(st.tuples(instants, st.sampled_from(JobState), spans), max_size=80),
    st.lists(spans, max_size=5),
    st.sampled_from(TimelineSpan),
    instants,
)
def test_every_mark_lies_on_the_axis_and_counts_are_kept(
    drawn: list[tuple[datetime, JobState, tuple[datetime, timedelta]]],
    skipped: list[tuple[datetime, timedelta]],
    span: TimelineSpan,
    now: datetime,
) -> None:
    here, one = axis(span, now), every("*/20 * * * *")
    runs = [
        a_run(one, due, state, started_at=begin, finished_at=begin + length)
        for due, state, (begin, length) in drawn
    ]
    skips = [a_skip(one, first, first + length) for first, length in skipped]
    lane = lane_of_runs(here, one, runs, skips, fires_of(one, here))
    for mark in lane.marks or ():
        assert here.first <= mark.first <= mark.last <= here.last
        assert here.first <= mark.planned_at <= here.last
    inside = [run for run in runs if here.first <= run.due_at < here.last]
    counted = sum(total(lane.buckets, name) for name in COUNTED)
    assert counted == len(inside) + len(skips) + lane.planned
    assert lane.runs == len(inside)
    for bucket in lane.buckets:
        assert not bucket.first < now < bucket.last
