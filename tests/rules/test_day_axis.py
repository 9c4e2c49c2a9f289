"""The axis of a timeline, in zones that turn their clocks."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Invalid
from onbeat.model.timeline import TimelineSpan
from onbeat.recurrence.zones import zone_named
from onbeat.rules.day_axis import DayAxis, axis_of, clock_changes

NOON = datetime(2026, 3, 2, 12, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Cairo",
    "Pacific/Chatham",
    "America/Santiago",
    "Asia/Beirut",
)


def day(text: str, zone: str = "Europe/Berlin", span: TimelineSpan = TimelineSpan.DAY) -> DayAxis:
    return axis_of(span, date.fromisoformat(text), zone_named(zone), NOON)


@pytest.mark.parametrize(
    ("text", "zone", "hours"),
    [
        ("2026-03-28", "Europe/Berlin", 24),
        ("2026-03-29", "Europe/Berlin", 23),
        ("2026-10-25", "Europe/Berlin", 25),
        ("2026-10-04", "Australia/Lord_Howe", 23.5),
        ("2026-09-06", "America/Santiago", 23),
        ("2026-03-29", "UTC", 24),
    ],
)
def test_a_day_has_the_hours_of_its_zone(text: str, zone: str, hours: float) -> None:
    axis = day(text, zone)
    assert (axis.last - axis.first) / HOUR == hours
    assert axis.first.astimezone(ZoneInfo(zone)).date().isoformat() == text


def test_a_day_begins_later_where_its_midnight_does_not_exist() -> None:
    axis = day("2026-09-06", "America/Santiago")
    assert f"{axis.first.astimezone(ZoneInfo('America/Santiago')):%H:%M}" == "01:00"


def test_a_day_that_a_zone_left_out_is_the_one_after_it() -> None:
    left_out, after = (day(text, "Pacific/Apia") for text in ("2011-12-30", "2011-12-31"))
    assert left_out == after
    assert day("2011-12-29", "Pacific/Apia").last == after.first


@pytest.mark.parametrize("text", ["1899-12-31", "9991-01-01"])
def test_a_day_too_far_away_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="from the years 1900 to 9990"):
        day(text)
    at = datetime.fromisoformat(f"{text}T00:00:00Z")
    with pytest.raises(Invalid, match="from the years"):
        axis_of(TimelineSpan.HOURS, at, zone_named("UTC"), NOON)


@pytest.mark.parametrize("text", ["1900-01-01", "9990-12-31"])
def test_the_first_and_the_last_day_are_drawn(text: str) -> None:
    for span in TimelineSpan:
        assert day(text, span=span).edges()


def test_without_a_day_the_axis_is_around_now() -> None:
    def around(span: TimelineSpan) -> tuple[str, str]:
        axis = axis_of(span, None, zone_named("UTC"), NOON)
        return f"{axis.first:%d %H:%M}", f"{axis.last:%d %H:%M}"

    assert around(TimelineSpan.HOURS) == ("02 09:00", "02 15:00")
    assert around(TimelineSpan.DAY) == ("02 00:00", "03 00:00")
    assert around(TimelineSpan.WEEK) == ("27 00:00", "06 00:00")


def test_an_instant_begins_six_hours_and_names_its_day_otherwise() -> None:
    berlin, at = zone_named("Europe/Berlin"), datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    assert axis_of(TimelineSpan.HOURS, at, berlin, NOON).first == at
    for span in (TimelineSpan.DAY, TimelineSpan.WEEK):
        assert axis_of(span, at, berlin, NOON).first == day("2026-03-29", span=span).first


def test_a_change_of_the_clock_is_a_gap_or_a_fold() -> None:
    berlin = zone_named("Europe/Berlin")
    (gap,) = clock_changes(day("2026-03-29"), berlin)
    assert gap.is_gap
    assert (f"{gap.before:%H:%M}", f"{gap.after:%H:%M}") == ("02:00", "03:00")
    (fold,) = clock_changes(day("2026-10-25"), berlin)
    assert not fold.is_gap
    assert (f"{fold.before:%H:%M}", f"{fold.after:%H:%M}") == ("03:00", "02:00")
    assert clock_changes(day("2026-03-28"), berlin) == []
    assert clock_changes(day("2026-03-29", "UTC"), zone_named("UTC")) == []


def test_a_change_at_the_start_is_of_this_day_only() -> None:
    """In Beirut clocks are turned at midnight: the new day begins with the change."""
    zone = zone_named("Asia/Beirut")
    assert clock_changes(day("2026-03-29", "Asia/Beirut"), zone) == []
    assert clock_changes(day("2026-03-28", "Asia/Beirut"), zone) == []


days = st.dates(date(1971, 1, 2), date(2099, 12, 20))


@given(days, st.sampled_from(ZONES), st.sampled_from(TimelineSpan), st.datetimes())
def test_edges_cover_the_axis_and_now_is_one_of_them(
    of: date, zone: str, span: TimelineSpan, naive: datetime
) -> None:
    now = naive.replace(tzinfo=UTC)
    axis = axis_of(span, of, zone_named(zone), now)
    edges = axis.edges()
    assert (edges[0], edges[-1]) == (axis.first, axis.last)
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= 172
    assert (axis.now in edges) or not axis.first < now < axis.last
    assert all(b - a <= axis.width for a, b in pairwise(edges))
    assert axis.clipped(now) in (now, axis.first, axis.last)


@given(days, st.sampled_from(ZONES))
def test_days_follow_one_another_without_a_gap(of: date, zone: str) -> None:
    first, second = (day(str(one), zone) for one in (of, of + timedelta(days=1)))
    assert first.last == second.first
