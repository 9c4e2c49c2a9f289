"""When windows open, in every zone and on the days on which clocks are turned."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onbeat.model.condition import Window
from onbeat.model.job import JobState
from onbeat.model.outcome import Failed, Lost, Snoozed
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.recurrence import Budget
from onbeat.recurrence.instants import from_us
from onbeat.recurrence.zones import known_zones, zone_named
from onbeat.rules.calendar import LAST
from onbeat.rules.forecast import forecast
from onbeat.rules.plans import plan
from onbeat.rules.settlement import settle
from onbeat.rules.windows import opening_at_or_after
from onbeat.testing.build import NOW, a_job, a_schedule, an_id

MINUTE = timedelta(minutes=1)
BERLIN = "Europe/Berlin"
WORK = Window(start=9 * 60, end=18 * 60, timezone=BERLIN, days=(0, 1, 2, 3, 4))
NIGHT = Window(start=22 * 60, end=6 * 60, timezone=BERLIN)
EARLY = Window(start=2 * 60 + 15, end=2 * 60 + 45, timezone=BERLIN)
ZONES = [name for name in known_zones() if not name.startswith(("posix/", "right/"))]


def berlin(text):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "at", "opens"),
    [
        (WORK, "2026-11-23T09:00", "2026-11-23T09:00"),
        (WORK, "2026-11-23T17:59:59.999999", "2026-11-23T17:59:59.999999"),
        (WORK, "2026-11-23T18:00", "2026-11-24T09:00"),
        (WORK, "2026-11-23T08:59:59.999999", "2026-11-23T09:00"),
        (WORK, "2026-11-27T18:00", "2026-11-30T09:00"),
        (NIGHT, "2026-11-23T05:59", "2026-11-23T05:59"),
        (NIGHT, "2026-11-23T06:00", "2026-11-23T22:00"),
        (Window(0, 0, BERLIN), "2026-11-23T13:00", "2026-11-23T13:00"),
        (Window(0, 1440, BERLIN), "2026-11-23T13:00", "2026-11-23T13:00"),
        (Window(540, 540, BERLIN, (0,)), "2026-11-24T08:00", "2026-11-24T08:00"),
        (Window(540, 540, BERLIN, (0,)), "2026-11-24T09:00", "2026-11-30T09:00"),
        # Friday's night lasts until Saturday's morning.
        (Window(1320, 360, BERLIN, (4,)), "2026-11-28T05:00", "2026-11-28T05:00"),
        (Window(1320, 360, BERLIN, (4,)), "2026-11-28T23:00", "2026-12-04T22:00"),
    ],
)
def test_opening(window, at, opens):
    assert opening_at_or_after([window], berlin(at)) == berlin(opens)


@pytest.mark.parametrize(
    ("window", "at", "opens"),
    [
        # Clocks jump from 02:00 to 03:00 (01:00 UTC): the window does not open on that day.
        (EARLY, "2026-03-29T00:30", "2026-03-30T00:15"),
        (Window(150, 240, BERLIN), "2026-03-29T00:30", "2026-03-29T01:00"),
        # Clocks are turned back from 03:00 to 02:00 (01:00 UTC): it opens twice.
        (EARLY, "2026-10-25T00:00", "2026-10-25T00:15"),
        (EARLY, "2026-10-25T00:45", "2026-10-25T01:15"),
        (EARLY, "2026-10-25T01:45", "2026-10-26T01:15"),
    ],
)
def test_opening_on_a_day_on_which_clocks_are_turned(window, at, opens):
    assert opening_at_or_after([window], utc(at)) == utc(opens)


def test_no_window_is_always_open():
    now = utc("2026-11-23T12:00")
    assert opening_at_or_after((), now) is now


def test_the_nearest_of_several():
    now = utc("2026-11-23T18:00")
    assert opening_at_or_after([WORK, NIGHT], now) == utc("2026-11-23T21:00")


def test_no_opening_before_the_end_of_time():
    window = Window(start=60, end=120, timezone="UTC", days=(LAST.weekday(),))
    assert opening_at_or_after([window], LAST.replace(hour=3)) == LAST


minutes = st.integers(0, 24 * 60 - 1)
windows = st.builds(
    Window,
    start=minutes,
    end=st.integers(0, 24 * 60),
    timezone=st.sampled_from(ZONES),
    days=st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
)


def is_open(window, instant):
    """The same by the standard library, from what a wall clock reads."""
    wall = instant.astimezone(ZoneInfo(window.timezone))
    minute = wall.hour * 60 + wall.minute
    today, yesterday = wall.weekday(), (wall.weekday() - 1) % 7
    if window.end > window.start:
        return today in window.days and window.start <= minute < window.end
    late, early = minute >= window.start, minute < window.end
    return (late and today in window.days) or (early and yesterday in window.days)


@st.composite
def turns(draw, window):
    """An instant near a turn of the window's clocks, or any."""
    zone = zone_named(window.timezone)
    starts = [start for start in zone.starts if 0 < start < 2**32]
    at = draw(st.sampled_from(starts)) if starts else 1_700_000_000
    return from_us((at + draw(st.integers(-200_000, 200_000))) * 1_000_000)


@given(st.data(), windows)
def test_a_window_opens_when_the_wall_clock_says_so(data, window):
    instant = data.draw(turns(window))
    opening = opening_at_or_after([window], instant)
    assert opening >= instant
    assert is_open(window, opening)
    assert (opening == instant) == is_open(window, instant)
    # Nothing between is open; a step of the clock lasts at least a minute.
    step = max((opening - instant) / 40, timedelta(seconds=29))
    at = instant
    while at < opening:
        assert not is_open(window, at)
        at += step
    if opening > instant:
        assert not is_open(window, opening - timedelta(microseconds=1))


@given(st.data(), st.lists(windows, min_size=1, max_size=4))
def test_several_windows_open_when_one_of_them_does(data, several):
    instant = data.draw(turns(several[0]))
    opening = opening_at_or_after(several, instant)
    assert opening == min(opening_at_or_after([one], instant) for one in several)
    assume(opening < LAST)
    assert opening_at_or_after(several, opening) == opening


def test_the_zones_are_all_of_them():
    assert set(ZONES) <= zoneinfo.available_timezones()
    assert len(ZONES) > 400


def test_a_forecast_counts_the_starts():
    schedule = a_schedule(
        recurrence=RecurrenceSpec(kind="cron", text="0 * * * *", tz="UTC"),
        window=(Window(start=8 * 60, end=10 * 60, timezone="UTC"),),
    )
    first = utc("2026-11-23T00:00")
    counted = forecast([schedule], first, first + timedelta(hours=24), Budget(100_000))
    # Those of the evening start on the next day.
    assert counted.hours == {utc("2026-11-23T08:00"): 9, utc("2026-11-23T09:00"): 1}


def test_the_grace_of_an_occurrence_begins_at_its_opening():
    schedule = a_schedule(
        window=(Window(start=18 * 60, end=19 * 60, timezone="UTC"),),
        expires_after=timedelta(minutes=2),
    )
    planned = plan(schedule, NOW, timedelta(minutes=10), lambda count: [an_id()] * count)
    (job,) = planned.jobs
    assert (job.occurrence.hour, job.due_at.hour) == (13, 18)
    assert job.expires_at == job.start_by == job.occurrence + timedelta(minutes=2)
    lasting = msgspec.structs.replace(schedule, expires_after=None)
    (job,) = plan(lasting, NOW, timedelta(minutes=10), lambda count: [an_id()] * count).jobs
    assert job.start_by == job.due_at + timedelta(minutes=1)


@pytest.mark.parametrize("outcome", [Failed("no"), Snoozed(MINUTE), Lost("died")])
def test_a_job_that_waits_again_waits_for_its_window(outcome):
    window = Window(start=18 * 60, end=19 * 60, timezone="UTC")
    running = a_job(state=JobState.RUNNING, attempt=1, window=(window,), started_at=NOW)
    again = settle(running, outcome, NOW, 0.5)
    assert (again.state, again.due_at) == (JobState.WAITING, NOW.replace(hour=18))
