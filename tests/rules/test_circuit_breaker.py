"""A breaker on a clock of the test's own: when it opens, what it lets through, when jobs return."""

import heapq
from collections import Counter
from collections.abc import Callable
from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.rules.circuit_breaker import (
    CALLS_MIN,
    HOLD_SECONDS_MAX,
    HOLD_SECONDS_MIN,
    PACE_MIN,
    PAUSE_SECONDS_MAX,
    PROBE_SECONDS_MAX,
    RAMP_JOBS_MIN,
    RETURN_SECONDS_MAX,
    RETURNS_PER_SECOND,
    TOKENS_SECONDS,
    WINDOW_SECONDS,
    Breaker,
    Pass,
    Ramp,
    hold_seconds,
    ramp_for,
)

CHANCES = st.floats(0, 1, exclude_max=True)


def called(breaker: Breaker, now: float, *, is_down: bool, chance: float = 0.5) -> Pass:
    leave = breaker.admit(now)
    assert leave is not None
    if is_down:
        breaker.fail(leave, now, chance)
    else:
        breaker.succeed(leave, now)
    return leave


def an_open_breaker(now: float = 0.0, chance: float = 0.5) -> Breaker:
    breaker = Breaker()
    for _ in range(CALLS_MIN):
        called(breaker, now, is_down=True, chance=chance)
    assert breaker.is_open
    return breaker


def test_it_opens_on_a_rate_and_not_on_a_few_failures() -> None:
    breaker = Breaker()
    for _ in range(CALLS_MIN - 1):
        called(breaker, 0.0, is_down=True)
    assert not breaker.is_open
    called(breaker, 0.0, is_down=True)
    assert breaker.is_open


def test_one_bad_path_among_good_ones_does_not_open_it() -> None:
    breaker = Breaker()
    for n in range(10_000):
        called(breaker, n / 10, is_down=n % 3 == 2)
    assert not breaker.is_open


def test_half_of_the_calls_are_enough() -> None:
    breaker = Breaker()
    for n in range(2 * CALLS_MIN):
        if not breaker.is_open:
            called(breaker, 0.0, is_down=n % 2 == 1)
    assert breaker.is_open


def test_failures_of_long_ago_do_not_count() -> None:
    breaker = Breaker()
    for n in range(100):
        called(breaker, n * WINDOW_SECONDS / (CALLS_MIN - 2), is_down=True)
    assert not breaker.is_open


@given(
    steps=st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=200),
)
def test_it_opens_just_when_half_of_enough_calls_in_the_window_failed(
    steps: list[tuple[float, bool]],
) -> None:
    breaker, now, calls = Breaker(), 0.0, []
    for wait, is_down in steps:
        now += wait
        called(breaker, now, is_down=is_down)
        calls.append((int(now // 10), is_down))
        recent = [failed for part, failed in calls if part > int(now // 10) - 6]
        assert (breaker.rate.calls, breaker.rate.failed) == (len(recent), sum(recent))
        is_bad = len(recent) >= CALLS_MIN and sum(recent) * 2 >= len(recent)
        assert breaker.is_open == (is_down and is_bad)
        assert len(breaker.rate.slices) <= 6
        if breaker.is_open:
            return


def test_an_open_breaker_lets_one_probe_through_at_a_time() -> None:
    breaker = an_open_breaker(chance=0.0)
    assert breaker.admit(HOLD_SECONDS_MIN / 2 - 0.01) is None
    probe = breaker.admit(HOLD_SECONDS_MIN / 2)
    assert probe.is_probe
    assert breaker.admit(HOLD_SECONDS_MIN / 2) is None
    breaker.fail(probe, 3.0, 0.0)
    assert breaker.admit(3.0 + HOLD_SECONDS_MIN - 0.01) is None
    assert breaker.admit(3.0 + HOLD_SECONDS_MIN).is_probe


def test_it_closes_after_one_success_and_forgets_the_failures() -> None:
    breaker = an_open_breaker()
    called(breaker, 10.0, is_down=False)
    assert not breaker.is_open
    called(breaker, 10.0, is_down=True)
    assert not breaker.is_open


def test_a_probe_that_came_to_nothing_lets_the_next_go_at_once() -> None:
    breaker = an_open_breaker()
    breaker.give_back(breaker.admit(10.0), 11.0)
    assert breaker.admit(11.0).is_probe


def test_a_probe_that_hangs_does_not_keep_others_from_trying_and_may_still_close() -> None:
    breaker = an_open_breaker()
    slow = breaker.admit(10.0)
    assert breaker.admit(10.0 + PROBE_SECONDS_MAX - 0.01) is None
    second = breaker.admit(10.0 + PROBE_SECONDS_MAX)
    breaker.fail(slow, 100.0, 0.5)
    assert breaker.admit(100.0) is None, "the newest probe is still on its way"
    breaker.fail(second, 100.0, 0.5)
    breaker.succeed(slow, 101.0)
    assert not breaker.is_open


def test_calls_from_before_it_changed_say_nothing_about_the_time_since() -> None:
    breaker = Breaker()
    before = [breaker.admit(0.0) for _ in range(100)]
    for leave in before[:50]:
        breaker.fail(leave, 0.0, 0.5)
    probe_at = breaker.probe_at
    breaker.succeed(before[50], 1.0)
    assert breaker.is_open
    assert breaker.probe_at == probe_at
    called(breaker, 20.0, is_down=False)
    for leave in before[51:]:
        breaker.fail(leave, 21.0, 0.5)
    assert not breaker.is_open
    assert breaker.rate.calls == 0


def test_a_pause_that_was_asked_for_is_kept_within_bounds() -> None:
    for request, wanted in (
        (30.0, 30.0),
        (86_400.0, PAUSE_SECONDS_MAX),
        (0.0, HOLD_SECONDS_MIN / 2),
    ):
        breaker = Breaker()
        for _ in range(CALLS_MIN):
            breaker.fail(breaker.admit(0.0), 0.0, 0.0, request)
        assert breaker.probe_at == wanted


def test_one_that_only_seemed_to_be_back_is_held_for_longer_one_that_was_back_is_not() -> None:
    for rest, holds in ((1.0, 2), (WINDOW_SECONDS + 1, 1)):
        breaker = an_open_breaker()
        called(breaker, 10.0, is_down=False)
        for _ in range(CALLS_MIN):
            called(breaker, 10.0 + rest, is_down=True, chance=0.0)
        assert breaker.probe_at == 10.0 + rest + hold_seconds(holds) / 2


@given(holds=st.integers(1, 10**9))
def test_holds_double_up_to_a_bound(holds: int) -> None:
    assert HOLD_SECONDS_MIN <= hold_seconds(holds) <= HOLD_SECONDS_MAX
    assert hold_seconds(holds) <= hold_seconds(holds + 1) <= 2 * hold_seconds(holds)


@given(chances=st.lists(CHANCES, min_size=1, max_size=60))
def test_a_job_never_comes_back_before_the_next_probe_and_within_twice_the_outage(
    chances: list[float],
) -> None:
    breaker, now = an_open_breaker(), 0.0
    for chance in chances:
        wait = breaker.wait(now, chance)
        assert now + wait >= breaker.probe_at
        assert wait <= max(now, HOLD_SECONDS_MAX + now / 2 + HOLD_SECONDS_MIN)
        assert HOLD_SECONDS_MIN / 2 <= wait <= RETURN_SECONDS_MAX
        now = breaker.probe_at
        probe = breaker.admit(now)
        during = breaker.wait(now, chance)
        breaker.fail(probe, now, chance)
        assert now + during >= breaker.probe_at, "nor before the probe after that one"


@given(holds=st.integers(0, 20), count=st.integers(1, 3_000))
def test_many_jobs_come_back_at_no_more_than_a_bounded_rate(holds: int, count: int) -> None:
    breaker, now = an_open_breaker(), 0.0
    for _ in range(holds):
        now = breaker.probe_at
        breaker.fail(breaker.admit(now), now, 0.5)
    waits = sorted(breaker.wait(now, n * 0.618_034 % 1) for n in range(count))
    for n, wait in enumerate(waits):
        recent = sum(wait - 1 < earlier <= wait for earlier in waits[:n])
        assert recent <= RETURNS_PER_SECOND


def outage(
    count: int, seconds: int, *, at_once: int, spread: Callable[..., Any]
) -> tuple[list[int], list[int], float]:
    """Of jobs at a target that is down for so long: calls, returns, and when the last ended."""
    breaker, calls, put_off, ended = Breaker(), [0] * count, [0] * count, [0.0] * count
    due = [(0.0, n) for n in range(count)]
    heapq.heapify(due)
    while due:
        now = due[0][0]
        batch = [heapq.heappop(due) for _ in range(min(at_once, len(due))) if due[0][0] <= now]
        leaves = [(n, breaker.admit(now)) for _, n in batch]
        for n, leave in leaves:
            if leave is None:
                put_off[n] += 1
                heapq.heappush(due, (now + breaker.wait(now, spread(n, put_off[n])), n))
                continue
            calls[n] += 1
            if now >= seconds:
                breaker.succeed(leave, now)
                ended[n] = now
            else:
                breaker.fail(leave, now, spread(n, 0))
                heapq.heappush(due, (now + spread(n, calls[n]), n))
    return calls, put_off, max(ended)


def spread(n: int, times: int) -> float:
    return (n * 0.618_034 + times * 0.414_214) % 1


@pytest.mark.parametrize("seconds", [10, 60, 600, 7_200])
def test_an_outage_costs_few_calls_and_few_returns_and_drains_in_the_time_it_took(
    seconds: int,
) -> None:
    calls, put_off, end = outage(5_000, seconds, at_once=100, spread=spread)
    assert sum(calls) <= 5_000 * 1.05 + seconds / (HOLD_SECONDS_MAX / 2)
    assert end <= 2.02 * seconds + 4 * HOLD_SECONDS_MIN
    assert max(put_off) <= 2 * log2(seconds) + seconds / (RETURN_SECONDS_MAX / 2) + 3


def ends_of(
    count: int, seconds: int, per_second: float, *, until: Any = None
) -> list[tuple[float, float]]:
    """When the calls of so many jobs succeed, which come in evenly, at a target that is down."""
    breaker, ended, put_off = Breaker(), [], [0] * count
    due = [(n / per_second, n) for n in range(count)]
    while due:
        now, n = heapq.heappop(due)
        leave = breaker.admit(now)
        put_off[n] += 1
        if leave is None:
            heapq.heappush(due, (now + breaker.wait(now, spread(n, put_off[n])), n))
        elif now >= seconds:
            breaker.succeed(leave, now)
            ended.append((now, now - n / per_second))
        else:
            breaker.fail(leave, now, spread(n, 0))
            heapq.heappush(due, (now + spread(n, put_off[n]), n))
    return ended


@pytest.mark.parametrize("seconds", [10, 40, 120])
def test_after_an_outage_no_tenth_of_a_second_has_much_more_than_twice_its_fair_share(
    seconds: int,
) -> None:
    ends = [at for at, _ in ends_of(3_000, seconds, 3_000 / seconds)]
    first, last = min(ends), max(ends)
    tenths = Counter(int((at - first) * 10) for at in ends)
    fair = len(ends) / ((last - first) * 10)
    assert max(tenths.values()) <= 2.2 * fair + 1
    assert last <= 2.1 * seconds + 4 * HOLD_SECONDS_MIN


def test_what_comes_in_after_an_outage_does_not_wait_for_long_behind_its_backlog() -> None:
    ends = ends_of(75 * 160, 40, 75)
    late = sorted(late for at, late in ends if at - late > 80)
    assert late[len(late) // 2] == 0
    assert late[-1] < 60


def a_ramp(count: int) -> Ramp | None:
    """Ten seconds, from 10 to 20, after an outage of ten."""
    return ramp_for({19: count}, 10.0, 10.0)


def test_few_jobs_return_as_they_fall() -> None:
    assert a_ramp(RAMP_JOBS_MIN - 1) is None
    assert a_ramp(RAMP_JOBS_MIN) is not None


def test_a_ramp_has_the_pace_of_what_returns_and_half_of_what_came() -> None:
    ramp = a_ramp(1_000)
    assert (ramp.until, ramp.pace) == (20.0, 1_000 / 10 + 1_000 / 10 / 2)
    assert ramp_for({600: RAMP_JOBS_MIN}, 10.0, 600.0).pace == PACE_MIN


def test_a_ramp_lets_so_many_through_and_no_more() -> None:
    ramp = a_ramp(1_000)
    passed = sum(ramp.take(10.0 + n / 1_000) for n in range(5_000))
    assert passed == pytest.approx(5 * ramp.pace, rel=0.02)
    # After a rest, only a little may go out together.
    assert sum(ramp.take(19.0) for _ in range(1_000)) == int(ramp.pace * TOKENS_SECONDS)


def test_a_breaker_that_opens_again_holds_back_as_before() -> None:
    breaker = an_open_breaker()
    for n in range(RAMP_JOBS_MIN):
        breaker.wait(1.0, spread(n, 1))
    now = breaker.probe_at
    called(breaker, now, is_down=False)
    assert breaker.ramp is not None
    while not breaker.is_open:
        now += 0.2
        leave = breaker.admit(now)
        assert leave is not None
        breaker.fail(leave, now, 0.5)
    assert breaker.admit(now) is None
    assert now + breaker.wait(now, 0.0) >= breaker.probe_at


def test_a_ramp_is_over_when_the_last_job_was_to_return() -> None:
    breaker = an_open_breaker()
    for n in range(1_000):
        breaker.wait(1.0, spread(n, 1))
    now = breaker.probe_at
    called(breaker, now, is_down=False)
    until = breaker.ramp.until
    assert not all(breaker.admit(now) for _ in range(1_000))
    assert breaker.wait(now, 0.5) >= 0.5
    assert all(breaker.admit(until) for _ in range(1_000))
    assert breaker.ramp is None


def test_jobs_that_were_put_off_come_back_dispersed() -> None:
    breaker = an_open_breaker()
    waits = [breaker.wait(60.0, spread(n, 1)) for n in range(5_000)]
    low, high = min(waits), max(waits)
    parts = [0] * 50
    for wait in waits:
        parts[min(49, int((wait - low) / (high - low) * 50))] += 1
    assert max(parts) <= 5 * 5_000 / 50
