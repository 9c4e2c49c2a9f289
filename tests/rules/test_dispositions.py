from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.ids import ScheduleId
from onbeat.rules.dispositions import Runs

ID = ScheduleId("0199a1b2-0000-7000-8000-000000000001")
OTHER = ScheduleId("0199a1b2-0000-7000-8000-000000000002")
INSTANT = st.integers(0, 30)


def runs_with(*stored: tuple[int, int]) -> Runs:
    runs = Runs()
    for first, last in stored:
        runs.add_stored(ID, first, last)
    return runs


def test_an_instant_within_a_run_is_covered():
    runs = runs_with((3, 5))
    taken = [runs.take(ID, at, at) for at in (2, 3, 4, 5, 6)]
    assert taken == [[(2, 2)], [], [], [], [(6, 6)]]


def test_of_two_for_one_instant_the_first_is_taken():
    runs = runs_with()
    assert [runs.take(ID, 7, 7), runs.take(ID, 7, 9)] == [[(7, 7)], [(8, 9)]]


def test_another_schedule_has_its_own_runs():
    assert runs_with((1, 9)).take(OTHER, 5, 5) == [(5, 5)]


def test_a_run_leaves_out_what_others_cover():
    assert runs_with((6, 6), (8, 8)).take(ID, 2, 9) == [(2, 5), (7, 7), (9, 9)]


def test_a_run_that_others_cover_whole_is_not_stored():
    assert runs_with((1, 4), (5, 9)).take(ID, 2, 8) == []


@given(st.lists(st.tuples(INSTANT, INSTANT).map(sorted), max_size=12))
def test_runs_cover_each_instant_once(wanted):
    runs = runs_with()
    covered: list[int] = []
    for first, last in wanted:
        for begin, end in runs.take(ID, first, last):
            assert first <= begin <= end <= last
            covered += range(begin, end + 1)
    assert len(covered) == len(set(covered))
    assert set(covered) == {at for first, last in wanted for at in range(first, last + 1)}
