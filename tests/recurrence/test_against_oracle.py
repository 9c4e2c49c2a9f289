"""The engine and the slow oracle say the same, forwards and backwards, in every zone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import Recurrence, rrule
from recurrence import oracle
from recurrence.strategies import long_rules, short_rules, starts, zones

LONG_AGO = datetime(1960, 1, 1, tzinfo=UTC)
MANY = 3000


def agree(
    text: str, start: datetime, zone: str, end: datetime, gap: str = "shift", fold: str = "first"
) -> None:
    wanted = oracle.instants(text, start, zone, end, gap, fold)
    value = engine(text, start, zone, gap, fold)
    candidate = value.between(LONG_AGO, end, limit=MANY) if value else []
    assert candidate == wanted[:MANY]
    if value and len(wanted) < MANY:
        assert backwards(value, end, 40) == wanted[::-1][:40]


def engine(text: str, start: datetime, zone: str, gap: Any, fold: Any) -> Recurrence | None:
    try:
        block = f"DTSTART;TZID={zone}:{start:%Y%m%dT%H%M%S}\nRRULE:{text}"
        return rrule(block, dst_gap=gap, dst_fold=fold)
    except BadRecurrence as error:
        if "never" not in str(error):
            raise
        return None


def backwards(value: Recurrence, end: datetime, count: int) -> list[datetime]:
    candidates: list[datetime] = []
    while len(candidates) < count and (end := value.before(end)) is not None:
        candidates.append(end)
    return candidates


@given(
    long_rules(),
    starts,
    zones,
    st.sampled_from(["shift", "skip", "end"]),
    st.sampled_from(["first", "last", "both"]),
)
def test_rules_of_days_and_longer_are_those_of_the_oracle(
    text: str, start: datetime, zone: str, gap: str, fold: str
) -> None:
    agree(text, start, zone, (start + timedelta(1100)).replace(tzinfo=UTC), gap, fold)


@given(short_rules(), starts, zones)
def test_rules_of_hours_and_shorter_are_those_of_the_oracle(
    text: str, start: datetime, zone: str
) -> None:
    rule = oracle.parts_of(text)
    step = timedelta(seconds=int(rule["INTERVAL"]) * oracle.UNIT[rule["FREQ"]])
    agree(text, start, zone, (start + min(timedelta(40), 120 * step)).replace(tzinfo=UTC))


# Two days before each kind of change, so that the days around it are all seen.
CHANGES = [
    ("America/New_York", "2025-03-07"), ("America/New_York", "2025-10-31"),
    ("Europe/Berlin", "2025-03-28"), ("Europe/Berlin", "2025-10-24"),
    ("Australia/Lord_Howe", "2025-04-04"), ("Australia/Lord_Howe", "2025-10-03"),
    ("Pacific/Apia", "2011-12-28"), ("Pacific/Kwajalein", "1993-08-19"),
    ("America/Santiago", "2024-09-06"), ("America/Santiago", "2024-04-05"),
    ("America/Havana", "2024-03-08"), ("America/Havana", "2024-11-01"),
    ("Asia/Beirut", "2024-03-29"), ("Africa/Cairo", "2024-04-24"),
    ("Africa/Cairo", "2024-10-30"), ("America/Sao_Paulo", "2018-11-02"),
    ("Africa/Casablanca", "2024-03-08"), ("Africa/Casablanca", "2024-04-12"),
    ("Asia/Pyongyang", "2015-08-13"), ("Asia/Pyongyang", "2018-05-03"),
    ("America/Caracas", "2007-12-07"), ("America/Caracas", "2016-04-29"),
    ("Europe/Moscow", "2011-03-25"), ("Europe/Moscow", "2014-10-24"),
    ("Antarctica/Troll", "2024-03-29"), ("Antarctica/Troll", "2024-10-25"),
    ("Europe/Dublin", "2024-03-29"), ("Europe/Dublin", "2024-10-25"),
    ("America/Nuuk", "2024-03-29"), ("America/St_Johns", "2006-03-31"),
    ("Pacific/Kiritimati", "1994-12-30"), ("Africa/Monrovia", "1972-01-05"),
    ("Asia/Tehran", "2022-03-20"), ("Asia/Gaza", "2024-04-18"),
]  # fmt: skip
LONG = [
    "FREQ=DAILY",
    "FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=0,15,30,45",
    "FREQ=DAILY;BYHOUR=0,2,23;BYMINUTE=30;BYSETPOS=-1,1",
]
SHORT = [
    "FREQ=HOURLY",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=HOURLY;BYMINUTE=0,45",
    "FREQ=MINUTELY;INTERVAL=15;BYHOUR=0,1,2",
    "FREQ=SECONDLY;INTERVAL=1800",
]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("text", LONG)
@pytest.mark.parametrize(("gap", "fold"), [("shift", "first"), ("skip", "last"), ("end", "both")])
def test_days_around_a_change_of_clocks_are_those_of_the_oracle(
    zone: str, day: str, text: str, gap: str, fold: str
) -> None:
    start = datetime.fromisoformat(day)
    agree(text, start, zone, (start + timedelta(5)).replace(tzinfo=UTC), gap, fold)


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("text", SHORT)
def test_hours_around_a_change_of_clocks_are_those_of_the_oracle(
    zone: str, day: str, text: str
) -> None:
    start = datetime.fromisoformat(day) + timedelta(hours=18)
    agree(text, start, zone, (start + timedelta(2.5)).replace(tzinfo=UTC))
