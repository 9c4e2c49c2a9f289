"""The notations of AWS and ISO 8601, and phrases: what they mean, and where a fault is."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import (
    aws,
    compile_spec,
    cron,
    every,
    guess,
    notes_on_text,
    parse_recurrence,
    phrase,
    repeating,
    rrule,
    value_of,
)
from onbeat.recurrence.iso_interval import REPEATING_CHARS_MAX
from onbeat.recurrence.phrase import PHRASE_CHARS_MAX
from onbeat.recurrence.rrule_text import NUMBER_MAX
from recurrence.strategies import starts

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
BERLIN = "Europe/Berlin"


@st.composite
def aws_days(draw: Callable[..., Any]) -> tuple[str, str]:
    """The day fields in AWS's and in Unix's way."""
    number = draw(st.integers(1, 7))
    weekday = [
        (f"{number}", f"{number - 1}"),
        (f"1-{number}", f"0-{number - 1}"),
        (f"{number}L", f"{number - 1}L"),
        (f"{number}#2", f"{number - 1}#2"),
        ("MON-FRI", "MON-FRI"),
        ("L", "6"),
        ("*", "*"),
    ]
    month_day = draw(st.sampled_from(["1", "15,20", "L", "LW", "3W", "*/7", "*"]))
    theirs, ours = draw(st.sampled_from(weekday))
    return draw(
        st.sampled_from([(f"? MON {theirs}", f"? MON {ours}"), (f"{month_day} MON ?",) * 2])
    )


@given(aws_days(), starts, st.sampled_from(["*", "1-6", "FEB,OCT"]))
def test_a_cron_of_aws_counts_weekdays_from_sunday_as_one(
    days: tuple[str, str], start: datetime, months: str
) -> None:
    theirs, ours = (fields.replace("MON ", f"{months} ", 1) for fields in days)
    start = start.replace(tzinfo=UTC)
    value = aws(f"cron(0/20 9-17 {theirs} *)", tz=BERLIN)
    assert value.take(30, start) == cron(f"0 0/20 9-17 {ours} *", tz=BERLIN).take(30, start)
    assert cron(value.text, tz=BERLIN) == value


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("cron(0 12 * * ? *)", "01-01 01-02 01-03"),
        ("cron(15 10 ? * 6L 2026-2027)", "01-30 02-27 03-27"),
        ("cron(0 9 ? * 2#1 *)", "01-05 02-02 03-02"),
        ("cron(0 8 1W * ? *)", "01-01 02-02 03-02"),
        ("CRON( 0 8 ? * sun *)", "01-04 01-11 01-18"),
        ("cron(0 10 ? * L *)", "01-03 01-10 01-17"),
    ],
)
def test_an_example_of_aws_has_these_days(text: str, days: str) -> None:
    assert [f"{at:%m-%d}" for at in aws(text).take(3, NEW_YEAR)] == days.split()


SPANS = {
    "rate(5 minutes)": "5m", "rate(1 hour)": "1h", "rate( 7 DAYS )": "7d",
    "every 2 hours": "2h", "every 15 minutes": "15m", "every hour": "1h", "every day": "1d",
    "every 3 weeks": "21d", "every 6 months": "P6M", "every year": "P1Y", "Every  1h30m": "1h30m",
    "every PT5M": "5m", "every 90": "90s", "every 30 seconds": "30s",
}  # fmt: skip


@pytest.mark.parametrize("text", SPANS)
def test_a_number_of_units_is_a_span(text: str) -> None:
    assert value_of(guess(text)) == every(SPANS[text])
    field = {"cron": text} if text.startswith("rate") else {"every": text}
    assert parse_recurrence(**field) == guess(text)  # type: ignore[arg-type]


CLOCK = {
    "every day at 09:00": "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
    "every monday at 9:00": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
    "every Fri, tue and Sundays at 17:30:15": "FREQ=WEEKLY;BYDAY=TU,FR,SU;BYHOUR=17;BYMINUTE=30;BYSECOND=15",
    "every weekday": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=0;BYMINUTE=0;BYSECOND=0",
}  # fmt: skip


@pytest.mark.parametrize("text", CLOCK)
def test_named_days_are_by_the_clock_of_the_zone(text: str) -> None:
    assert phrase(text, tz=BERLIN) == rrule(CLOCK[text], tz=BERLIN)
    assert parse_recurrence(every=text, timezone=BERLIN) == guess(text, BERLIN)


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001  UTC is added
    st.sampled_from([("PT1H", "hours", 1), ("PT90M", "minutes", 90), ("P1D", "days", 1),
                     ("P2W", "weeks", 2), ("P1DT12H", "hours", 36), ("P1M", "months", 1),
                     ("P1Y", "years", 1), ("P1Y6M", "months", 18)]),
    st.integers(1, 30),
)  # fmt: skip
def test_a_repeating_interval_adds_its_duration_to_its_start(
    start: datetime, period: tuple[str, str, int], count: int
) -> None:
    start = start.replace(microsecond=0, tzinfo=UTC)
    text, unit, size = period
    lengths: list[dict[str, Any]] = [{unit: size * k} for k in range(count)]
    value = repeating(f"R{count}/{start:%Y-%m-%dT%H:%M:%SZ}/{text}")
    assert value.take(count + 1, start - timedelta(1)) == [
        start + relativedelta(**length) for length in lengths
    ]


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("R/2026-03-28T09:00:00/P1D", "03-28T08", "03-29T07"),
        ("R/2026-03-28T09:00:00/PT24H", "03-28T08", "03-29T08"),
        ("R/20260328T080000Z/P1D", "03-28T08", "03-29T07"),
        ("R/2026-03-28T10:00+02:00/P1W", "03-28T08", "04-04T07"),
        ("R/2026-01-31T00:30:00+01:00/P1M", "01-30T23", "02-27T23"),
        ("R/2026-01-01/P1D", "12-31T23", "01-01T23"),
    ],
)
def test_days_and_months_of_an_interval_are_those_of_the_zone(
    text: str, first: str, second: str
) -> None:
    value = repeating(text, tz=BERLIN)
    after = datetime(2025, 12, 1, tzinfo=UTC)
    assert [f"{at:%m-%dT%H}" for at in value.take(2, after)] == [first, second]
    assert parse_recurrence(every=text, timezone=BERLIN) == value.spec() == guess(text, BERLIN)


def test_the_31st_is_the_last_day_of_a_shorter_month_and_that_is_said() -> None:
    value = repeating("R/2026-01-31T09:00:00Z/P1M")
    assert [at.day for at in value.take(4, NEW_YEAR)] == [31, 28, 31, 30]
    assert "or the day before, where a month has no such day" in value.describe()
    assert "SKIP" not in repeating("R/2026-01-28T09:00:00Z/P1M").text
    notes = every("P1M", start="2026-01-31T09:00:00Z").notes(NEW_YEAR)
    assert "a month without day 31 has its last day instead" in [note.text for note in notes]


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("cron(0 12 * * * *)", 10, "in exactly one of"), ("cron(0 12 ? * ? *)", 10, "in exactly"),
        ("cron(0 12 * * ?)", 15, "5 fields"), ("cron(0 12 * * ? * 1)", 18, "7 fields"),
        ("cron(61 12 * * ? *)", 5, "0 to 59"), ("cron(0 12 ? * 0 *)", 14, "1 to 7"),
        ("cron(0 12 ? * 8#1 *)", 14, "1 to 7"), ("cron(H 12 ? * 1 *)", 5, "H does not go"),
        ("cron(0 12 ? * 1 2200)", 16, "1970 to 2199"), ("cron(0 12 * * ? *", 0, "write cron"),
        ("rate(0 minutes)", 5, "no rate"), ("rate(5 weeks)", 5, "no rate"), ("rate(5m)", 5, "no rate"),
        ("every x", 6, "write every 2 hours"), ("every -1 hours", 6, "not expected"),
        ("every day at 25:00", 13, "not a time of day"), ("every day on 9:00", 10, "write at"),
        ("every monday and at 9:00", 17, "not a weekday"), ("every monday at", 15, "not a time"),
        ("every monday at 9:00 sharp", 21, "ends before"), ("every 2 hours at 9:00", 14, "ends before"),
        ("every 1h30x", 8, "not a span"), ("every 0 days", 6, "1 millisecond"),
        ("R0/2026-01-01/P1D", 0, "R with a number"), ("R/soon/P1D", 2, "not a start"),
        ("R/2026-02-30/P1M", 2, "no day"), ("R/2026-01-01T25:00:00Z/P1D", 2, "hour must"),
        ("R/2026-01-01/1h", 13, "not a duration"), ("R/2026-01-01/PT0.5S", 13, "whole seconds"),
        ("R/2026-01-01/P1M1D", 13, "do not mix"), ("R/PT1H", 0, "R/START/DURATION"),
        (f"R{NUMBER_MAX + 1}/2026-01-01/P1D", 0, "R with a number"),
    ],
)  # fmt: skip
def test_a_fault_is_pointed_at(text: str, position: int, words: str) -> None:
    with pytest.raises(BadRecurrence, match=words) as caught:
        guess(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("head", "tail", "most"),
    [("every", "15m", PHRASE_CHARS_MAX), ("R/2026-01-01T00:00:00Z/PT1H", "", REPEATING_CHARS_MAX)],
)
def test_a_text_of_the_longest_length_is_read(head: str, tail: str, most: int) -> None:
    parse_recurrence(every=head + " " * (most - len(head + tail)) + tail)
    with pytest.raises(BadRecurrence, match=f"longer than {most} characters"):
        parse_recurrence(every=head + " " * (most + 1 - len(head + tail)) + tail)


def test_a_spec_of_each_compiles_to_the_same_value() -> None:
    for text in [*SPANS, *CLOCK, "cron(0 12 * * ? *)", "R5/2026-01-01T00:00:00Z/P1D"]:
        spec = guess(text, BERLIN)
        assert compile_spec(spec).take(3, NEW_YEAR) == value_of(spec).take(3, NEW_YEAR)
        assert len(compile_spec(spec).take(3, NEW_YEAR)) == 3


@pytest.mark.parametrize(
    ("text", "same", "note"),
    [
        ("*/100 9 * * *", "0 9 * * *", "a step of 100 is larger than the field minute: it means 0"),
        (
            "5 9 */32 * *",
            "5 9 1 * *",
            "a step of 32 is larger than the field day of month: it means 1",
        ),
        (
            "10/60 9 * * *",
            "10 9 * * *",
            "a step of 60 is larger than the field minute: it means 10",
        ),
    ],
)
def test_a_step_beyond_its_field_is_its_first_value(text: str, same: str, note: str) -> None:
    assert cron(text).take(5, NEW_YEAR) == cron(same).take(5, NEW_YEAR)
    assert [note.text for note in cron(text).notes(NEW_YEAR)] == [note]
    assert cron("*/59 9 * * *").notes(NEW_YEAR) == []
    assert cron("H/100 9 * * *", key="k").take(5, NEW_YEAR) == cron("H/60 9 * * *", key="k").take(
        5, NEW_YEAR
    )


@pytest.mark.parametrize(
    "text",
    ["FREQ=DAILY;", "RRULE:FREQ=DAILY; ", "DTSTART:20260101T000000Z\r\nRRULE:FREQ=DAILY;\r\n"],
)
def test_a_semicolon_at_the_end_is_noted(text: str) -> None:
    assert rrule(text).text.endswith("FREQ=DAILY")
    assert [note.text for note in notes_on_text(text)] == ["the semicolon at the end means nothing"]
    assert notes_on_text(text.replace(";", "")) == []
