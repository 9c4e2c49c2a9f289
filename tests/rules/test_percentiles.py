"""Percentiles against sorted lists."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.rules.percentiles import MICROSECOND, STEPS, Durations, Percentiles, bucket_of, last_of

microseconds = st.integers(0, 10**12)
shares = st.sampled_from([0.001, 0.25, 0.5, 0.95, 0.99, 0.999, 1.0])


@given(st.lists(microseconds, min_size=1, max_size=60), shares)
def test_a_percentile_is_that_of_the_sorted_list_but_for_its_bucket(
    values: list[int], share: float
) -> None:
    durations = Durations()
    for value in values:
        durations.record(value / MICROSECOND)
    true = sorted(values)[ceil(share * len(values)) - 1]
    found = durations.at(share)
    assert found is not None
    assert true <= round(found * MICROSECOND) <= true * (1 + 1 / STEPS)
    assert durations.at(1.0) == pytest.approx(max(values) / MICROSECOND)


@given(microseconds)
def test_the_buckets_lie_side_by_side(value: int) -> None:
    bucket = bucket_of(value)
    assert value <= last_of(bucket)
    assert bucket == 0 or last_of(bucket - 1) < value
    assert bucket_of(last_of(bucket) + 1) == bucket + 1


def test_memory_does_not_grow_with_the_number_of_durations() -> None:
    durations = Durations()
    for number in range(20_000):
        durations.record(number / 1_000)
    assert durations.count == 20_000
    assert len(durations.counts) < STEPS * 26  # 20 s are less than 2 ** 25 microseconds


def test_all_figures_of_a_list() -> None:
    durations = Durations()
    for milliseconds in range(1, 101):
        durations.record(milliseconds / 1_000)
    found = durations.percentiles()
    assert (found.count, found.max) == (100, 0.1)
    assert (found.p50, found.p95, found.p99) == pytest.approx((0.05, 0.095, 0.099), rel=1 / STEPS)


def test_nothing_was_measured() -> None:
    assert Durations().percentiles() == Percentiles(0)


def test_a_negative_duration_counts_as_none() -> None:
    durations = Durations()
    durations.record(-0.5)
    assert durations.percentiles() == Percentiles(1, 0.0, 0.0, 0.0, 0.0)
