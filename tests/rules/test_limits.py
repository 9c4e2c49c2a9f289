from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.queue import Limits, Rate
from onbeat.rules.limits import Admission, Allowance, allowance, full_again_at

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_without_limits_any_number_may_start() -> None:
    assert allowance(None, None, running=7, full_at=None, now=NOW) == Allowance(None)


def test_concurrency_leaves_what_does_not_run() -> None:
    assert allowance(5, None, running=3, full_at=None, now=NOW) == Allowance(2)
    assert allowance(5, None, running=9, full_at=None, now=NOW) == Allowance(0)


def test_a_full_bucket_gives_its_count_at_once_then_one_by_one() -> None:
    rate = Rate(10, SECOND)
    assert allowance(None, rate, running=0, full_at=None, now=NOW) == Allowance(
        10, NOW + SECOND / 10
    )
    emptied = full_again_at(rate, None, NOW, 10)
    assert emptied == NOW + SECOND
    assert allowance(None, rate, running=0, full_at=emptied, now=NOW) == Allowance(
        0, NOW + SECOND / 10
    )
    later = NOW + SECOND / 10
    assert allowance(None, rate, running=0, full_at=emptied, now=later).count == 1


def test_the_lesser_of_both_limits_counts() -> None:
    rate = Rate(10, SECOND)
    assert allowance(4, rate, running=1, full_at=None, now=NOW) == Allowance(3)
    assert allowance(40, rate, running=1, full_at=None, now=NOW).count == 10


def test_a_clock_set_back_gives_nothing_and_says_when_something_comes() -> None:
    rate = Rate(1, SECOND)
    assert allowance(None, rate, running=0, full_at=NOW + 10 * SECOND, now=NOW) == Allowance(
        0, NOW + 10 * SECOND
    )


@given(
    count=st.integers(1, 50),
    span=st.timedeltas(timedelta(milliseconds=1), timedelta(days=1)),
    steps=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60)), min_size=1, max_size=40),
)
def test_no_window_sees_more_than_the_bucket_and_its_refill(
    count: int, span: timedelta, steps: list[tuple[float, int]]
) -> None:
    rate, now, full_at = Rate(count, span), NOW, None
    starts: list[tuple[datetime, int]] = []
    for wait, wanted in steps:
        now += span * wait
        allowed = allowance(None, rate, running=0, full_at=full_at, now=now).count
        taken = min(wanted, allowed)
        if taken:
            full_at = full_again_at(rate, full_at, now, taken)
        starts.append((now, taken))
    for place, (begin, _) in enumerate(starts):
        for end, _ in starts[place:]:
            total = sum(number for at, number in starts if begin <= at <= end)
            assert total <= count + count * ((end - begin) / span) + 1e-6


@given(count=st.integers(1, 50), span=st.timedeltas(timedelta(milliseconds=1), timedelta(days=1)))
def test_what_is_refused_now_is_given_at_the_instant_that_was_told(
    count: int, span: timedelta
) -> None:
    rate = Rate(count, span)
    full_at = full_again_at(rate, None, NOW, count)
    refused = allowance(None, rate, running=0, full_at=full_at, now=NOW)
    assert refused.count == 0
    assert refused.again_at is not None
    assert allowance(None, rate, running=0, full_at=full_at, now=refused.again_at).count == 1


class Due(NamedTuple):
    id: int
    queue: str
    group: str | None


bounds = st.none() | st.integers(0, 4)
rates = st.none() | st.builds(Rate, st.integers(1, 4), st.just(SECOND))
limits = st.builds(
    Limits,
    concurrency=bounds,
    rate=rates,
    group_concurrency=bounds,
    group_rate=rates,
    fair=st.booleans(),
)
limited = st.dictionaries(st.sampled_from("pq"), limits)
keys = st.tuples(st.sampled_from("pq"), st.sampled_from(["", "a", "b"]))
running = st.dictionaries(keys, st.integers(0, 3))
full_at = st.dictionaries(keys, st.integers(0, 2_000).map(lambda ms: NOW + ms * SECOND / 1_000))
due = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from([None, "a", "b"])), max_size=20
).map(lambda places: [Due(number, *place) for number, place in enumerate(places)])


def bound_of(limits: Any, key: Any, running: Any, full_at: Any) -> Any:
    """How many jobs a queue or a group of it may start, by itself; None for any number."""
    queue, group = key
    one = limits.get(queue)
    if one is None or (group and not one.by_group):
        return None
    concurrency, rate = (
        (one.group_concurrency, one.group_rate) if group else (one.concurrency, one.rate)
    )
    return allowance(
        concurrency, rate, running=running.get(key, 0), full_at=full_at.get(key), now=NOW
    ).count


def counted(jobs: Any) -> Any:
    counts = Counter((job.queue, "") for job in jobs)
    counts.update((job.queue, job.group) for job in jobs if job.group)
    return counts


@given(limited, running, full_at, due, st.integers(0, 20))
def test_no_queue_and_no_group_starts_more_than_it_may(
    limits: Any, running: Any, full_at: Any, due: Any, most: Any
) -> None:
    chosen = Admission(limits, running, full_at, NOW).choose(due, 0, most)
    assert len(chosen) <= most
    for key, count in counted(chosen).items():
        bound = bound_of(limits, key, running, full_at)
        assert bound is None or count <= bound


@given(limited, running, full_at, due, st.integers(0, 20))
def test_a_job_is_left_only_where_a_limit_is_reached(
    limits: Any, running: Any, full_at: Any, due: Any, most: Any
) -> None:
    chosen = Admission(limits, running, full_at, NOW).choose(due, 0, most)
    counts = counted(chosen)
    for job in due if len(chosen) < most else ():
        keys = [(job.queue, ""), *([(job.queue, job.group)] if job.group else [])]
        full = [counts[key] == bound_of(limits, key, running, full_at) for key in keys]
        assert job in chosen or any(full)


@given(limited, running, full_at, due, st.integers(0, 20))
def test_without_turns_the_oldest_start(
    limits: Any, running: Any, full_at: Any, due: Any, most: Any
) -> None:
    unfair = {queue: Limits(concurrency=one.concurrency) for queue, one in limits.items()}
    chosen = Admission(unfair, running, full_at, NOW).choose(due, 0, most)
    assert chosen == sorted(chosen)


@given(limited, running, full_at, due, st.sets(st.integers(0, 19)))
def test_what_did_not_start_is_not_counted(
    limits: Any, running: Any, full_at: Any, due: Any, started: Any
) -> None:
    """It draws on no bucket, takes no turn, and leaves its place to others."""
    admission = Admission(limits, running, full_at, NOW)
    chosen = admission.choose(due, 0, len(due))
    left = admission.confirm(chosen, 0, started)
    begun = [job for job in chosen if job.id in started]
    assert [job for job in chosen if job not in left] == begun

    expected = Admission(limits, running, full_at, NOW)
    for job in begun:
        expected.take(job.queue, job.group)
    assert admission.drawn_buckets() == expected.drawn_buckets()
    assert {seat.queue for seat in admission.turns.given} == {
        job.queue for job in begun if job.queue in limits and limits[job.queue].fair
    }
    for job in due:
        assert admission.room(job.queue, job.group, 9) == expected.room(job.queue, job.group, 9)


@given(limited, running, full_at, due)
def test_at_the_instant_that_is_noted_one_more_may_start(
    limits: Any, running: Any, full_at: Any, due: Any
) -> None:
    admission = Admission(limits, running, full_at, NOW)
    chosen = admission.choose(due, 0, len(due))
    if admission.again_at is None:
        return
    counts = Counter(running)
    counts.update(counted(chosen))
    drawn = {(queue, group): at for queue, group, at in admission.drawn_buckets()}
    later = Admission(limits, counts, full_at | drawn, admission.again_at)
    assert later.choose([job for job in due if job not in chosen], 0, 1) != []


def test_who_waits_for_the_end_of_a_job_waits_for_no_instant() -> None:
    limits = {"q": Limits(concurrency=1, rate=Rate(1, SECOND), group_rate=Rate(1, SECOND))}
    admission = Admission(limits, {("q", ""): 1}, {("q", "a"): NOW + SECOND}, NOW)
    assert not admission.is_open("q", "a")
    assert admission.again_at is None


@pytest.mark.parametrize(("group", "room"), [(None, 9), ("a", 1), ("b", 2)])
def test_the_room_of_a_group_is_told_apart_from_that_of_its_queue(group: Any, room: Any) -> None:
    limits = {"q": Limits(concurrency=1, group_concurrency=2)}
    admission = Admission(limits, {("q", "a"): 1}, {}, NOW)
    assert admission.group_room("q", group, 9) == room
    assert admission.room("q", group, 9) == 1
