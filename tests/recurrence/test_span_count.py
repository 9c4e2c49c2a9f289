"""Counting a dense rule gives what visiting its occurrences does."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import TooCostly
from onbeat.recurrence import Budget, Recurrence, cron, every, rrule

START = datetime(2026, 3, 2, 12, 0, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns")

seconds = st.integers(1, 3_599)
intervals = seconds.map(lambda period: every(f"{period}s", start=START))
grids = st.builds(
    lambda freq, size, zone, end: rrule(f"FREQ={freq};INTERVAL={size}{end}", tz=zone, start=START),
    st.sampled_from(["SECONDLY", "MINUTELY"]),
    st.integers(1, 59),
    st.sampled_from(ZONES),
    st.sampled_from(["", ";COUNT=1000", ";UNTIL=20260329T013000Z"]),
)
crons = st.builds(
    lambda text, zone: cron(text, tz=zone),
    st.sampled_from(
        [
            "*/7 * * * * *",
            "* * * * *",
            "*/20 * * * 1-5",
            "5-55/5 1-3 * * *",
            "30 * 0-5,23 29 3,10 *",
        ]
    ),
    st.sampled_from(ZONES),
)
turns = st.sampled_from(
    [
        START,
        datetime(2026, 3, 29, 1, tzinfo=UTC),
        datetime(2026, 10, 25, 1, tzinfo=UTC),
        datetime(2026, 4, 4, 15, tzinfo=UTC),
        datetime(9999, 12, 31, 20, tzinfo=UTC),
        datetime(1, 1, 1, 5, tzinfo=UTC),
    ]
)


@given(
    st.one_of(intervals, grids, crons), turns, st.integers(-200, 200), st.integers(1, 60), st.data()
)
def test_a_count_is_what_a_visit_finds(
    rule: Recurrence, turn: datetime, minutes: int, length: int, data: st.DataObject
) -> None:
    first = turn + timedelta(minutes=minutes, microseconds=data.draw(st.sampled_from([0, 1, -1])))
    last = first + timedelta(minutes=length)
    assert rule.is_dense(first)
    number = rule.count(first, last)
    assert number in (None, len(rule.between(first - TICK, last)))


@pytest.mark.parametrize("zone", ZONES)
def test_only_beside_a_change_of_the_clock_must_be_visited(zone: str) -> None:
    rule = cron("*/2 * * * * *", tz=zone)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [begin + number * HOUR for number in range(8_760)]
    counts = [rule.count(hour, hour + HOUR) for hour in hours]
    assert counts.count(None) <= 8
    assert {*counts} - {None} == {1_800}


@pytest.mark.parametrize(
    "rule",
    [
        cron("0 * * * *"),
        every("1h", start=START),
        rrule("FREQ=SECONDLY;BYHOUR=3", start=START),
        every("1s", start=START).excluding(every("2s", start=START)),
    ],
)
def test_other_rules_are_visited(rule: Recurrence) -> None:
    assert not rule.is_dense(START)
    assert rule.count(START, START + HOUR) in (None, 1)


def test_a_count_costs_steps() -> None:
    rule = every("1s", start=START).within(Budget(3))
    assert rule.count(START, START + HOUR) == 3_600
    with pytest.raises(TooCostly):
        rule.count(START, START + HOUR)
