import math
from bisect import bisect_left
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.pulse import (
    LATE_BOUNDS,
    LATE_FROM,
    LATENESS_BOUNDS,
    ROUGH_LATENESS_BOUNDS,
    Totals,
)
from onbeat.rules.pulses import added, counted, difference, together
from onbeat.rules.quantiles import (
    LATE_PLACE,
    buckets_of,
    lateness_buckets,
    latest_of,
    quantile,
    rough,
)

VERSION_ONE_BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0,
)  # fmt: skip

seconds = st.one_of(st.floats(0, 40), st.floats(0, 4_000), st.floats(0, 200_000))
some = st.lists(seconds, min_size=1, max_size=60)
shares = st.floats(0.01, 1.0)


def totals_of(values: list[float]) -> Totals:
    """What this version counts of them."""
    counts = [0] * (len(LATENESS_BOUNDS) + 1)
    for value in values:
        counts[bisect_left(LATENESS_BOUNDS, value)] += 1
    lateness, late = counted(rough(counts)), counted(counts[LATE_PLACE:])
    return Totals(len(values), lateness=lateness, late=late, latest=max(values, default=0.0))


def older(values: list[float]) -> Totals:
    """What a version before the finer bounds has stored of them."""
    counts = [0] * (len(VERSION_ONE_BOUNDS) + 1)
    for value in values:
        counts[bisect_left(VERSION_ONE_BOUNDS, value)] += 1
    row = msgspec.json.encode([len(values), [], counted(counts), []])
    return msgspec.json.decode(row, type=Totals)


def estimate(totals: Totals, share: float) -> float:
    found = quantile(lateness_buckets(totals), share, totals.latest)
    assert found is not None
    return found


def exact(values: list[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def edges(bounds: tuple[float, ...], value: float) -> tuple[float, float]:
    place = bisect_left(bounds, value)
    return (0.0, *bounds)[place], (*bounds, math.inf)[place]


@given(some, shares)
def test_a_quantile_lies_in_the_bucket_of_the_exact_one_and_not_above_the_latest(
    values: list[float], share: float
) -> None:
    low, high = edges(LATENESS_BOUNDS, exact(values, share))
    assert low <= estimate(totals_of(values), share) <= min(high, max(values))


@given(some, shares)
def test_rows_of_older_versions_are_read_by_their_own_bounds(
    values: list[float], share: float
) -> None:
    low, high = edges(VERSION_ONE_BOUNDS, exact(values, share))
    found = estimate(older(values), share)
    assert low - 1e-6 <= found <= high
    assert found <= VERSION_ONE_BOUNDS[-1], "of what is behind it they say no more"


@given(some, some, shares)
def test_rows_of_both_kinds_together_keep_to_the_rough_bounds(
    old: list[float], new: list[float], share: float
) -> None:
    total = together([older(old), totals_of(new)])
    low, high = edges(VERSION_ONE_BOUNDS, exact([*old, *new], share))
    assert low - 1e-6 <= estimate(total, share) <= high
    assert total.latest in (None, max(new))
    assert total.latest is None or total.latest >= max(old)


@given(some, some, some)
def test_what_is_the_latest_does_not_depend_on_the_order(
    one: list[float], two: list[float], three: list[float]
) -> None:
    parts = [older(one), totals_of(two), totals_of(three)]
    assert together([parts[0], together(parts[1:])]) == together(parts[::-1])


def test_older_programs_find_the_bounds_that_they_know() -> None:
    assert ROUGH_LATENESS_BOUNDS == VERSION_ONE_BOUNDS
    assert {*VERSION_ONE_BOUNDS} < {*LATENESS_BOUNDS}
    assert list(LATENESS_BOUNDS) == sorted(LATENESS_BOUNDS)
    assert max(high / low for low, high in pairwise((LATE_FROM, *LATE_BOUNDS))) <= 4
    row = msgspec.json.decode(msgspec.json.encode(totals_of([0.002, 45, 400, 9_000])))
    assert row[2] == [0, 1, *[0] * 10, 1, 1, 1]


@given(some, some)
def test_a_difference_has_the_latest_of_its_own_span(
    before: list[float], after: list[float]
) -> None:
    first, second = totals_of(before), totals_of(after)
    later = msgspec.structs.replace(together([first, second]), latest=second.latest)
    assert difference(first, later) == second
    assert difference(later, later).latest is None, "nothing started"


def test_eleven_minutes_are_not_three_quarters_of_an_hour() -> None:
    values = [float(value) for value in range(301, 562, 10)]
    assert 500 < estimate(totals_of(values), 0.95) <= 551
    assert estimate(totals_of([7_000.0] * 20), 1.0) == 7_000
    assert estimate(totals_of([100_000.0]), 1.0) == 100_000


def test_nothing_is_not_zero() -> None:
    assert quantile(lateness_buckets(Totals()), 0.5) is None
    assert latest_of([]) is None
    assert latest_of([Totals(latest=3.0), older([0.2])]) == 3.0
    assert latest_of([Totals(latest=3.0), older([20.0])]) is None
    assert added([]) == ()


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ((), 0.5, None),
        ((4,), 0.5, 0.5),
        ((4,), 1.0, 1.0),
        ((0, 4), 0.5, 1.5),
        ((2, 2), 0.5, 1.0),
        ((2, 2), 0.75, 1.5),
        ((1, 0, 9), 0.95, 2.0),
    ],
)
def test_a_quantile_is_interpolated(
    counts: tuple[int, ...], share: float, expected: float | None
) -> None:
    assert quantile(buckets_of((1.0, 2.0), counts), share) == expected
