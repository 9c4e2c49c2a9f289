"""COUNT up to the largest that can be written: counted by arithmetic, or only if somebody asks."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.recurrence import Budget, parse_recurrence, rrule, value_of
from onbeat.recurrence.counted import FarEnd, find_end
from onbeat.recurrence.elapsed_rule import ElapsedGrid
from onbeat.recurrence.grid_count import nth_on_grid, quotients
from onbeat.recurrence.rrule_text import NUMBER_MAX
from recurrence.strategies import short_rules, starts, zones

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 1, 1, tzinfo=UTC)
START = "DTSTART;TZID=Europe/Berlin:20260101T000000\nRRULE:"

RULES = [
    "FREQ=SECONDLY", "FREQ=SECONDLY;INTERVAL=7;BYHOUR=3", "FREQ=SECONDLY;BYDAY=MO;BYHOUR=3",
    "FREQ=MINUTELY;INTERVAL=7;BYSECOND=1,2;BYHOUR=3", "FREQ=HOURLY;BYMINUTE=0,30", "FREQ=DAILY",
    "FREQ=DAILY;BYHOUR=1,2;BYSETPOS=1", "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=-1",
    "FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=BACKWARD;BYMONTHDAY=31,30;BYSETPOS=1",
    "FREQ=YEARLY;BYWEEKNO=1,53;BYSETPOS=1", "FREQ=YEARLY;BYEASTER=0", "FREQ=YEARLY",
]  # fmt: skip


@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 200), st.integers(-500, 500))
def test_a_sum_of_quotients_is_that_of_its_terms(
    terms: int, divisor: int, step: int, begin: int
) -> None:
    listed = sum((begin + k * step) // divisor for k in range(terms))
    assert quotients(terms, divisor, step, begin) == listed


@given(short_rules(), starts, zones, st.integers(1, 300))
def test_an_end_by_arithmetic_is_that_of_walking(
    text: str, start: datetime, zone: str, n: int
) -> None:
    text = text.split(";COUNT", maxsplit=1)[0]
    try:
        value = rrule(f"DTSTART;TZID={zone}:{start:%Y%m%dT%H%M%S}\nRRULE:{text}")
    except BadRecurrence:
        return
    assert isinstance(value.core, ElapsedGrid)
    walked = value.take(n, LONG_AGO)
    if len(walked) == n:
        counted = nth_on_grid(value.core, n, Budget(10**7))
        assert counted == int(walked[-1].timestamp())


@pytest.mark.parametrize("rule", RULES)
def test_the_largest_count_costs_no_more_than_none(rule: str) -> None:
    def steps(text: str) -> int:
        budget = Budget(100_000)
        spec = parse_recurrence(rrule=START + text, budget=budget)
        value_of(spec).within(budget).take(10, NEW_YEAR)
        return budget.steps - budget.left

    assert steps(f"{rule};COUNT={NUMBER_MAX}") <= steps(rule) + 10
    counted = rrule(f"{START}{rule};COUNT={NUMBER_MAX}")
    assert counted.take(50, NEW_YEAR) == rrule(START + rule).take(50, NEW_YEAR)
    with pytest.raises(BadRecurrence, match="2,147,483,647"):
        rrule(f"{START}{rule};COUNT={NUMBER_MAX + 1}")


@pytest.mark.parametrize(
    ("rule", "count"),
    [("FREQ=SECONDLY;INTERVAL=7;BYHOUR=3", 10**9), ("FREQ=DAILY;BYHOUR=1,2", 10**5)],
)
def test_a_far_end_is_found_when_it_is_asked_for(rule: str, count: int) -> None:
    value = rrule(f"{START}{rule};COUNT={count}")
    assert isinstance(value.core, FarEnd)
    assert not value.core.found
    end = value.before(LAST)
    assert end is not None
    assert value.core.found
    assert value.after(end) is None
    whole = rrule(START + rule).core
    assert whole is not None
    assert not isinstance(whole, FarEnd)
    find_end(whole, count, Budget(10**6))
    assert whole.before_us(10**18) == int(end.timestamp()) * 10**6


def test_an_end_ahead_ends_a_search_forwards_too() -> None:
    value = rrule(f"{START}FREQ=DAILY;BYHOUR=1,2;COUNT=100001")
    assert isinstance(value.core, FarEnd)
    end = rrule(f"{START}FREQ=DAILY;BYHOUR=1,2;COUNT=100001").before(LAST)
    assert end is not None
    assert end.hour in {0, 1}  # the 50,001st day has only one of its two
    assert value.after(end) is None


def test_an_end_that_takes_too_long_to_count_says_so_only_when_asked_for() -> None:
    value = rrule(f"{START}FREQ=SECONDLY;INTERVAL=7;BYDAY=MO;BYHOUR=3;COUNT={NUMBER_MAX}")
    assert len(value.take(1_000, NEW_YEAR)) == 1_000
    with pytest.raises(TooCostly, match="leave out COUNT"):
        value.before(LAST)


def test_a_count_near_the_start_that_cannot_be_counted_is_refused() -> None:
    # At most every second; it would take some hundred million days to find out.
    odd = ",".join(map(str, range(1, 60, 2)))
    rule = f"FREQ=SECONDLY;INTERVAL=7;BYDAY=MO;BYHOUR=3;BYMINUTE={odd};BYSECOND={odd};COUNT=5000000"
    with pytest.raises(TooCostly, match="leave out COUNT"):
        rrule(START + rule)


def test_an_interval_of_the_largest_number_takes_no_memory() -> None:
    for freq in ("YEARLY", "MONTHLY", "WEEKLY", "DAILY"):
        value = rrule(f"{START}FREQ={freq};INTERVAL={NUMBER_MAX}")
        assert len(value.take(5, LONG_AGO)) == 1
        assert value.after(NEW_YEAR) is None
