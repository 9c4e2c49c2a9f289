"""When the jobs of a load are sent, and which loads are refused."""

import random
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.load import LoadPlan, Pacing
from onbeat.rules.load_times import check_load, send_times

PLAN = LoadPlan(
    run="a",
    task="t",
    queue="load",
    rate=10.0,
    span=2.0,
    pacing=Pacing.FIXED,
    connections=4,
    payload=0,
    patience=60.0,
)


def never() -> float:
    raise AssertionError("a fixed pace takes no chance")


def test_a_fixed_pace_has_equal_gaps() -> None:
    assert list(send_times(PLAN, never)) == [number / 10 for number in range(20)]
    assert list(send_times(replace(PLAN, rate=0.1), never)) == [0.0]


@pytest.mark.parametrize("rate", [3.0, 7.0, 1 / 3, 0.7, 49.0])
def test_no_job_is_sent_after_the_span(rate: float) -> None:
    times = list(send_times(replace(PLAN, rate=rate), never))
    assert all(0 <= at < PLAN.span for at in times)
    assert len(times) == pytest.approx(rate * PLAN.span, abs=1)


def test_random_gaps_have_the_rate_as_their_mean() -> None:
    plan = replace(PLAN, rate=100.0, span=200.0, pacing=Pacing.POISSON)
    times = list(send_times(plan, random.Random(7).random))
    assert len(times) == pytest.approx(20_000, rel=0.03)
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert min(gaps) >= 0
    # Of an exponential distribution the share above the mean is 1/e.
    assert sum(gap > 0.01 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.02)


@pytest.mark.parametrize("fraction", [0.0, 1 - 2**-53])
def test_the_ends_of_chance_are_times_too(fraction: float) -> None:
    plan = replace(PLAN, pacing=Pacing.POISSON)
    times = send_times(plan, iter([fraction, *[0.99] * 10]).__next__)
    assert all(0 <= at < PLAN.span for at in times)


def test_a_plan_within_the_bounds_passes() -> None:
    check_load(PLAN)
    check_load(replace(PLAN, rate=10_000.0, span=100.0, connections=500, payload=131_072))
    check_load(replace(PLAN, patience=0.0))


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("rate", {"rate": 0.0}),
        ("rate", {"rate": -1.0}),
        ("rate", {"rate": float("nan")}),
        ("rate", {"rate": 10_000.5}),
        ("for", {"span": 0.0}),
        ("for", {"span": 86_401.0}),
        ("for", {"rate": 10_000.0, "span": 100.1}),
        ("wait", {"patience": 86_401.0}),
        ("connections", {"connections": 0}),
        ("connections", {"connections": 501}),
        ("payload", {"payload": -1}),
        ("payload", {"payload": 131_073}),
    ],
)
def test_a_plan_over_a_bound_is_refused_by_name(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        check_load(replace(PLAN, **fields))
    assert refused.value.field == field
    assert str(refused.value).startswith((field, "rate times for"))
