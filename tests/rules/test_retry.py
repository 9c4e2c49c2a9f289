from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat import Invalid, Retry
from onbeat.model.limits import ATTEMPTS_MAX, LOST_MAX_LARGEST, SPAN_MAX
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.testing.build import SECOND

SPANS = st.timedeltas(min_value=timedelta(), max_value=SPAN_MAX)


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff.EXPONENTIAL, [1, 2, 4, 8, 10, 10]),
        (Backoff.LINEAR, [1, 2, 3, 4, 5, 6]),
        (Backoff.FIXED, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_waits_grow_as_the_policy_says_and_no_further_than_its_bound(
    backoff: Backoff, waits: list[int]
) -> None:
    policy = RetryPolicy(backoff=backoff, delay=SECOND, delay_max=10 * SECOND, jitter=False)
    assert [policy.delay_after(n, 0.5) for n in range(1, 7)] == [n * SECOND for n in waits]


@given(
    backoff=st.sampled_from(Backoff),
    delay=SPANS,
    delay_max=SPANS,
    failures=st.integers(1, ATTEMPTS_MAX + 3),
    chance=st.floats(0, 1, exclude_max=True),
    jitter=st.booleans(),
)
def test_every_policy_that_can_be_written_has_a_wait_within_its_bound(
    backoff: Backoff,
    delay: timedelta,
    delay_max: timedelta,
    failures: int,
    chance: float,
    jitter: bool,
) -> None:
    policy = RetryPolicy(backoff=backoff, delay=delay, delay_max=delay_max, jitter=jitter)
    wait = policy.delay_after(failures, chance)
    assert timedelta() <= wait <= delay_max


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 20))
def test_full_jitter_spreads_over_the_whole_wait(chance: float, failures: int) -> None:
    policy = RetryPolicy(delay=SECOND, delay_max=timedelta(days=99))
    full = policy.full_delay_after(failures)
    assert policy.delay_after(failures, chance) == full * chance


def test_a_policy_reads_spans_in_all_their_forms() -> None:
    policy = Retry(5, backoff="linear", delay="90s", delay_max=timedelta(hours=2), jitter=False)
    assert policy == RetryPolicy(
        attempts_max=5,
        backoff=Backoff.LINEAR,
        delay=90 * SECOND,
        delay_max=timedelta(hours=2),
        jitter=False,
    )


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"attempts_max": 0}, "attempts_max"),
        ({"attempts_max": ATTEMPTS_MAX + 1}, "attempts_max"),
        ({"delay": "soon"}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"delay_max": "99999d"}, "delay_max"),
        ({"delay": "2h", "delay_max": "1h"}, "delay_max"),
        ({"attempts_max": None}, "attempts_max"),
        ({"attempts_max": "3"}, "attempts_max"),
        ({"attempts_max": 2.5}, "attempts_max"),
        ({"attempts_max": True}, "attempts_max"),
        ({"lost_max": "3"}, "lost_max"),
        ({"backoff": "sometimes"}, "backoff"),
    ],
)
def test_a_policy_that_cannot_be_right_names_what_is_wrong(
    said: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as raised:
        Retry(**said)
    assert raised.value.field == field


def test_a_delay_over_the_default_bound_is_its_own_bound() -> None:
    assert Retry(delay="2h").delay_max == timedelta(hours=2)
    assert Retry(delay="2s").delay_max == timedelta(hours=1)


@pytest.mark.parametrize("lost_max", [0, LOST_MAX_LARGEST + 1])
def test_a_budget_of_deaths_has_bounds(lost_max: int) -> None:
    with pytest.raises(Invalid, match="lost_max must be from 1 to 100"):
        Retry(lost_max=lost_max)


@pytest.mark.parametrize("lost_max", [1, LOST_MAX_LARGEST])
def test_a_budget_of_deaths_may_reach_its_bounds(lost_max: int) -> None:
    assert Retry(lost_max=lost_max).lost_max == lost_max
