import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.ids import ScheduleId
from onbeat.rules.dispositions import Runs

ID = ScheduleId("0199a1b2-0000-7000-8000-000000000001")
OTHER = ScheduleId("0199a1b2-0000-7000-8000-000000000002")
INSTANT = st.integers(0, 30)


def runs_with(*stored: tuple[int, int], may_overlap: bool = False) -> Runs:
    runs = Runs(may_overlap=may_overlap)
    for first, last in stored:
        runs.add_stored(ID, first, last)
    return runs


@pytest.mark.parametrize("may_overlap", [False, True])
def test_an_instant_within_a_run_is_covered(may_overlap):
    runs = runs_with((3, 5), may_overlap=may_overlap)
    taken = [runs.take(ID, at, at) for at in (2, 3, 4, 5, 6)]
    assert taken == [2, None, None, None, 6]


@pytest.mark.parametrize("may_overlap", [False, True])
def test_of_two_for_one_instant_the_first_is_taken(may_overlap):
    runs = runs_with(may_overlap=may_overlap)
    assert [runs.take(ID, 7, 7), runs.take(ID, 7, 9)] == [7, None]


def test_another_schedule_has_its_own_runs():
    assert runs_with((1, 9)).take(OTHER, 5, 5) == 5


def test_a_run_ends_before_the_next_one():
    assert runs_with((6, 6), (8, 8)).take(ID, 2, 9) == 5


def test_a_run_that_may_overlap_others_is_stored_whole():
    assert runs_with((6, 6), (8, 8), may_overlap=True).take(ID, 2, 9) == 9


def test_of_one_call_a_run_that_may_be_overlapped_covers_its_first_instant_only():
    runs = runs_with(may_overlap=True)
    assert [runs.take(ID, 2, 9), runs.take(ID, 2, 2), runs.take(ID, 5, 5)] == [9, None, 5]


@given(st.lists(st.tuples(INSTANT, INSTANT).map(sorted), max_size=12))
def test_runs_that_may_not_overlap_never_do(wanted):
    runs = runs_with()
    taken: list[int] = []
    for first, last in wanted:
        end = runs.take(ID, first, last)
        assert (end is None) == (first in taken)
        if end is not None:
            assert first <= end <= last
            taken += range(first, end + 1)
    assert len(taken) == len(set(taken))
