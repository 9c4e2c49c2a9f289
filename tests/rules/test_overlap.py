from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.schedule import Overlap
from onbeat.rules.overlap import (
    REPLACED,
    SKIPPED,
    STARTS,
    EarlierJob,
    OverlapDecision,
    comes_before,
    decide_overlap,
    has_overlap_rule,
)
from onbeat.testing.build import NOW, a_job, a_schedule, an_occurrence

SECOND = timedelta(seconds=1)
RULES = [Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE]


def occurrence(overlap: Any = Overlap.WAIT, *, second: int = 0, **changes: Any) -> Any:
    schedule = a_schedule(overlap=overlap)
    return replace(an_occurrence(schedule, NOW + second * SECOND), **changes)


earlier_jobs = st.tuples(
    st.lists(st.sampled_from("rstu"), unique=True), st.lists(st.sampled_from("wxyz"), unique=True)
).map(
    lambda both: [
        *(EarlierJob(JobId(id), True) for id in both[0]),
        *(EarlierJob(JobId(id), False) for id in both[1]),
    ]
)


@pytest.mark.parametrize("overlap", RULES)
def test_a_job_with_nothing_before_it_starts(overlap: Any) -> None:
    assert decide_overlap(occurrence(overlap), []) == STARTS
    assert STARTS.changes_nothing


@given(earlier_jobs)
def test_a_job_that_may_overlap_starts_whatever_else_runs(earlier: Any) -> None:
    assert decide_overlap(occurrence(Overlap.ALLOW), earlier) == STARTS


@given(earlier_jobs.filter(bool))
def test_skip_cancels_the_job_itself_and_no_other(earlier: Any) -> None:
    job = occurrence(Overlap.SKIP)
    assert decide_overlap(job, earlier) == OverlapDecision(cancel={job.id: SKIPPED})


@given(earlier_jobs.filter(bool))
def test_wait_makes_a_chain(earlier: Any) -> None:
    decision = decide_overlap(occurrence(Overlap.WAIT), earlier)
    assert decision == OverlapDecision(wait_for=(earlier[0].id,))


@given(earlier_jobs)
def test_replace_ends_each_earlier_job_and_waits_for_those_that_run(earlier: Any) -> None:
    decision = decide_overlap(occurrence(Overlap.REPLACE), earlier)
    assert set(decision.cancel.values()) <= {REPLACED}
    assert [*decision.wait_for, *decision.cancel] == [other.id for other in earlier]
    assert list(decision.stop) == [other.id for other in earlier if other.running]
    assert decision.changes_nothing is not bool(earlier)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.WAIT])
def test_one_earlier_job_is_enough_to_decide(overlap: Any) -> None:
    earlier = iter([EarlierJob(JobId("a"), False), EarlierJob(JobId("b"), False)])
    decide_overlap(occurrence(overlap), earlier)
    assert [other.id for other in earlier] == ["b"]


def test_only_a_job_of_a_schedule_has_an_overlap_rule() -> None:
    assert has_overlap_rule(occurrence(Overlap.SKIP))
    assert not has_overlap_rule(occurrence(Overlap.ALLOW))
    assert not has_overlap_rule(replace(a_job(), overlap=Overlap.SKIP))


def test_who_is_due_earlier_comes_first_unless_it_is_too_late_to_start() -> None:
    first, second = occurrence(second=-2), occurrence(second=-1)
    assert comes_before(first, second, NOW)
    assert not comes_before(second, first, NOW)
    assert comes_before(replace(first, start_by=NOW), second, NOW)
    assert not comes_before(replace(first, start_by=NOW - SECOND), second, NOW)


def test_only_a_running_job_comes_before_one_that_was_tried() -> None:
    tried, new = occurrence(token=1), occurrence(second=-1)
    assert not comes_before(new, tried, NOW)
    assert not comes_before(replace(new, token=1), tried, NOW)
    assert comes_before(tried, new, NOW)
    assert comes_before(replace(new, state=JobState.RUNNING, token=1), tried, NOW)


waiting_jobs = st.lists(
    st.builds(
        lambda second, token, bound: occurrence(
            second=-second,
            token=token,
            start_by=None if bound is None or token else NOW + bound * SECOND,
        ),
        st.integers(0, 3),
        st.integers(0, 1),
        st.none() | st.integers(-2, 2),
    ),
    min_size=1,
    max_size=6,
)


@given(waiting_jobs)
def test_of_jobs_that_wait_one_has_no_other_before_it(jobs: Any) -> None:
    """However they were tried and bounded: they never all wait for each other."""
    left = list(jobs)
    while left:
        free = [
            job
            for job in left
            if not any(comes_before(other, job, NOW) for other in left if other is not job)
        ]
        assert free
        left = [job for job in left if all(job is not other for other in free)]
