"""Where a claim begins to read, and when it reads everything again."""

from datetime import timedelta

import pytest

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.rules.claim_marks import (
    LISTS_MAX,
    PASSED_MIN,
    PASSED_PER_JOB,
    PASSED_PER_SECOND,
    REST_FULL,
    REST_SHORT,
    ClaimMarks,
    ListKey,
    Position,
)
from onbeat.testing.build import NOW, a_job


def a_job_at(list_: ListKey, seconds: int, id: str) -> Job:
    queue, priority, lane = list_
    due_at = NOW + timedelta(seconds=seconds)
    return a_job(lane, queue=queue, priority=priority, due_at=due_at, id=JobId(id))


def at(seconds: int, id: str) -> Position:
    return NOW + timedelta(seconds=seconds), JobId(id)


HERE: ListKey = ("default", 0, "work")
THERE: ListKey = ("default", 5, "work")
SCOPE = (frozenset({"work"}), None)
MANY = 1_000_000


@pytest.fixture
def marks() -> ClaimMarks:
    """After a long read of two lists that has filled a claim from the first."""
    marks = ClaimMarks()
    marks.note_read(SCOPE, [HERE, THERE], MANY, now=100.0)
    marks.note_claimed(
        [a_job_at(HERE, 7, "a"), a_job_at(HERE, 7, "b")], from_start=True, filled=True
    )
    return marks


def test_a_claimant_begins_at_the_start() -> None:
    assert ClaimMarks().lists(SCOPE, 0.0) is None


def test_after_a_long_read_claims_begin_behind_what_was_claimed(marks: ClaimMarks) -> None:
    assert marks.lists(SCOPE, 100.0) == {HERE: at(7, "b"), THERE: None}


@pytest.mark.parametrize("passed", [0, PASSED_MIN - 1])
def test_after_a_short_read_claims_begin_at_the_start(passed: int) -> None:
    marks = ClaimMarks()
    marks.note_read(SCOPE, [HERE], passed, now=100.0)
    assert marks.lists(SCOPE, 100.0) is None


def test_a_short_read_ends_the_use_of_marks(marks: ClaimMarks) -> None:
    marks.note_read(SCOPE, [HERE, THERE], PASSED_MIN - 1, now=101.0)
    assert marks.lists(SCOPE, 101.0) is None


def test_everything_is_read_again_after_a_multiple_of_what_it_takes(marks: ClaimMarks) -> None:
    seconds = MANY / PASSED_PER_SECOND
    again_at = 100.0 + REST_FULL * seconds
    assert marks.lists(SCOPE, again_at - 0.01) is not None
    assert marks.lists(SCOPE, again_at) is None
    assert marks.short_until == 100.0 + REST_SHORT * seconds


def test_everything_is_read_again_after_as_many_jobs_as_make_up_for_it() -> None:
    marks = ClaimMarks()
    marks.note_read(SCOPE, [HERE], PASSED_MIN, now=100.0)
    jobs = [a_job_at(HERE, number, "a") for number in range(PASSED_MIN // PASSED_PER_JOB)]
    marks.note_claimed(jobs[1:], from_start=False, filled=True)
    assert marks.lists(SCOPE, 100.0) is not None
    marks.note_claimed(jobs[:1], from_start=False, filled=True)
    assert marks.lists(SCOPE, 100.0) is None


def test_another_scope_is_read_from_the_start(marks: ClaimMarks) -> None:
    assert marks.lists((frozenset({"work", "rest"}), None), 100.0) is None
    assert marks.lists((frozenset({"work"}), ("default",)), 100.0) is None


def test_very_many_lists_are_read_from_the_start() -> None:
    marks = ClaimMarks()
    lists: list[ListKey] = [(f"q{number}", 0, "work") for number in range(LISTS_MAX + 1)]
    marks.note_read(SCOPE, lists, MANY, now=0.0)
    assert marks.lists(SCOPE, 0.0) is None


def test_what_is_forgotten_is_read_from_the_start(marks: ClaimMarks) -> None:
    marks.forget()
    assert marks.lists(SCOPE, 100.0) is None


def test_a_mark_moves_on_with_what_is_claimed_behind_it(marks: ClaimMarks) -> None:
    claimed = [
        a_job_at(HERE, 8, "a"),
        a_job_at(THERE, 1, "z"),
        a_job_at(("new", 0, "work"), 1, "y"),
    ]
    marks.note_claimed(claimed, from_start=False, filled=True)
    assert marks.lists(SCOPE, 100.0) == {HERE: at(8, "a"), THERE: at(1, "z")}


def test_a_mark_stays_where_a_read_of_all_has_found_something_before_it(marks: ClaimMarks) -> None:
    marks.note_read(SCOPE, [HERE, THERE], MANY, now=110.0)
    marks.note_claimed([a_job_at(HERE, 3, "late")], from_start=True, filled=False)
    assert marks.lists(SCOPE, 110.0) == {HERE: at(7, "b"), THERE: None}


def test_a_mark_goes_back_where_a_full_claim_left_more_before_it(marks: ClaimMarks) -> None:
    marks.note_read(SCOPE, [HERE, THERE], MANY, now=110.0)
    marks.note_claimed([a_job_at(HERE, 3, "late")], from_start=True, filled=True)
    assert marks.lists(SCOPE, 110.0) == {HERE: at(3, "late"), THERE: None}


def test_a_list_that_is_empty_keeps_its_mark(marks: ClaimMarks) -> None:
    marks.note_read(SCOPE, [], MANY, now=110.0)
    assert marks.lists(SCOPE, 110.0) == {HERE: at(7, "b")}


def test_of_very_many_lists_only_those_that_have_jobs_are_kept(marks: ClaimMarks) -> None:
    lists: list[ListKey] = [(f"q{number}", 0, "work") for number in range(LISTS_MAX)]
    marks.note_read(SCOPE, lists, MANY, now=110.0)
    assert marks.lists(SCOPE, 110.0) == dict.fromkeys(lists)


def test_marks_of_another_scope_are_not_taken_over(marks: ClaimMarks) -> None:
    other = (frozenset({"work"}), ("default",))
    marks.note_read(other, [HERE], MANY, now=110.0)
    assert marks.lists(other, 110.0) == {HERE: None}
