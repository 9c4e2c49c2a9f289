"""What may be written, where a fault is, and that canonical text means the same."""

import contextlib
import string
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost import cost
from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import cron, every, guess, parse_recurrence, rrule
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.builders import rrule_spec
from onbeat.recurrence.compile import core_of
from onbeat.recurrence.cron_text import CRON_TEXT_MAX
from onbeat.recurrence.durations import SPAN_MIN_US, SPAN_TEXT_MAX
from onbeat.recurrence.rrule_text import DATES_MAX, NUMBER_MAX, RULE_TEXT_MAX, RULES_MAX
from recurrence.strategies import long_rules, short_rules, starts, zones

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


@given(long_rules() | short_rules(), starts, zones)
def test_canonical_text_reads_as_an_equal_value(text: str, start: datetime, zone: str) -> None:
    try:
        value = rrule(text, tz=zone, start=start.replace(tzinfo=UTC))
    except BadRecurrence:
        return
    again = rrule(value.text, tz=value.tz)
    assert again == value
    assert again.text == value.text
    assert hash(again) == hash(value)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "empty"),
        ("FREQ=DALY", 5, "not one of YEARLY"),
        ("INTERVAL=2", 0, "FREQ is missing"),
        ("FREQ=DAILY;;", 11, "extra semicolon"),
        ("FREQ=DAILY;;COUNT=1", 11, "extra semicolon"),
        (";", 0, "extra semicolon"),
        ("FREQ=DAILY;BYDAYS=MO", 11, "did you mean BYDAY"),
        ("FREQ=DAILY;FREQ=DAILY", 11, "given twice"),
        ("FREQ=DAILY;COUNT=0", 17, "whole number"),
        ("FREQ=DAILY;COUNT=1_0", 17, "whole number"),
        ("FREQ=DAILY;COUNT=１", 17, "whole number"),
        ("FREQ=DAILY;INTERVAL=-1", 20, "whole number"),
        ("FREQ=DAILY;BYHOUR=1,24", 20, "0 to 23"),
        ("FREQ=DAILY;BYHOUR=+1", 18, "0 to 23"),
        ("FREQ=DAILY;BYSECOND=61", 20, "0 to 60"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", 24, "1 to 31, or negative"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", 24, "1 to 31, or negative"),
        ("FREQ=YEARLY;BYMONTH=5L", 20, "1 to 12"),
        ("FREQ=WEEKLY;BYDAY=MO,XX", 21, "weekday"),
        ("FREQ=MONTHLY;BYDAY=0MO", 19, "weekday"),
        ("FREQ=WEEKLY;BYDAY=1MO", 12, "MONTHLY or YEARLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", 12, "FREQ=MONTHLY"),
        ("FREQ=DAILY;BYYEARDAY=1", 11, "FREQ=YEARLY"),
        ("FREQ=MONTHLY;BYWEEKNO=1", 13, "FREQ=YEARLY"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", 23, "BYWEEKNO"),
        ("FREQ=DAILY;BYSETPOS=1", 11, "another BY part"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20250101T000000Z", 19, "exclude each other"),
        ("FREQ=DAILY;UNTIL=2025-01-01", 17, "not a date and time"),
        ("FREQ=DAILY;UNTIL=20250230T000000Z", 17, "no day 2025-02-30"),
        ("FREQ=DAILY;UNTIL=20250101T240000Z", 17, "no time 24:00:00"),
        ("RSCALE=HEBREW;FREQ=DAILY", 7, "only GREGORIAN"),
        ("DTSTART:20250101\nRRULE:FREQ=DAILY;BYHOUR=99", 41, "0 to 23"),
        ("DTSTART:20250101T0900\n 00Z\nRRULE:FREQ=DAI\n LX", 38, "not one of"),
        ("DTSTART;TZID=UTC:20250101T090000Z\nRRULE:FREQ=DAILY", 17, "Z means UTC"),
        ("DTSTART;LANG=x:20250101\nRRULE:FREQ=DAILY", 8, "TZID or VALUE"),
        ("DTSTART:20250101\nDTSTART:20250101", 17, "given twice"),
        ("SUMMARY:x", 0, "unknown property SUMMARY"),
        (
            "BEGIN:VEVENT\nRRULE:FREQ=DAILY\nEND:VEVENT",
            0,
            "leave out BEGIN; give the lines DTSTART",
        ),
        ("EXDATE:20250101", 0, "no RRULE"),
    ],
)
def test_a_fault_is_pointed_at(text: str, position: int, words: str) -> None:
    with pytest.raises(BadRecurrence, match=words) as error:
        rrule(text)
    assert error.value.position == position
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "text",
    [
        "freq=daily;count=3",
        "FREQ=DAILY;COUNT=3;",
        "RRULE:FREQ=DAILY;COUNT=3",
        "DTSTART=20250101T000000Z;FREQ=DAILY;COUNT=3",
        "DTSTART:20250101T000000Z\r\nRRULE:FREQ=DAILY;COUNT=3\r\n",
        "  DTSTART:20250101T000000Z\nRRULE:FREQ=DAI\n LY;COUNT=3",
        'DTSTART;TZID="UTC":20250101T000000\nRRULE:FREQ=DAILY;COUNT=3',
        "RRULE:FREQ=DAILY;COUNT=3\nDTSTART:20250101T000000Z",
    ],
)
def test_one_rule_may_be_written_in_many_ways(text: str) -> None:
    candidate = rrule(text).take(9, after=datetime(2024, 12, 31, tzinfo=UTC))
    assert len(candidate) == 3


alphabet = st.sampled_from('FREQ=DAILYWKMOHU;:,BYSETPOS0123456789-+TZ\r\n "/*#LW?@' + "é\0")


def refusal(read: Callable[..., Any], text: str) -> int | None:
    try:
        read(text)
    except BadRecurrence as error:
        return error.position
    return None


@given(st.text(alphabet, max_size=60) | st.text(max_size=30))
def test_nonsense_is_refused_and_nothing_worse(text: str) -> None:
    for read in (rrule, cron, every, guess):
        position = refusal(read, text)
        assert position is None or 0 <= position <= len(text)


@given(long_rules() | short_rules(), st.integers(0, 60), st.sampled_from(string.printable))
def test_a_rule_with_one_wrong_character_is_read_or_refused_in_time(
    text: str, at: int, letter: str
) -> None:
    def read() -> None:
        with contextlib.suppress(BadRecurrence):
            rrule(f"DTSTART:20250101T000000Z\nRRULE:{text[:at]}{letter}{text[at + 1 :]}")

    assert cost(read) < 1, "seconds of the processor"


NEVER = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=2SU",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=HOURLY;INTERVAL=2;BYHOUR=1",
    "FREQ=HOURLY;INTERVAL=168;BYDAY=TU",
    "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=MINUTELY;BYSECOND=1;BYSETPOS=2",
    "FREQ=DAILY;UNTIL=20200101T000000Z",
    "FREQ=SECONDLY;INTERVAL=60;BYSECOND=1",
]


@pytest.mark.parametrize("text", NEVER)
def test_what_never_fires_is_refused_within_few_steps(text: str) -> None:
    """10,000 steps take about 10 ms; a search that needs more is refused as too costly."""
    whole = f"DTSTART:20210104T000000Z\nRRULE:{text}"
    with pytest.raises(BadRecurrence, match="never"):
        core_of(rrule_spec(whole, None, None, "shift", "first"), Budget(10_000))


def test_what_every_exdate_takes_away_is_refused() -> None:
    with pytest.raises(BadRecurrence, match="never"):
        rrule("DTSTART:20250101T000000Z\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20250101T000000Z")


def test_bounds_hold_at_their_edges() -> None:
    rrule(f"FREQ=DAILY;COUNT={NUMBER_MAX}")
    with pytest.raises(BadRecurrence):
        rrule(f"FREQ=DAILY;COUNT={NUMBER_MAX + 1}")
    hours = "FREQ=DAILY;BYHOUR=" + ",".join(["1"] * 5000)
    rrule(hours[: RULE_TEXT_MAX - 1])
    with pytest.raises(BadRecurrence, match="longer"):
        rrule(hours + ",1" * 1000)
    dates = ",".join(["20250101T000000Z"] * DATES_MAX)
    rrule(f"RDATE:{dates}")
    with pytest.raises(BadRecurrence, match="more than"):
        rrule(f"RDATE:{dates},20250101T000000Z")
    lines = ["DTSTART:20250101T000000Z"] + ["RRULE:FREQ=DAILY"] * RULES_MAX
    rrule("\n".join(lines))
    with pytest.raises(BadRecurrence, match="more than"):
        rrule("\n".join([*lines, "RRULE:FREQ=DAILY"]))
    with pytest.raises(BadRecurrence, match="longer"):
        cron("0" * (CRON_TEXT_MAX + 1))
    with pytest.raises(BadRecurrence, match="longer"):
        every("1" * (SPAN_TEXT_MAX + 1))
    every(SPAN_MIN_US / 1e6)
    with pytest.raises(BadRecurrence):
        every(SPAN_MIN_US / 2e6)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("90s", "1m30s"), ("5m", "5m"), ("1h30m", "1h30m"), ("PT15M", "15m"), ("P1D", "1d"),
        ("P1W", "7d"), ("PT0.5S", "0.5s"), ("1.5h", "1h30m"), ("P1Y2M", "P1Y2M"), ("15", "15s"),
        ("100ms", "0.1s"), (90, "1m30s"), (0.25, "0.25s"),
    ],
)  # fmt: skip
def test_a_span_is_read_in_many_ways(text: float | str, canonical: str) -> None:
    assert every(text).text == canonical
    assert every(canonical) == every(text)


@pytest.mark.parametrize(
    "text",
    ["", "x", "m5", "1m1h", "-5m", "P", "PT", "P1M1D", "1e9999", 0, -1, float("nan"), float("inf")],
)
def test_what_is_no_span_is_refused(text: float | str) -> None:
    with pytest.raises(BadRecurrence):
        every(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FREQ=DAILY", "rrule"), ("DTSTART:20250101\nRRULE:FREQ=DAILY", "rrule"),
        ("*/5 * * * *", "cron"), ("@daily", "cron"), ("TZ=Asia/Tokyo 0 9 * * *", "cron"),
        ("every 15m", "every"), ("15m", "every"), ("PT1H", "every"), ("@every 5m", "every"),
        ("2025-01-31T09:00:00Z", "once"),
    ],
)  # fmt: skip
def test_a_rule_is_known_by_its_looks(text: str, kind: str) -> None:
    assert guess(text).kind == kind


def test_exactly_one_field_is_given() -> None:
    assert parse_recurrence(every="15m").text == "15m"
    assert parse_recurrence(cron="@daily", timezone="Asia/Tokyo").tz == "Asia/Tokyo"
    with pytest.raises(BadRecurrence, match="not none"):
        parse_recurrence()
    with pytest.raises(BadRecurrence, match="not cron and every"):
        parse_recurrence(cron="@daily", every="5m")
    with pytest.raises(BadRecurrence, match="did you mean Europe/Berlin"):
        parse_recurrence(cron="@daily", timezone="Europe/Berln")
