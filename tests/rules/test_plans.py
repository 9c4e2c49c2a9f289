from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.condition import Condition, Window
from onbeat.model.limits import PLAN_JOBS_MAX
from onbeat.model.plan import Plan, Skip
from onbeat.model.schedule import CatchUp, Schedule, ScheduleStatus
from onbeat.recurrence import compile_spec, every, rrule
from onbeat.recurrence.recurrence import Recurrence
from onbeat.rules import plans
from onbeat.rules.plans import (
    MISFIRED,
    backfill_jobs,
    first_watermark,
    jitter_of,
    next_at,
    plan,
    replan,
    triggered_job,
)
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, TICK, a_schedule
from rules.instants import Listed, at, ids, reading, untold

HORIZON = 10 * MINUTE


def occurrences(made: Plan) -> list[datetime]:
    return [job.occurrence for job in made.jobs if job.occurrence is not None]


def after_plan(schedule: Schedule, made: Plan) -> Schedule:
    """The schedule as the store has it once the plan was applied."""
    return replace(
        schedule,
        planned_through=max(schedule.planned_through, made.planned_through),
        plan_at=made.plan_at,
        status=ScheduleStatus.FINISHED if made.finished else schedule.status,
    )


def every_minute(**fields: Any) -> Schedule:
    return a_schedule(recurrence=every("1m", start=NOW).spec(), **fields)


# What a plan reaches.


def test_a_plan_holds_everything_up_to_the_horizon_and_the_first_beyond() -> None:
    made = plan(every_minute(), NOW, HORIZON, ids)
    assert occurrences(made) == [NOW + n * MINUTE for n in range(1, 12)]
    assert made.planned_through == NOW + 11 * MINUTE
    assert made.plan_at == NOW + MINUTE


def test_a_rare_schedule_has_its_next_job_however_far_it_is() -> None:
    schedule = a_schedule(recurrence=rrule("DTSTART:20300101T120000Z\nRRULE:FREQ=YEARLY").spec())
    made = plan(schedule, NOW, HORIZON, ids)
    assert occurrences(made) == [datetime(2031, 1, 1, 12, tzinfo=UTC)]
    assert made.plan_at == datetime(2031, 1, 1, 12, tzinfo=UTC) - HORIZON


def test_a_schedule_that_is_planned_past_the_horizon_gets_nothing_more() -> None:
    schedule = after_plan(every_minute(), plan(every_minute(), NOW, HORIZON, ids))
    again = plan(schedule, NOW, HORIZON, ids)
    assert again.jobs == ()
    assert again.skips == ()
    assert again.planned_through == schedule.planned_through
    assert again.plan_at == schedule.plan_at


def test_a_schedule_that_starts_later_has_its_first_job_at_once() -> None:
    starts_at = NOW + 30 * 24 * HOUR
    schedule = every_minute(starts_at=starts_at, planned_through=first_watermark(NOW, starts_at))
    made = plan(schedule, NOW, HORIZON, ids)
    assert occurrences(made) == [starts_at]


def test_an_occurrence_exactly_at_starts_at_and_at_ends_at_counts() -> None:
    schedule = every_minute(starts_at=NOW + MINUTE, ends_at=NOW + 3 * MINUTE)
    made = plan(schedule, NOW, HORIZON, ids)
    assert occurrences(made) == [NOW + n * MINUTE for n in (1, 2, 3)]


def test_an_occurrence_at_the_instant_of_creation_is_not_made_up_for() -> None:
    assert first_watermark(NOW, None) == NOW
    assert first_watermark(NOW, NOW - HOUR) == NOW
    assert first_watermark(NOW, NOW + HOUR) == NOW + HOUR - TICK


def test_a_plan_that_is_full_goes_on_when_half_of_it_is_used_up() -> None:
    schedule = a_schedule(recurrence=every("0.5s", start=NOW).spec())
    made = plan(schedule, NOW, HORIZON, ids)
    assert len(made.jobs) == PLAN_JOBS_MAX
    assert made.planned_through == NOW + 500 * SECOND
    assert made.plan_at == NOW + 250 * SECOND


def test_a_long_catch_up_is_planned_in_bounded_pieces_that_follow_at_once() -> None:
    now = NOW + 2500 * MINUTE
    schedule = every_minute(catch_up=CatchUp.ALL)
    result = []
    for _ in range(3):
        assert schedule.plan_at is not None
        assert schedule.plan_at <= now
        made = plan(schedule, now, HORIZON, ids)
        assert len(made.jobs) <= PLAN_JOBS_MAX
        result += occurrences(made)
        schedule = after_plan(schedule, made)
    assert result == [NOW + n * MINUTE for n in range(1, 2512)]
    assert schedule.plan_at == NOW + 2501 * MINUTE


# The end of a rule.


def test_a_rule_with_a_count_is_finished_once_its_last_occurrence_is_due() -> None:
    text = "DTSTART:20300101T120100Z\nRRULE:FREQ=MINUTELY;COUNT=3"
    schedule = a_schedule(recurrence=rrule(text).spec())
    made = plan(schedule, NOW, HORIZON, ids)
    assert len(made.jobs) == 3
    assert not made.finished
    assert made.plan_at == NOW + 3 * MINUTE

    last = plan(after_plan(schedule, made), NOW + 3 * MINUTE, HORIZON, ids)
    assert last.jobs == ()
    assert last.finished
    assert last.plan_at is None


def test_a_rule_that_ended_during_an_outage_still_runs_its_latest() -> None:
    schedule = a_schedule(planned_through=NOW)
    made = plan(schedule, at(3600), HORIZON, ids, reading(at(60), at(120), at(180)))
    assert occurrences(made) == [at(180)]
    assert untold(made.skips) == (Skip(at(60), at(120), MISFIRED),)
    assert made.finished


# Catch-up: which late occurrences run.

LATE = [at(60), at(120), at(180)]
SOON = at(7200)

CASES = [
    # catch_up, grace, found at, run, skipped
    ("latest", None, 200, [180], (60, 120)),
    ("latest", None, 3600, [180], (60, 120)),
    ("all", None, 3600, [60, 120, 180], None),
    ("none", None, 3600, [], (60, 180)),
    ("none", None, 240, [180], (60, 120)),  # the default grace is at most a minute
    ("none", None, 240.000001, [], (60, 180)),
    ("latest", 90, 200, [120, 180], (60, 60)),
    ("latest", 3600, 200, [60, 120, 180], None),
    ("none", 20, 200, [180], (60, 120)),
    ("none", 19.999999, 200, [], (60, 180)),
    ("latest", 0, 200, [180], (60, 120)),
    ("all", 1, 200, [60, 120, 180], None),
]


@pytest.mark.parametrize(("catch_up", "grace", "found_at", "run", "skipped"), CASES)
def test_late_occurrences_run_or_are_skipped(
    catch_up: str,
    grace: float | None,
    found_at: float,
    run: list[int],
    skipped: tuple[int, int] | None,
) -> None:
    schedule = a_schedule(
        catch_up=CatchUp(catch_up), grace=None if grace is None else timedelta(seconds=grace)
    )
    made = plan(schedule, at(found_at), HORIZON, ids, reading(*LATE, SOON))
    assert occurrences(made) == [*map(at, run), SOON]
    wanted = () if skipped is None else (Skip(at(skipped[0]), at(skipped[1]), MISFIRED),)
    assert untold(made.skips) == wanted


@pytest.mark.parametrize(
    ("gap", "grace"), [(0.2, 1), (1, 1), (30, 30), (60, 60), (3600, 60), (None, 60)]
)
def test_the_grace_of_a_schedule_that_names_none_lasts_to_its_next(
    gap: float | None, grace: int
) -> None:
    instants = [at(60)] if gap is None else [at(60), at(60 + gap)]
    made = plan(a_schedule(), NOW, HORIZON, ids, reading(*instants))
    assert made.jobs[0].start_by == at(60) + timedelta(seconds=grace)


def test_a_late_job_may_start_however_late() -> None:
    made = plan(a_schedule(), at(3600), HORIZON, ids, reading(*LATE))
    assert [job.start_by for job in made.jobs] == [None]


def test_under_all_nothing_but_the_expiry_bounds_the_start() -> None:
    schedule = a_schedule(catch_up=CatchUp.ALL)
    assert plan(schedule, NOW, HORIZON, ids, reading(SOON)).jobs[0].start_by is None
    expiring = replace(schedule, expires_after=5 * SECOND)
    job = plan(expiring, NOW, HORIZON, ids, reading(SOON)).jobs[0]
    assert job.start_by == job.expires_at == SOON + 5 * SECOND


def test_the_earlier_of_grace_and_expiry_bounds_the_start() -> None:
    schedule = a_schedule(grace=HOUR, expires_after=5 * SECOND)
    job = plan(schedule, NOW, HORIZON, ids, reading(SOON)).jobs[0]
    assert job.start_by == SOON + 5 * SECOND


def test_a_job_carries_what_its_schedule_says() -> None:
    schedule = a_schedule(queue="mail", priority=3, timeout=MINUTE, labels={"a": "b"})
    job = plan(schedule, NOW, HORIZON, ids).jobs[0]
    assert (job.queue, job.priority, job.timeout, job.labels) == ("mail", 3, MINUTE, {"a": "b"})
    assert (job.schedule_id, job.occurrence) == (schedule.id, NOW + HOUR)


# Jitter.


@given(st.integers(0, 10**6), st.integers(1, 3600))
def test_jitter_is_the_same_at_every_reading_and_within_its_bound(second: int, bound: int) -> None:
    schedule = a_schedule(jitter=timedelta(seconds=bound))
    jitter = jitter_of(schedule, at(second))
    assert jitter == jitter_of(schedule, at(second))
    assert timedelta() <= jitter < timedelta(seconds=bound)


def test_jitter_spreads_schedules_and_occurrences() -> None:
    schedules = [a_schedule(jitter=MINUTE) for _ in range(50)]
    assert len({jitter_of(schedule, NOW) for schedule in schedules}) == 50
    assert len({jitter_of(schedules[0], at(n)) for n in range(50)}) == 50


def test_jitter_moves_the_due_time_and_the_bound_but_not_the_occurrence() -> None:
    schedule = a_schedule(jitter=MINUTE, grace=SECOND)
    job = plan(schedule, NOW, HORIZON, ids).jobs[0]
    assert job.occurrence == NOW + HOUR
    assert job.due_at == NOW + HOUR + jitter_of(schedule, NOW + HOUR)
    assert job.start_by == job.due_at + SECOND


# Changes, resumption, by hand.


def test_a_changed_rule_is_planned_anew_from_now() -> None:
    schedule = every_minute(planned_through=NOW + HOUR)
    made = replan(schedule, NOW, HORIZON, ids)
    assert occurrences(made) == [NOW + n * MINUTE for n in range(1, 12)]
    assert untold(made.skips) == ()


def test_what_a_pause_passed_over_is_one_skip_with_its_reason() -> None:
    schedule = every_minute(planned_through=NOW)
    made = replan(schedule, NOW + 5 * MINUTE, HORIZON, ids, passed="paused")
    assert untold(made.skips) == (Skip(NOW + MINUTE, NOW + 5 * MINUTE, "paused"),)
    assert occurrences(made)[0] == NOW + 6 * MINUTE


def test_a_pause_that_passed_over_nothing_leaves_no_skip() -> None:
    made = replan(every_minute(), NOW + 30 * SECOND, HORIZON, ids, passed="paused")
    assert untold(made.skips) == ()


def test_a_job_by_hand_is_due_now_and_outside_the_calendar() -> None:
    job = triggered_job(a_schedule(), NOW, ids(1)[0])
    assert (job.due_at, job.occurrence, job.start_by) == (NOW, None, None)


PUTS_OFF = Condition(text="job.attempt > 1", postpone=MINUTE)


@pytest.mark.parametrize(
    ("condition", "expires_at"),
    [(PUTS_OFF, NOW + HOUR), (replace(PUTS_OFF, postpone=None), None), (None, None)],
)
def test_a_job_by_hand_expires_only_where_its_condition_puts_it_off(
    condition: Condition | None, expires_at: datetime | None
) -> None:
    schedule = every_minute(condition=condition, expires_after=HOUR)
    made = [
        triggered_job(schedule, NOW, ids(1)[0]),
        *backfill_jobs(schedule, NOW - DAY, NOW - DAY + MINUTE, 10, NOW, ids),
    ]
    assert {(job.due_at, job.start_by, job.expires_at) for job in made} == {(NOW, None, expires_at)}


def test_the_expiry_of_a_job_by_hand_counts_from_the_opening_of_its_window() -> None:
    opening = NOW + 2 * HOUR
    window = Window(start=opening.hour * 60 + opening.minute, end=24 * 60 - 1, timezone="UTC")
    schedule = every_minute(condition=PUTS_OFF, expires_after=HOUR, window=(window,))
    job = triggered_job(schedule, NOW, ids(1)[0])
    assert (job.due_at, job.expires_at) == (opening, opening + HOUR)


def test_a_backfill_takes_both_ends_and_never_the_future() -> None:
    jobs = backfill_jobs(every_minute(), NOW + MINUTE, NOW + HOUR, 100, NOW + 3 * MINUTE, ids)
    assert [job.occurrence for job in jobs] == [NOW + n * MINUTE for n in (1, 2, 3)]
    assert len(backfill_jobs(every_minute(), NOW, NOW + HOUR, 2, NOW + HOUR, ids)) == 2


def test_only_an_active_schedule_has_a_next_occurrence() -> None:
    schedule = every_minute()
    assert next_at(schedule, NOW) == NOW + MINUTE
    assert next_at(replace(schedule, status=ScheduleStatus.PAUSED), NOW) is None
    assert next_at(replace(schedule, ends_at=NOW + 59 * SECOND), NOW) is None


# Against a brute-force list, under outages.


def span(low: float, high: float) -> Any:
    return st.integers(int(low * 10), int(high * 10)).map(lambda n: timedelta(seconds=n / 10))


INSTANTS = st.lists(st.integers(1, 6000).map(lambda n: at(n / 10)), max_size=40, unique=True)
WAKES = st.lists(span(0.1, 120), min_size=1, max_size=12)
BOUND = st.none() | st.integers(0, 600).map(at)


@given(
    instants=INSTANTS,
    gaps=WAKES,
    horizon=span(0, 60),
    catch_up=st.sampled_from(CatchUp),
    grace=st.none() | span(0, 100),
    starts_at=BOUND,
    ends_at=BOUND,
    jobs_max=st.integers(1, 8),
)
def test_every_occurrence_has_exactly_one_disposition(
    instants: list[datetime],
    gaps: list[timedelta],
    horizon: timedelta,
    catch_up: CatchUp,
    grace: timedelta | None,
    starts_at: datetime | None,
    ends_at: datetime | None,
    jobs_max: int,
) -> None:
    listed = Listed(instants)
    schedule = a_schedule(
        catch_up=catch_up,
        grace=grace,
        starts_at=starts_at,
        ends_at=ends_at,
        planned_through=first_watermark(NOW, starts_at),
    )
    wanted = [
        instant
        for instant in listed.instants
        if instant > NOW
        and (starts_at is None or instant >= starts_at)
        and (ends_at is None or instant <= ends_at)
    ]
    dealt: list[datetime] = []
    now = NOW

    def read(_spec: object, _budget: object = None, /) -> Any:
        return listed

    with patch.object(plans, "PLAN_JOBS_MAX", jobs_max):
        for gap in gaps:
            now += gap
            while (
                schedule.status is ScheduleStatus.ACTIVE
                and schedule.plan_at is not None
                and schedule.plan_at <= now
            ):
                made = plan(schedule, now, horizon, ids, read)
                check_lateness(made, schedule, wanted, now)
                dealt += occurrences(made)
                for skip in made.skips:
                    dealt += [one for one in wanted if skip.first <= one <= skip.last]
                    assert {skip.first, skip.last} <= set(wanted)
                moved = after_plan(schedule, made)
                assert moved.planned_through >= schedule.planned_through
                schedule = moved
            through = schedule.planned_through
            assert sorted(dealt) == [one for one in wanted if one <= through]
            check_reach(dealt, wanted, now, horizon, jobs_max)


def check_lateness(made: Plan, schedule: Schedule, wanted: list[datetime], now: datetime) -> None:
    late = [occurrence for occurrence in occurrences(made) if occurrence <= now]
    if schedule.catch_up is CatchUp.ALL:
        assert untold(made.skips) == ()
        return
    if schedule.grace is None:
        assert len(late) <= 1
        return
    misfired = [occurrence for occurrence in late if occurrence < now - schedule.grace]
    assert len(misfired) <= (schedule.catch_up is CatchUp.LATEST)
    if misfired:
        assert misfired == [max(occurrence for occurrence in wanted if occurrence <= now)]


def check_reach(
    dealt: list[datetime], wanted: list[datetime], now: datetime, horizon: timedelta, jobs_max: int
) -> None:
    """Nothing up to now is open, and the next occurrence beyond the horizon is there."""
    left = [one for one in wanted if one not in dealt]
    assert all(one > now for one in left)
    if left:
        ahead = [one for one in dealt if one > now]
        is_full = len(dealt) >= jobs_max
        assert any(one > now + horizon for one in ahead) or (is_full and ahead)


@given(instants=INSTANTS, found_at=st.integers(0, 700).map(at), catch_up=st.sampled_from(CatchUp))
def test_planning_twice_is_planning_once(
    instants: list[datetime], found_at: datetime, catch_up: CatchUp
) -> None:
    schedule = a_schedule(catch_up=catch_up)
    first = plan(schedule, found_at, MINUTE, ids, reading(*instants))
    again = plan(schedule, found_at, MINUTE, ids, reading(*instants))
    assert occurrences(first) == occurrences(again)
    assert first.skips == again.skips
    if not first.finished:
        then = plan(after_plan(schedule, first), found_at, MINUTE, ids, reading(*instants))
        assert then.jobs == ()
        assert then.skips == ()


@given(
    step=st.integers(1, 100_000),
    seconds=st.integers(1, 10**7),
    catch_up=st.sampled_from([CatchUp.LATEST, CatchUp.NONE]),
)
def test_an_outage_of_any_length_costs_a_handful_of_questions(
    step: int, seconds: int, catch_up: CatchUp
) -> None:
    request = []

    class Counted:
        def __init__(self, inner: Recurrence) -> None:
            self.inner = inner

        def after(self, instant: datetime) -> datetime:
            request.append(instant)
            return self.inner.after(instant)

        def before(self, instant: datetime) -> datetime:
            request.append(instant)
            return self.inner.before(instant)

    schedule = a_schedule(recurrence=every(step, start=NOW).spec(), catch_up=catch_up)

    def read(spec: Any, _budget: object = None, /) -> Any:
        return Counted(compile_spec(spec))

    plan(schedule, at(seconds), timedelta(), ids, read)
    assert len(request) < 20
