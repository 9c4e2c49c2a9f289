"""When a claimant may take an announced job by its id."""

from datetime import timedelta

import pytest

from onbeat.model.ids import JobId
from onbeat.rules.lone_jobs import LOOK_SECONDS, Announcements, LastLook
from onbeat.testing.build import NOW, SECOND, TICK

SCOPE = (frozenset({"work"}), None)
LOOK = LastLook(SCOPE, at=100.0, next_due_at=None)
ONE, OTHER = JobId("one"), JobId("other")


def test_a_look_is_good_for_a_second() -> None:
    assert LOOK.is_good(SCOPE, 100.0, NOW)
    assert LOOK.is_good(SCOPE, 100.0 + LOOK_SECONDS - 0.001, NOW)
    assert not LOOK.is_good(SCOPE, 100.0 + LOOK_SECONDS, NOW)


def test_a_look_is_good_for_those_who_take_from_the_same_lists() -> None:
    assert not LOOK.is_good((frozenset({"work", "rest"}), None), 100.0, NOW)
    assert not LOOK.is_good((frozenset({"work"}), ("mail",)), 100.0, NOW)


@pytest.mark.parametrize(("late", "good"), [(-TICK, True), (timedelta(), False), (SECOND, False)])
def test_a_look_is_good_until_the_next_job_is_due(late: timedelta, good: bool) -> None:
    look = LastLook(SCOPE, at=100.0, next_due_at=NOW)
    assert look.is_good(SCOPE, 100.0, NOW + late) is good


def test_a_job_that_was_announced_alone_is_told_once() -> None:
    announcements = Announcements()
    assert announcements.take() is None
    announcements.note(ONE)
    announcements.note(ONE)  # by its sender, and by the server
    assert announcements.take() == ONE
    assert announcements.take() is None


@pytest.mark.parametrize("notes", [[ONE, OTHER], [ONE, None], [None, ONE], [ONE, None, ONE]])
def test_beside_others_no_job_is_told(notes: list[JobId | None]) -> None:
    announcements = Announcements()
    for note in notes:
        announcements.note(note)
    assert announcements.take() is None
    announcements.note(ONE)
    assert announcements.take() == ONE
