from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.queue import Rate
from onbeat.rules.admitting import Allowance, allowance, metered

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_without_limits_any_number_may_start():
    assert allowance(None, None, running=7, full_at=None, now=NOW) == Allowance(None)


def test_concurrency_leaves_what_does_not_run():
    assert allowance(5, None, running=3, full_at=None, now=NOW) == Allowance(2)
    assert allowance(5, None, running=9, full_at=None, now=NOW) == Allowance(0)


def test_a_full_bucket_gives_its_count_at_once_then_one_by_one():
    rate = Rate(10, SECOND)
    assert allowance(None, rate, running=0, full_at=None, now=NOW) == Allowance(
        10, NOW + SECOND / 10
    )
    emptied = metered(rate, None, NOW, 10)
    assert emptied == NOW + SECOND
    assert allowance(None, rate, running=0, full_at=emptied, now=NOW) == Allowance(
        0, NOW + SECOND / 10
    )
    later = NOW + SECOND / 10
    assert allowance(None, rate, running=0, full_at=emptied, now=later).count == 1


def test_the_lesser_of_both_limits_counts():
    rate = Rate(10, SECOND)
    assert allowance(4, rate, running=1, full_at=None, now=NOW) == Allowance(3)
    assert allowance(40, rate, running=1, full_at=None, now=NOW).count == 10


def test_a_clock_set_back_gives_nothing_and_says_when_something_comes():
    rate = Rate(1, SECOND)
    assert allowance(None, rate, running=0, full_at=NOW + 10 * SECOND, now=NOW) == Allowance(
        0, NOW + 10 * SECOND
    )


@given(
    count=st.integers(1, 50),
    span=st.timedeltas(timedelta(milliseconds=1), timedelta(days=1)),
    steps=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60)), min_size=1, max_size=40),
)
def test_no_window_sees_more_than_the_bucket_and_its_refill(count, span, steps):
    rate, now, full_at = Rate(count, span), NOW, None
    starts: list[tuple[datetime, int]] = []
    for wait, wanted in steps:
        now += span * wait
        allowed = allowance(None, rate, running=0, full_at=full_at, now=now).count
        taken = min(wanted, allowed)
        if taken:
            full_at = metered(rate, full_at, now, taken)
        starts.append((now, taken))
    for place, (begin, _) in enumerate(starts):
        for end, _ in starts[place:]:
            total = sum(number for at, number in starts if begin <= at <= end)
            assert total <= count + count * ((end - begin) / span) + 1e-6


@given(count=st.integers(1, 50), span=st.timedeltas(timedelta(milliseconds=1), timedelta(days=1)))
def test_what_is_refused_now_is_given_at_the_instant_that_was_told(count, span):
    rate = Rate(count, span)
    full_at = metered(rate, None, NOW, count)
    refused = allowance(None, rate, running=0, full_at=full_at, now=NOW)
    assert refused.count == 0
    assert refused.again_at is not None
    assert allowance(None, rate, running=0, full_at=full_at, now=refused.again_at).count == 1
