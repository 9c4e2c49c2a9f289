"""The same as other libraries, each where it is known to be right."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr
from hypothesis import assume, given
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import cron, rrule
from recurrence.strategies import long_rules, starts


def mixed_numbers(text: str) -> bool:
    """BYDAY with and without numbers, which dateutil reads as the numbered ones only."""
    by_day = next((part for part in text.split(";") if part.startswith("BYDAY")), "")
    items = by_day.partition("=")[2].split(",")
    return len({item[:-2] == "" for item in items}) > 1


@given(long_rules(), starts)
def test_dateutil_agrees_in_utc(text: str, start: datetime) -> None:
    # Weeks at the ends of the year, and leap seconds, are where it goes its own ways. So is the
    # first week of a BYSETPOS: it counts from DTSTART on, where the whole week is meant.
    assume("BYWEEKNO" not in text and not mixed_numbers(text) and "60" not in text)
    assume(not ("FREQ=WEEKLY" in text and "BYSETPOS" in text))
    try:
        value = rrule(f"DTSTART:{start:%Y%m%dT%H%M%S}Z\nRRULE:{text}")
    except BadRecurrence:
        return
    theirs = rrulestr(text.replace("Z", ""), dtstart=start)
    end = start + timedelta(1500)
    wanted = [at.replace(tzinfo=UTC) for at in theirs.xafter(start, 60, inc=True) if at < end]
    candidate = value.between(
        start.replace(tzinfo=UTC) - timedelta(1), end.replace(tzinfo=UTC), limit=60
    )
    assert candidate == wanted[:60]


@st.composite
def crons(draw: Callable[..., Any]) -> str:
    def field(low: int, high: int, step: int) -> str:
        number = st.integers(low, high).map(str)
        stretch = st.tuples(st.integers(low, high), st.integers(low, high)).map(
            lambda pair: f"{min(pair)}-{max(pair)}"
        )
        return draw(
            st.one_of(
                st.just("*"), number, stretch, st.integers(2, step).map(lambda n: f"*/{n}"),
                st.lists(number, min_size=2, max_size=4, unique=True).map(",".join),
            )
        )  # fmt: skip

    return " ".join(
        (field(0, 59, 30), field(0, 23, 12), field(1, 28, 14), field(1, 12, 6), field(0, 6, 3))
    )


@given(crons(), starts)
def test_cronsim_agrees_in_utc(text: str, start: datetime) -> None:
    start = start.replace(tzinfo=UTC)
    simulated = CronSim(text, start)
    wanted = [next(simulated) for _ in range(20)]
    assert cron(text).take(20, after=start) == wanted


@given(crons(), starts)
def test_croniter_agrees_in_utc(text: str, start: datetime) -> None:
    day, weekday = text.split()[2], text.split()[4]
    # It takes `*/2` beside a weekday for a day that was named, and `1-1` for every value;
    # Vixie's cron does neither.
    assume(not re.search(r"\b(\d+)-\1\b", text))
    assume(not (("/" in day and weekday != "*") or ("/" in weekday and day != "*")))
    start = start.replace(tzinfo=UTC)
    theirs = croniter(text, start)
    assert cron(text).take(20, after=start) == [theirs.get_next(datetime) for _ in range(20)]


@pytest.mark.parametrize("text", ["0 0 L * *", "0 0 * * 5L", "0 0 * * 2#2", "0 0 LW * *"])
def test_cronsim_agrees_on_last_and_nth_days(text: str) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    simulated = CronSim(text, start)
    assert cron(text).take(50, after=start) == [next(simulated) for _ in range(50)]


@pytest.mark.parametrize(
    ("text", "zone", "day"),
    [
        ("30 2 * * *", "America/New_York", "2025-03-08"),
        ("30 1 * * *", "America/New_York", "2025-11-01"),
        ("*/15 * * * *", "America/New_York", "2025-03-09"),
        ("*/15 * * * *", "America/New_York", "2025-11-02"),
        ("0 * * * *", "Europe/Berlin", "2025-10-25"),
        ("15 */2 * * *", "Europe/Berlin", "2025-03-29"),
        ("0 0 * * *", "America/Santiago", "2024-09-07"),
        ("0,30 0-3 * * *", "Europe/Berlin", "2025-03-29"),
        ("0,30 0-3 * * *", "Europe/Berlin", "2025-10-25"),
    ],
)
def test_cronsim_agrees_on_changes_of_clocks(text: str, zone: str, day: str) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    simulated = CronSim(text, start)
    wanted = [next(simulated).astimezone(UTC) for _ in range(150)]
    assert cron(text, tz=zone).take(150, after=start) == wanted
