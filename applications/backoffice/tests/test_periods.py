"""Months and years of a zone."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backoffice.periods import (
    Period,
    anchor_day,
    month_before,
    parse,
    period_ending,
    year_before,
    year_ending,
)

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # midnights are skipped
    "America/Havana",  # and come twice
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",  # a whole day was skipped
    "Pacific/Kiritimati",
]
INSTANTS = st.datetimes(datetime(1995, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
ANCHORS = st.dates(date(1996, 1, 1), date(1996, 12, 31))
"""With Feb 29."""


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def test_a_month_is_the_last_that_has_ended() -> None:
    october = Period(at("2026-10-01"), at("2026-11-01"), "2026-10")
    assert month_before(at("2026-11-01"), "UTC") == october
    assert month_before(at("2026-11-30T23:59:59"), "UTC") == october
    assert october.date == "2026-10-01"
    assert month_before(at("2027-01-01"), "UTC").name == "2026-12"


def test_a_year_is_the_last_that_has_ended() -> None:
    year = Period(at("2026-01-01"), at("2027-01-01"), "2026")
    assert year_before(at("2027-01-01"), "UTC") == year
    assert year.date == "2026-01-01"


def test_s1_d26_a_month_of_31_days_overflows_into_none() -> None:
    """The old system took Mar 31 less a month for Mar 3."""
    february = month_before(at("2026-03-31"), "UTC")
    assert (february.begin, february.end) == (at("2026-02-01"), at("2026-03-01"))


def test_s1_d25_bounds_are_midnights_of_the_zone_in_utc() -> None:
    for zone, begin, end in [
        ("Pacific/Auckland", "2026-09-30T11:00", "2026-10-31T11:00"),
        ("America/New_York", "2026-10-01T04:00", "2026-11-01T04:00"),
        ("Europe/Berlin", "2026-09-30T22:00", "2026-10-31T23:00"),
    ]:
        assert parse("2026-10", "MONTHLY", zone) == Period(at(begin), at(end), "2026-10")


def test_a_midnight_that_is_skipped_stands_for_the_instant_after_it() -> None:
    """In Cairo the last Friday of April begins at one; in Apia 2011-12-30 has no instant."""
    period = period_ending(at("2026-04-25"), 24, "Africa/Cairo")
    assert period.end.astimezone(ZoneInfo("Africa/Cairo")) == at("2026-04-24T01:00", "Africa/Cairo")
    skipped = period_ending(at("2012-01-15"), 30, "Pacific/Apia")
    assert skipped.end == at("2011-12-31", "Pacific/Apia")


def test_s1_d18_months_by_anniversary_end_on_its_day_or_on_the_last() -> None:
    names, end = [], at("2026-01-31")
    for _ in range(4):
        period = period_ending(end, 31, "UTC")
        names.append((period.name, period.end))
        end = month_after(period, "UTC").end
    assert names == [
        ("2025-12-31@31", at("2026-01-31")),
        ("2026-01-31@31", at("2026-02-28")),
        ("2026-02-28@31", at("2026-03-31")),
        ("2026-03-31@31", at("2026-04-30")),
    ]


def month_after(period: Period, zone: str) -> Period:
    """The next one by anniversary."""
    return period_ending(period.end + timedelta(days=32), int(period.name[-2:]), zone)


def test_s1_d18_years_by_anniversary_of_a_leap_day() -> None:
    assert year_ending(at("2025-02-27T23:59"), 2, 29, "UTC").name == "2023-02-28@29"
    assert year_ending(at("2025-02-28"), 2, 29, "UTC") == Period(
        at("2024-02-29"), at("2025-02-28"), "2024-02-29@29"
    )
    assert year_ending(at("2028-02-29"), 2, 29, "UTC").begin == at("2027-02-28")


@pytest.mark.parametrize(
    ("end", "known", "day"),
    [
        ("2026-02-28", [31], 31),
        ("2028-02-28", [31], 28),
        ("2026-04-30", [29], 30),
        ("2026-04-30", [5, 31], 31),
        ("2026-04-30", [], 30),
        ("2026-04-15", [31], 15),
    ],
)
def test_the_last_day_of_a_month_may_stand_for_a_later_one(
    end: str, known: list[int], day: int
) -> None:
    assert anchor_day(date.fromisoformat(end), *known) == day


@given(when=INSTANTS, zone=st.sampled_from(ZONES))
def test_s1_d26_calendar_months_tile_time(when: datetime, zone: str) -> None:
    period = month_before(when, zone)
    assert period.begin < period.end <= when
    months = [month_before(when + timedelta(days=25 * n), zone) for n in range(40)]
    in_turn = unrepeated(months)
    assert all(one.end == other.begin for one, other in pairwise(in_turn))
    assert len(in_turn) > 30


@given(when=INSTANTS, zone=st.sampled_from(ZONES), anchor=ANCHORS)
def test_s1_d18_s1_d26_anniversaries_tile_time(when: datetime, zone: str, anchor: date) -> None:
    months = [period_ending(when + timedelta(days=25 * n), anchor.day, zone) for n in range(40)]
    years = [
        year_ending(when + timedelta(days=300 * n), anchor.month, anchor.day, zone)
        for n in range(8)
    ]
    for periods in (months, years):
        assert periods[0].end <= when
        in_turn = unrepeated(periods)
        assert all(one.begin < one.end == other.begin for one, other in pairwise(in_turn))
        assert len({period.date for period in in_turn}) == len(in_turn)


def unrepeated(periods: list[Period]) -> list[Period]:
    return list(dict.fromkeys(periods))


@given(when=INSTANTS, zone=st.sampled_from(ZONES), anchor=ANCHORS)
def test_no_period_ends_between_the_last_one_and_the_instant(
    when: datetime, zone: str, anchor: date
) -> None:
    ended = period_ending(when, anchor.day, zone)
    assert ended.end <= when < month_after(ended, zone).end
    assert month_before(when, zone).end <= when
    assert month_before(when, zone).name < f"{when.astimezone(ZoneInfo(zone)):%Y-%m}"


@given(when=INSTANTS, zone=st.sampled_from(ZONES), anchor=ANCHORS)
def test_a_name_with_its_cycle_stands_for_the_period(
    when: datetime, zone: str, anchor: date
) -> None:
    for cycle, period in [
        ("MONTHLY", month_before(when, zone)),
        ("ANNUAL", year_before(when, zone)),
        ("MONTHLY", period_ending(when, anchor.day, zone)),
        ("ANNUAL", year_ending(when, anchor.month, anchor.day, zone)),
    ]:
        assert parse(period.name, cycle, zone) == period
        assert period.begin == at(period.date, zone)


def test_the_minute_of_a_debug_run_names_the_month_before_it() -> None:
    assert parse("2026-11-01-00:05", "MONTHLY", "Asia/Tokyo").name == "2026-10"
    assert parse("2026-10-31-23:59", "MONTHLY", "Asia/Tokyo").name == "2026-09"


@pytest.mark.parametrize(
    ("name", "cycle"),
    [
        ("", "MONTHLY"),
        ("2026", "MONTHLY"),
        ("2026-13", "MONTHLY"),
        ("2026-10", "ANNUAL"),
        ("26", "ANNUAL"),
        ("0001", "ANNUAL"),
        ("9999", "ANNUAL"),
        ("9999-12", "MONTHLY"),
        ("2026-02-27@31", "MONTHLY"),
        ("2026-02-30@30", "MONTHLY"),
        ("2026-02-28@32", "MONTHLY"),
        ("2026-02-28@x", "MONTHLY"),
    ],
)
def test_a_name_of_another_form_is_refused(name: str, cycle: str) -> None:
    with pytest.raises(ValueError, match=f"names no {cycle} period: give YYYY-MM"):
        parse(name, cycle, "Asia/Tokyo")


def test_another_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="a cycle is MONTHLY or ANNUAL, not 'annual'"):
        parse("2026", "annual", "UTC")
