from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import (
    Budget,
    RecurrenceSpec,
    anchor,
    business_days,
    compile_spec,
    cron,
    daily,
    every,
    first_of_month,
    function,
    needs_anchor,
    once,
    rrule,
    union,
    weekly,
)
from onbeat.recurrence.recurrence import Recurrence
from recurrence.strategies import long_rules, short_rules, starts, zones

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
BERLIN = "Europe/Berlin"
EXCLUDED = f"EXDATE;TZID={BERLIN}:20260329T033000"


def days(values: list[datetime]) -> list[str]:
    return [f"{at:%m-%d}" for at in values]


@given(long_rules(bound=False) | short_rules(), starts, zones, st.integers(0, 10**9))
def test_after_and_before_are_inverse_and_between_is_repeated_after(
    text: str, start: datetime, zone: str, away: int
) -> None:
    try:
        value = rrule(f"DTSTART;TZID={zone}:{start:%Y%m%dT%H%M%S}\nRRULE:{text}")
    except BadRecurrence:
        return
    request = start.replace(tzinfo=UTC) + timedelta(seconds=away)
    candidate = value.take(6, after=request)
    assert candidate == sorted(set(candidate))
    assert all(at > request for at in candidate)
    for at in candidate:
        assert value.after(at - timedelta(microseconds=1)) == at
        assert value.before(at + timedelta(microseconds=1)) == at
    if candidate:
        assert value.between(request, candidate[-1]) == candidate[:-1]
        back = value.before(candidate[0])
        assert back is None or (back <= request and value.after(back) == candidate[0])


@given(st.integers(1, 30), st.integers(0, 6), zones)
def test_a_last_weekday_is_the_same_by_number_and_by_position(
    day: int, weekday: int, zone: str
) -> None:
    code = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"][weekday]
    start = f"DTSTART;TZID={zone}:200001{day:02}T023000\nRRULE:FREQ=MONTHLY;BYDAY="
    one, two = rrule(f"{start}-1{code}"), rrule(f"{start}{code};BYSETPOS=-1")
    assert one.take(80, after=NEW_YEAR) == two.take(80, after=NEW_YEAR)


@pytest.mark.parametrize("freq", ["DAILY", "WEEKLY", "MONTHLY", "YEARLY"])
def test_the_age_of_a_start_changes_nothing(freq: str) -> None:
    old = rrule(f"DTSTART:16250601T090000Z\nRRULE:FREQ={freq}")
    new = rrule(f"DTSTART:20250601T090000Z\nRRULE:FREQ={freq}")
    after = datetime(2025, 7, 1, tzinfo=UTC)
    assert old.take(50, after=after) == new.take(50, after=after)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29", "FREQ=DAILY;BYHOUR=1,5;BYMINUTE=0,7",
        "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,SU;WKST=SU", "FREQ=MONTHLY;INTERVAL=5;BYDAY=2TU,-1FR",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE;BYSETPOS=-1,2", "FREQ=YEARLY;BYDAY=FR;BYSETPOS=1,-1,53",
        "FREQ=HOURLY;BYHOUR=9,17", "FREQ=HOURLY;INTERVAL=2;BYDAY=MO;BYMINUTE=5,10",
        "FREQ=MINUTELY;INTERVAL=7;BYHOUR=3", "FREQ=SECONDLY;INTERVAL=45;BYMINUTE=0",
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3", "FREQ=YEARLY;BYWEEKNO=1,53;BYSETPOS=1",
        "RSCALE=GREGORIAN;FREQ=MONTHLY;BYMONTHDAY=1,31;SKIP=FORWARD",
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_a_count_ends_where_counting_would(text: str, zone: str) -> None:
    block = f"DTSTART;TZID={zone}:20200101T090000\nRRULE:{text}"
    begin = datetime(2019, 1, 1, tzinfo=UTC)
    unbound = rrule(block).take(200, after=begin)
    for count in (1, 2, 57, 200):
        assert rrule(f"{block};COUNT={count}").take(300, after=begin) == unbound[:count]


def test_a_rule_without_start_waits_for_its_anchor() -> None:
    spec = rrule("FREQ=DAILY;COUNT=5").spec()
    assert needs_anchor(spec)
    at = datetime(2025, 1, 1, 9, 30, 15, 123456, tzinfo=UTC)
    anchored = anchor(spec, at)
    assert (anchored.anchor, anchored.anchored) == ("2025-01-01T09:30:15Z", True)
    assert not needs_anchor(anchored)
    assert anchor(anchored, NEW_YEAR) == anchored
    candidates = compile_spec(anchored).take(9, after=datetime(2000, 1, 1, tzinfo=UTC))
    assert days(candidates) == ["01-02", "01-03", "01-04", "01-05", "01-06"]
    assert {at.second for at in candidates} == {15}


def test_an_anchored_rule_never_fires_at_its_anchor() -> None:
    at = datetime(2025, 1, 6, 9, tzinfo=UTC)
    spec = anchor(rrule("FREQ=WEEKLY;BYDAY=MO;BYHOUR=9").spec(), at)
    assert compile_spec(spec).after(NEW_YEAR) == at + timedelta(7)
    spec = anchor(every("15m").spec(), at)
    assert compile_spec(spec).after(NEW_YEAR) == at + timedelta(minutes=15)


def test_an_explicit_start_counts() -> None:
    at = datetime(2025, 1, 6, 9, tzinfo=UTC)
    assert rrule("FREQ=WEEKLY", start=at).after(NEW_YEAR) == at
    assert every("15m", start=at).after(NEW_YEAR) == at
    assert rrule("FREQ=WEEKLY;BYDAY=TU", start=at).after(NEW_YEAR) == at + timedelta(1)


def test_a_rule_without_start_is_previewed_from_where_it_is_asked() -> None:
    value = rrule("FREQ=DAILY")
    assert value.after(NEW_YEAR) == NEW_YEAR + timedelta(1)
    assert days(rrule("FREQ=DAILY;COUNT=3").take(9, after=NEW_YEAR)) == ["01-02", "01-03", "01-04"]
    assert every("6h").take(2, after=NEW_YEAR)[1] == NEW_YEAR + timedelta(hours=12)
    assert every("6h").before(NEW_YEAR) is None


@pytest.mark.parametrize(
    "value",
    [
        rrule("FREQ=DAILY"), rrule("FREQ=DAILY", tz=BERLIN, start=NEW_YEAR), cron("H * * * *", key="a"),
        every("15m"), every("P1M", start=NEW_YEAR), once(NEW_YEAR), daily("03:00", tz=BERLIN),
        union(cron("@daily"), once(NEW_YEAR)), cron("@hourly").excluding(cron("@daily")),
        daily("09:00").on(business_days([date(2025, 1, 1)]), "following"),
        rrule("FREQ=DAILY", dst_gap="skip", dst_fold="both"),
    ],
)  # fmt: skip
def test_a_spec_goes_through_json_and_back(value: Recurrence) -> None:
    kept = msgspec.json.encode(value.spec())
    spec = msgspec.json.decode(kept, type=RecurrenceSpec)
    assert compile_spec(spec) == value
    assert hash(compile_spec(spec)) == hash(value)
    assert compile_spec(spec) is compile_spec(value.spec())


def test_naive_datetimes_are_refused() -> None:
    naive = datetime(2025, 1, 1)  # noqa: DTZ001  that is the point
    for ask in (
        cron("@daily").after,
        cron("@daily").before,
        once,
        lambda at: every("1h", start=at),
    ):
        with pytest.raises(ValueError, match="time zone"):
            ask(naive)


def test_answers_are_in_utc_whatever_the_question() -> None:
    request = datetime(2025, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    candidate = cron("0 1 * * *").after(request)
    assert candidate == NEW_YEAR + timedelta(hours=1)
    assert candidate.tzinfo is UTC


def test_both_ends_of_between_are_left_out() -> None:
    value = every("1h", start=NEW_YEAR)
    candidates = value.between(NEW_YEAR, NEW_YEAR + timedelta(hours=3))
    assert [at.hour for at in candidates] == [1, 2]
    assert len(value.between(NEW_YEAR, NEW_YEAR + timedelta(9), limit=5)) == 5


def test_periods_are_exact_and_never_drift() -> None:
    value = every(timedelta(microseconds=333_333), start=NEW_YEAR)
    at = NEW_YEAR
    for n in range(1, 100):
        at = value.after(at)
        assert at == NEW_YEAR + n * timedelta(microseconds=333_333)
    assert value.before(NEW_YEAR) is None
    assert value.before(NEW_YEAR + timedelta(seconds=1)) == NEW_YEAR + 3 * timedelta(
        microseconds=333_333
    )


def test_months_are_counted_by_the_calendar() -> None:
    value = every("P1M", start="2025-01-31T09:00:00Z")
    assert days(value.take(4, after=NEW_YEAR)) == ["01-31", "02-28", "03-31", "04-30"]


def test_once_is_once() -> None:
    value = once("2025-01-31T10:00:00+01:00")
    assert value.after(NEW_YEAR) == datetime(2025, 1, 31, 9, tzinfo=UTC)
    assert value.after(value.after(NEW_YEAR)) is None
    assert value.before(NEW_YEAR) is None


def test_the_first_of_the_month_comes_once() -> None:
    value = first_of_month("00:00")
    cases = {"2024-08-15T10:30": "2024-09-01", "2024-08-01T10:30": "2024-09-01",
             "2024-12-31T23:59:59": "2025-01-01", "2024-08-01T00:00": "2024-09-01"}  # fmt: skip
    for request, expected in cases.items():
        candidate = value.after(datetime.fromisoformat(request).replace(tzinfo=UTC))
        assert f"{candidate:%Y-%m-%dT%H:%M}" == f"{expected}T00:00"


def test_weekly_takes_days_in_two_ways() -> None:
    one = weekly("MO", "wednesday", at="09:00", tz=BERLIN)
    assert (
        one == weekly("MO,WE 09:00", tz=BERLIN) == weekly("mon wed", at="9:00", tz=ZoneInfo(BERLIN))
    )
    assert days(one.take(3, after=NEW_YEAR)) == ["01-01", "01-06", "01-08"]
    for wrong in ([], ["XX"], ["Moon"], ["MO", "25:00"]):
        with pytest.raises(BadRecurrence):
            weekly(*wrong)


def test_a_function_of_time_is_a_recurrence() -> None:
    value = function(lambda after: after + timedelta(hours=6))
    assert value.after(NEW_YEAR) == NEW_YEAR + timedelta(hours=6)
    midnights = function(
        lambda t: t.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(1)
    )
    assert midnights.before(NEW_YEAR) == NEW_YEAR - timedelta(1)
    with pytest.raises(ValueError, match="later"):
        function(lambda after: after).after(NEW_YEAR)
    with pytest.raises(BadRecurrence, match="program"):
        compile_spec(value.spec())


def test_unions_and_exclusions() -> None:
    value = union(cron("0 9 * * *"), cron("0 9 * * MON"), once("2025-01-01T12:00:00Z"))
    assert [f"{at:%dT%H}" for at in value.take(3, after=NEW_YEAR)] == ["01T09", "01T12", "02T09"]
    working = cron("0 9 * * *").excluding(cron("0 9 * * SAT,SUN"))
    assert days(working.take(4, after=NEW_YEAR)) == ["01-01", "01-02", "01-03", "01-06"]
    assert days([working.before(datetime(2025, 1, 6, tzinfo=UTC))]) == ["01-03"]
    with pytest.raises(BadRecurrence):
        cron("@daily").excluding(cron("@hourly"))


@pytest.mark.parametrize(
    ("roll", "expected"),
    [
        ("skip", ["01-31", "03-31", "04-30"]),
        ("following", ["01-31", "03-03", "03-31"]),
        ("preceding", ["01-31", "02-28", "03-31"]),
        ("modified", ["01-31", "02-28", "03-31"]),
    ],
)
def test_a_month_end_moves_to_a_business_day(
    roll: Literal["skip", "following", "preceding", "modified"], expected: list[str]
) -> None:
    # 28 February 2025 is a Friday, taken here as a holiday but for the last two rolls.
    holidays = ["2025-02-28"] if roll in {"skip", "following"} else []
    value = cron("0 9 L * *").on(business_days(holidays), roll)
    candidate = value.take(3, after=NEW_YEAR)
    assert days(candidate) == expected
    assert value.before(candidate[2]) == candidate[1]


def test_a_sentence_says_the_rule() -> None:
    cases = {
        daily("02:30", tz=BERLIN): "Every day at 02:30 (Europe/Berlin)",
        cron("0 9 * * MON"): "At 09:00 on Monday (UTC)",
        cron("*/15 * * * *"): "Every 15 minutes (UTC)",
        every("1h30m"): "Every 1 hour and 30 minutes",
        every("15m"): "Every 15 minutes",
        every("1d"): "Every day",
        rrule("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0"): "Every month on the last Friday at 09:00, second of its start (UTC)",
        rrule("FREQ=YEARLY;BYMONTH=3;BYDAY=1SU,-1SU;COUNT=3"):
            "Every year on the last Sunday and the 1st Sunday in March, 3 times (UTC)",
        once("2025-01-31T09:00:00Z"): "Once, at 31 January 2025 at 09:00 UTC",
    }  # fmt: skip
    assert {value: value.describe() for value in cases} == cases


def kinds(value: Recurrence, count: int = 10) -> list[str]:
    return [note.kind for note in value.notes(after=NEW_YEAR, count=count)]


def test_notes_say_what_may_surprise() -> None:
    assert kinds(rrule("FREQ=MONTHLY;BYMONTHDAY=31")) == ["missing"]
    assert kinds(rrule("FREQ=YEARLY;BYMONTHDAY=1")) == ["reading"]
    assert kinds(rrule("DTSTART:20250101T090000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO")) == ["start"]
    assert kinds(rrule("FREQ=DAILY;COUNT=3")) == ["end"]
    assert kinds(daily("03:30", tz=BERLIN), 400) == []


def test_notes_mark_gaps_and_folds() -> None:
    notes = daily("02:30", tz=BERLIN).notes(after=NEW_YEAR, count=365)
    assert [note.kind for note in notes] == ["gap", "fold"]
    assert "does not exist in Europe/Berlin; it comes at 03:30" in notes[0].text
    assert notes[0].instant == datetime(2025, 3, 30, 1, 30, tzinfo=UTC)
    assert "comes twice in Europe/Berlin; it runs the first time" in notes[1].text
    left_out = rrule("DTSTART;TZID=Europe/Berlin:20250101T023000\nRRULE:FREQ=DAILY", dst_gap="skip")
    assert "left out" in left_out.notes(after=NEW_YEAR, count=365)[0].text


def test_country_holidays_are_kept_with_the_calendar() -> None:
    calendar = business_days("DE", years=range(2025, 2026))
    assert "2025-10-03" in calendar.holidays
    assert calendar.name == "DE"
    candidate = (
        daily("09:00", tz=BERLIN).on(calendar).take(3, after=datetime(2025, 10, 1, 8, tzinfo=UTC))
    )
    assert days(candidate) == ["10-02", "10-06", "10-07"]
    for wrong in ("XX", ["2025-13-01"]):
        with pytest.raises(BadRecurrence):
            business_days(wrong)
    with pytest.raises(BadRecurrence, match="leave one"):
        business_days(weekend=["MO", "TU", "WE", "TH", "FR", "SA", "SU"])


def test_a_start_in_the_second_pass_of_a_fold_is_kept() -> None:
    start = datetime(2025, 11, 2, 6, 30, tzinfo=UTC)
    value = rrule("FREQ=HOURLY", tz="America/New_York", start=start)
    assert value.after(NEW_YEAR) == start
    assert compile_spec(value.spec()).after(NEW_YEAR) == start
    daily_value = rrule("FREQ=DAILY", tz="America/New_York", start=start)
    assert daily_value.after(NEW_YEAR) == start + timedelta(1)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY", "FREQ=WEEKLY;INTERVAL=7", "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1", "FREQ=HOURLY",
        "FREQ=YEARLY;INTERVAL=9000", "FREQ=MONTHLY;INTERVAL=999999999", "FREQ=MINUTELY;BYHOUR=3",
        "FREQ=YEARLY;INTERVAL=3;BYWEEKNO=1,53;BYSETPOS=-1",
    ],
)  # fmt: skip
def test_both_ends_of_time_are_quiet(text: str, zone: str) -> None:
    value = rrule(f"DTSTART;TZID={zone}:20000103T000000\nRRULE:{text}")
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert value.before(first) is None
    assert value.after(last) is None
    assert value.after(first).year >= 1999
    assert value.before(last) is not None


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_dates_and_exclusions_of_a_block(zone: str) -> None:
    value = rrule(
        f"DTSTART;TZID={zone}:20250101T090000\nRRULE:FREQ=DAILY;COUNT=6\nRRULE:FREQ=WEEKLY;COUNT=2\n"
        f"RDATE;TZID={zone}:20250201T090000,20250102T090000\nEXRULE:FREQ=DAILY;INTERVAL=3\n"
        f"EXDATE;TZID={zone}:20250102T090000"
    )
    candidates = value.take(9, after=NEW_YEAR)
    assert days(candidates) == ["01-03", "01-05", "01-06", "01-08", "02-01"][: len(candidates)]
    assert rrule(value.text, tz=value.tz) == value
    assert [value.before(candidates[2]), value.before(candidates[1])] == candidates[1::-1]


def test_business_days_of_combined_rules_are_those_of_their_zone() -> None:
    both = union(weekly("FR", "MO", at="00:30", tz=BERLIN), weekly("SA", at="00:45", tz=BERLIN))
    for rule in (both, both.excluding(every("1h", start="2020-01-01T00:10:00Z"))):
        days = rule.on(business_days()).take(3, after=datetime(2026, 6, 5, 12, tzinfo=UTC))
        assert [f"{at.astimezone(ZoneInfo(BERLIN)):%a %d}" for at in days] == [
            "Mon 08",
            "Fri 12",
            "Mon 15",
        ]
    with pytest.raises(BadRecurrence, match=r"Asia/Tokyo and Europe/Berlin; call \.on for each"):
        union(daily("09:00", tz=BERLIN), daily("09:00", tz="Asia/Tokyo")).on(business_days())


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        (daily("02:30", tz=BERLIN), ["Mon 02:30", "Tue 02:30"]),
        (daily("03:30", tz=BERLIN), ["Mon 03:30", "Tue 03:30"]),
        (weekly("SU", at="02:30", tz=BERLIN), ["Mon 02:30", "Mon 02:30"]),
    ],
)
def test_a_time_that_a_clock_shifted_moves_by_the_time_of_the_rule(
    rule: Recurrence, times: list[str]
) -> None:
    """On this Sunday 02:30 came at 03:30."""
    saturday = datetime(2026, 3, 28, 12, tzinfo=UTC)
    moved = rule.on(business_days(), "following").take(2, after=saturday)
    assert [f"{at.astimezone(ZoneInfo(BERLIN)):%a %H:%M}" for at in moved] == times


@pytest.mark.parametrize("closed", [59, 60, 61, 400])
def test_an_occurrence_moves_across_any_number_of_closed_days(closed: int) -> None:
    first = date(2026, 7, 20)
    calendar = business_days((first + timedelta(n) for n in range(closed)), weekend=())
    yearly = rrule("DTSTART:20200725T090000Z\nRRULE:FREQ=YEARLY")
    before = datetime(2026, 7, 1, tzinfo=UTC)
    after = datetime.combine(first + timedelta(closed), time(9), UTC)
    assert yearly.on(calendar, "following").after(before) == after
    assert yearly.on(calendar, "preceding").after(before) == datetime(2026, 7, 19, 9, tzinfo=UTC)
    assert yearly.on(calendar, "following").before(after + timedelta(1)) == after


@pytest.mark.parametrize(
    ("text", "last"),
    [
        # The clock of Nuuk goes from 23:00 to the next day; Apia has no 30 December 2011 at all.
        ("DTSTART;TZID=America/Nuuk:20260301T001500\nRRULE:FREQ=DAILY;UNTIL=20260328", "03-28T00"),
        ("DTSTART;TZID=America/Nuuk:20260301T001500\nRRULE:FREQ=HOURLY;UNTIL=20260328", "03-28T22"),
        ("DTSTART;TZID=Pacific/Apia:20111201T093000\nRRULE:FREQ=DAILY;UNTIL=20111230", "12-29T09"),
        ("DTSTART;TZID=Europe/Berlin:20261001T233000\nRRULE:FREQ=DAILY;UNTIL=20261025", "10-25T23"),
    ],
)
def test_a_date_in_until_includes_no_time_of_the_next_day(text: str, last: str) -> None:
    value = rrule(text, dst_gap="skip")
    at = value.before(datetime(2100, 1, 1, tzinfo=UTC))
    assert at is not None
    assert f"{at.astimezone(ZoneInfo(value.tz)):%m-%dT%H}" == last


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            "DTSTART:20260327T090000Z\nRRULE:FREQ=DAILY\nEXDATE:20260327T090000Z",
            ["DTSTART is excluded by EXDATE, so it is not an occurrence itself"],
        ),
        (
            "DTSTART:20260327T090000Z\nRRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:20260329",
            ["EXDATE leaves nothing out at 2026-03-29 00:00:00 UTC, which is no occurrence"],
        ),
        (
            f"DTSTART;TZID={BERLIN}:20260327T023000\nRRULE:FREQ=DAILY\n{EXCLUDED}",
            [],
        ),
        ("DTSTART:20260405T090000Z\nRRULE:FREQ=MONTHLY;BYEASTER=0", []),
        ("DTSTART:20240229T090000Z\nRRULE:FREQ=YEARLY", ["in February only in leap years"]),
        ("DTSTART:20240229T090000Z\nRRULE:FREQ=YEARLY;BYMONTHDAY=28;BYMONTH=2", []),
    ],
)
def test_notes_say_what_is_so(text: str, notes: list[str]) -> None:
    found = [note.text for note in rrule(text).notes(datetime(2026, 3, 1, tzinfo=UTC), 5)]
    assert [note for note in found if "does not fit" not in note] == notes


def test_notes_of_business_days_are_on_what_runs() -> None:
    nightly = daily("02:30", tz=BERLIN)
    march = datetime(2026, 3, 27, 12, tzinfo=UTC)
    assert len(nightly.notes(march)) == 1
    assert nightly.on(business_days(), "following").notes(march) == []
    assert len(nightly.on(business_days(weekend=()), "following").notes(march)) == 1


def test_notes_on_a_rare_rule_cost_little() -> None:
    rare = rrule("FREQ=YEARLY;BYEASTER=0;BYMONTH=3;BYMONTHDAY=22", tz=BERLIN)
    budget = Budget(5_000)
    rare.within(budget).notes(datetime(2026, 1, 1, tzinfo=UTC), 3)
    assert budget.left > 0


def test_a_rule_is_not_refused_for_its_notes() -> None:
    rule = "RRULE:FREQ=YEARLY;BYEASTER=0;BYMONTH=3;BYMONTHDAY=22;BYHOUR="
    rare = rrule("DTSTART:20260101T000000Z\n" + "\n".join(f"{rule}{hour}" for hour in range(9)))
    found = rare.within(Budget(25_000)).notes(datetime(2026, 1, 1, tzinfo=UTC), 200)
    assert [note.kind for note in found] == ["start"]


@pytest.mark.parametrize(
    "rule",
    [
        "DTSTART:20260327T090000Z\nRRULE:FREQ=DAILY\nEXDATE:20260328T100000Z\nEXRULE:FREQ=WEEKLY",
        "DTSTART:20260327T090000Z\nRRULE:FREQ=DAILY;COUNT=9\nEXDATE:20260328T100000Z",
        "RDATE:20260402T090000Z\nEXDATE:20260328T100000Z",
    ],
)
def test_an_exdate_without_effect_is_told_wherever_it_stands(rule: str) -> None:
    value, march = rrule(rule), datetime(2026, 3, 1, tzinfo=UTC)
    combined = [value, value.on(business_days()), union(value, daily("12:00"))]
    for one in (*combined, daily("12:00").excluding(value)):
        texts = [note.text for note in one.notes(march)]
        assert sum("EXDATE leaves nothing out at 2026-03-28 10:00" in text for text in texts) == 1


def test_an_excluded_instant_is_not_called_an_exdate() -> None:
    rule = daily("12:00").excluding(once("2026-04-02T09:00:00Z"))
    assert rule.notes(datetime(2026, 3, 1, tzinfo=UTC)) == []
