"""Occurrences that new zone data move: each runs once, or is a skip with its reason."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onbeat.model.plan import Plan, Skip
from onbeat.model.schedule import CatchUp, Schedule
from onbeat.rules.plans import MISFIRED
from onbeat.rules.zone_changes import CAME_BEFORE, Planned, plan_moved
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, TICK, a_schedule
from rules.instants import Listed, ids, reading, untold

HORIZON = 10 * MINUTE
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0)
TEN = MIDNIGHT + 10 * HOUR


def days(*times: timedelta) -> list[datetime]:
    return [MIDNIGHT + n * DAY + time for n in range(-4, 5) for time in sorted(times)]


def waiting_at(now: datetime, old: Sequence[datetime]) -> Planned:
    """What a planner that is up to date has planned and decided with the older data."""
    coming = [at for at in old if at > now]
    near = sum(at <= now + HORIZON for at in coming)
    return Planned(coming[: near + 1], Listed(old).before(now + TICK))


def moved(
    schedule: Schedule, now: datetime, old: Sequence[datetime], new: Sequence[datetime]
) -> Plan:
    _, made = plan_moved(schedule, waiting_at(now, old), now, HORIZON, ids, reading(*new))
    assert made is not None
    return made


def occurrences(made: Plan) -> list[datetime | None]:
    return [job.occurrence for job in made.jobs]


def schedule_of(catch_up: CatchUp) -> Schedule:
    return a_schedule(catch_up=catch_up, updated_at=MIDNIGHT - 9 * DAY)


@pytest.mark.parametrize("since", [-4, 0])
@pytest.mark.parametrize(
    ("catch_up", "runs", "skips"),
    [
        (CatchUp.ALL, [-1], []),
        (CatchUp.LATEST, [-1], []),
        (CatchUp.NONE, [], [-1]),
    ],
)
def test_an_occurrence_whose_time_has_passed_is_late(
    since: int, catch_up: CatchUp, runs: list[int], skips: list[int]
) -> None:
    """Ten o'clock was to come in half an hour, and was half an hour ago by the new data."""
    now, old = TEN - 30 * MINUTE, days(10 * HOUR)
    new = [at - HOUR if at >= MIDNIGHT + since * DAY else at for at in old]
    made = moved(schedule_of(catch_up), now, old, new)
    assert occurrences(made) == [*(TEN + n * HOUR for n in runs), TEN + DAY - HOUR]
    late = [TEN + n * HOUR for n in skips]
    assert untold(made.skips) == tuple(Skip(at, at, MISFIRED) for at in late)
    assert [skip.event is not None for skip in made.skips] == [True] * len(late)


@pytest.mark.parametrize("passed", [30 * MINUTE, 90 * MINUTE])
def test_a_time_of_day_that_has_run_does_not_run_again(passed: timedelta) -> None:
    """Ten o'clock came, and comes or came an hour later by the new data."""
    old = days(10 * HOUR)
    made = moved(schedule_of(CatchUp.ALL), TEN + passed, old, [at + HOUR for at in old])
    assert occurrences(made) == [TEN + DAY + HOUR]
    told = [Skip(TEN + HOUR, TEN + HOUR, CAME_BEFORE)] if passed < HOUR else []
    assert untold(made.skips) == tuple(told)


def test_what_lies_before_a_schedule_was_made_stays_out() -> None:
    """It was made at nine, for eight and ten o'clock; these were half an hour ago, and before."""
    now, old = TEN - 30 * MINUTE, days(8 * HOUR, 10 * HOUR)
    made_at = TEN - 50 * MINUTE
    schedule = a_schedule(catch_up=CatchUp.ALL, updated_at=made_at)
    planned = waiting_at(now, old)._replace(decided=None)
    _, made = plan_moved(schedule, planned, now, HORIZON, ids, reading(*(at - HOUR for at in old)))
    assert made is not None
    assert occurrences(made) == [TEN - HOUR, MIDNIGHT + DAY + 7 * HOUR]


def test_what_stays_at_its_instant_makes_no_plan() -> None:
    planned = waiting_at(TEN - 30 * MINUTE, days(10 * HOUR))
    new = reading(*days(10 * HOUR))
    assert plan_moved(a_schedule(), planned, TEN - 30 * MINUTE, HORIZON, ids, new) == (0, None)


def test_more_late_occurrences_than_a_plan_holds_are_skipped_with_a_reason() -> None:
    old = [TEN + n * SECOND for n in range(1_500)]
    now = TEN - SECOND
    schedule = schedule_of(CatchUp.ALL)
    planned = Planned(old[:700], None)
    made = plan_moved(schedule, planned, now, HORIZON, ids, reading(*(at - HOUR for at in old)))[1]
    assert made is not None
    left = (TEN - HOUR + 1_000 * SECOND, TEN - HOUR + 1_499 * SECOND)
    assert untold(made.skips) == (Skip(*left, MISFIRED),)
    assert len(made.jobs) == 1_000
    assert made.planned_through >= now


@given(
    st.sets(st.integers(0, 95), min_size=1, max_size=5),
    st.sampled_from([-60, -30, 30, 60]),
    st.integers(0, 24 * 60 - 1),
    st.booleans(),
)
def test_each_time_of_day_runs_once(
    quarters: set[int], minutes: int, passed: int, is_new_today: bool
) -> None:
    """The new data move all days, or those from today on."""
    way, now = minutes * MINUTE, MIDNIGHT + passed * MINUTE
    assume(all(abs(b - a) * 15 != abs(minutes) for a, b in combinations(quarters, 2)))
    old = days(*(n * 15 * MINUTE for n in quarters))
    new = [at + way if at >= MIDNIGHT or not is_new_today else at for at in old]
    schedule = schedule_of(CatchUp.ALL)
    planned = waiting_at(now, old)
    _, made = plan_moved(schedule, planned, now, HORIZON, ids, reading(*new))
    assert made is not None or set(planned.coming) <= set(new)
    if made is None:
        return
    planned_jobs = set(occurrences(made))
    for before, after in zip(old, new, strict=True):
        runs = (before <= now) + (after in planned_jobs) + (after > made.planned_through)
        assert runs == 1
