"""Bounds and refusals of recurrences: each names what is wrong, and what is allowed."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import (
    anchor,
    business_days,
    compile_spec,
    cron,
    daily,
    every,
    function,
    guess,
    once,
    parse_recurrence,
    phrase,
    rrule,
    union,
    weekly,
    without_idle_zone,
)
from onbeat.recurrence.choices import ClockTimes
from onbeat.recurrence.compile import MEMBERS_MAX, depends_on_zone
from onbeat.recurrence.durations import read_duration

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rrule("DTSTART:20250101T000000Z\nRRULE:FREQ=DAILY", start=NEW_YEAR), "leave out start"),
        (lambda: rrule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "no year has such a day"),
        (lambda: rrule("FREQ=DAILY", dst_gap="jump"), "dst_gap is 'jump'; use"),  # type: ignore[arg-type]
        (lambda: rrule("FREQ=DAILY", dst_fold="never"), "dst_fold is 'never'; use"),  # type: ignore[arg-type]
        (lambda: rrule("FREQ=DAILY", start="soon"), "soon"),
        (lambda: daily("25:00"), "'25:00' is not a time of day"),
        (lambda: weekly("Someday", "09:00"), "'Someday' is not a weekday"),
        (lambda: business_days(["2025-02-30"]), "'2025-02-30' is not a date"),
        (lambda: business_days(weekend=("MO", "TU", "WE", "TH", "FR", "SA", "SU")), "every weekday"),
        (lambda: business_days(date(2000, 1, 1) + timedelta(n) for n in range(10_001)), "holidays"),
        (lambda: business_days("XX"), "no holidays are known for 'XX'"),
        (union, "give 1 to"),
        (lambda: union(*[every("1h")] * (MEMBERS_MAX + 1)), "give 1 to"),
    ],
)  # fmt: skip
def test_what_makes_no_recurrence_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadRecurrence, match=message):
        make()


def test_an_instant_needs_an_offset() -> None:
    with pytest.raises(ValueError, match="2025-01-01"):
        once(datetime(2025, 1, 1))  # noqa: DTZ001  it is what is refused


def test_a_zone_from_a_file_has_no_name() -> None:
    with (
        open("/usr/share/zoneinfo/Europe/Berlin", "rb") as file,  # noqa: PTH123
        pytest.raises(BadRecurrence, match="use an IANA name"),
    ):
        daily("09:00", tz=ZoneInfo.from_file(file))


def test_holidays_of_a_country_are_stored_by_date() -> None:
    holidays = business_days("DE-BY", years=range(2025, 2026))
    assert {"2025-01-06", "2025-12-25"} <= {*holidays.holidays}
    assert daily("09:00").on(holidays).after(datetime(2025, 1, 5, 12, tzinfo=UTC)) == datetime(
        2025, 1, 7, 9, tzinfo=UTC
    )


def test_weekdays_are_named_in_short_and_at_length() -> None:
    assert weekly("Mon", "09:00").spec() == weekly("MO", "09:00").spec()
    assert weekly("thursday", "09:00").spec() == weekly("TH", "09:00").spec()


def test_a_function_that_ends_has_no_more_occurrences() -> None:
    one = function(lambda after: NEW_YEAR if after < NEW_YEAR else None)
    assert one.after(NEW_YEAR - SECOND) == NEW_YEAR
    assert one.after(NEW_YEAR) is None
    assert one.before(NEW_YEAR + SECOND) == NEW_YEAR
    assert one.before(NEW_YEAR) is None


def test_a_fraction_of_a_second_shifts_every_occurrence() -> None:
    value = every("1h", start="2025-01-01T00:00:00.250Z")
    first = NEW_YEAR + timedelta(milliseconds=250)
    assert value.after(NEW_YEAR) == first
    assert value.before(first + SECOND) == first
    assert value.before(first) in {None, first - timedelta(hours=1)}


def test_a_fraction_of_a_second_shifts_months_from_both_sides() -> None:
    value = every("P1M", start="2025-01-31T00:00:00.250Z")
    quarter = timedelta(milliseconds=250)
    ends = [datetime(2025, month, day, tzinfo=UTC) + quarter for month, day in ((1, 31), (2, 28))]
    assert value.take(2, after=NEW_YEAR) == ends
    assert value.before(ends[1] + SECOND) == ends[1]
    assert value.before(ends[1]) == ends[0]
    assert value.before(ends[0]) is None


def test_a_time_that_a_clock_change_displaces_rolls_to_its_own_time_of_another_day() -> None:
    only = rrule("DTSTART;TZID=Europe/Berlin:20250330T023000\nRRULE:FREQ=DAILY;COUNT=1")
    assert only.take(2, after=NEW_YEAR) == [datetime(2025, 3, 30, 1, 30, tzinfo=UTC)]
    rolled = only.on(business_days(), "following")  # the 30th is a Sunday
    assert rolled.take(2, after=NEW_YEAR) == [datetime(2025, 3, 31, 0, 30, tzinfo=UTC)]


def test_a_rule_depends_on_a_zone_through_any_of_its_members() -> None:
    berlin, here = daily("09:00", tz="Europe/Berlin"), daily("09:00", tz="UTC")
    assert depends_on_zone(union(here, berlin).spec())
    assert not depends_on_zone(union(here, here).spec())


ELAPSED: list[dict[str, Any]] = [
    {"every": "90m"},
    {"every": "every 2 hours"},
    {"cron": "rate(5 minutes)"},
    {"at": "2025-06-01T09:00:00Z"},
]


@pytest.mark.parametrize("fields", ELAPSED)
def test_elapsed_time_keeps_a_zone_that_it_does_not_depend_on(fields: dict[str, Any]) -> None:
    plain = parse_recurrence(**fields)
    kept = parse_recurrence(**fields, timezone="Europe/Berlin", dst_gap="skip", dst_fold="both")
    assert (kept.tz, kept.dst_gap, kept.dst_fold) == ("Europe/Berlin", "skip", "both")
    assert not depends_on_zone(kept)
    assert without_idle_zone(kept) == plain
    values = [compile_spec(anchor(spec, NEW_YEAR)) for spec in (plain, kept)]
    assert values[0].take(5000, after=NEW_YEAR) == values[1].take(5000, after=NEW_YEAR)
    assert values[0].describe() == values[1].describe()
    assert values[0].notes(NEW_YEAR, 5000) == values[1].notes(NEW_YEAR, 5000)


def test_months_depend_on_their_zone() -> None:
    spec = parse_recurrence(every="P1M", timezone="Europe/Berlin", dst_gap="skip")
    assert depends_on_zone(spec)
    assert without_idle_zone(spec) == spec
    assert compile_spec(anchor(spec, NEW_YEAR)).describe().endswith("(Europe/Berlin)")


def test_business_days_are_those_of_members_that_count_days() -> None:
    idle, tokyo = phrase("every 2 hours", tz="Europe/Berlin"), daily("09:00", tz="Asia/Tokyo")
    assert union(idle, tokyo).on(business_days()).tz == "Asia/Tokyo"
    assert idle.on(business_days()).tz == "UTC"
    assert not depends_on_zone(idle.on(business_days()).spec())


def test_all_of_elapsed_time_is_excluded_by_the_same_of_another_zone() -> None:
    here, there = (phrase("every 2 hours", tz=zone) for zone in ("Europe/Berlin", "Asia/Tokyo"))
    with pytest.raises(BadRecurrence, match="all of it is excluded"):
        here.excluding(there).after(NEW_YEAR)


@pytest.mark.parametrize("text", ["1h", "@every 1h", "P1M", "2025-06-01T09:00:00Z"])
def test_a_text_of_any_notation_has_the_zone_that_is_given(text: str) -> None:
    assert guess(text, "Europe/Berlin").tz == "Europe/Berlin"


def test_members_are_anchored_with_the_whole() -> None:
    spec = union(every("1h"), every("90m")).spec()
    anchored = compile_spec(anchor(spec, NEW_YEAR))
    assert anchored.take(3, after=NEW_YEAR) == [
        NEW_YEAR + timedelta(minutes=minutes) for minutes in (60, 90, 120)
    ]


def test_cron_walks_back_through_its_years() -> None:
    value = cron("0 0 0 1 1 ? 2030,2032")
    assert value.before(datetime(2040, 1, 1, tzinfo=UTC)) == datetime(2032, 1, 1, tzinfo=UTC)
    assert value.before(datetime(2032, 1, 1, tzinfo=UTC)) == datetime(2030, 1, 1, tzinfo=UTC)
    assert value.before(datetime(2030, 1, 1, tzinfo=UTC)) is None
    assert value.after(datetime(2032, 1, 1, tzinfo=UTC)) is None


def test_a_moved_occurrence_is_found_from_both_sides() -> None:
    friday = datetime(2025, 1, 3, 9, tzinfo=UTC)
    saturdays = weekly("SA", "09:00").on(business_days(), "preceding")
    assert saturdays.after(friday - SECOND) == friday
    assert saturdays.before(friday + SECOND) == friday
    modified = rrule("FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=9;BYMINUTE=0;BYSECOND=0")
    moved = modified.on(business_days(), "modified")
    assert moved.after(datetime(2025, 5, 1, tzinfo=UTC)) == datetime(2025, 5, 30, 9, tzinfo=UTC)


def test_many_times_of_a_day_are_computed_as_they_are_listed() -> None:
    hours, minutes, seconds = (8, 9), (0, 30), (0, 7)
    times = ClockTimes(hours, minutes, seconds)
    listed = [h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds]
    assert [*times] == listed
    assert times[1:3] == listed[1:3]
    assert times[-1] == listed[-1]


@pytest.mark.parametrize("text", ["P1Y2M", "P1W", "PT36H", "1w", "2h30m"])
def test_a_span_is_read(text: str) -> None:
    span = read_duration(text)
    assert span.months or span.microseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1", "1x", "-1h", "1h1h", "P1Y1D", "PT0S", "0s"])
def test_another_span_is_refused(text: str) -> None:
    with pytest.raises(BadRecurrence):
        every(text)
