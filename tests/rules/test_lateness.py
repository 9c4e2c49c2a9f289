"""A queue is late once its oldest due job has waited longer than its bound."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from onbeat.model.ids import JobId
from onbeat.model.queue import WatchedQueue
from onbeat.rules.lateness import lateness_changes
from onbeat.testing.build import MINUTE, NOW, SECOND

MOMENT = timedelta(microseconds=1)


def a_queue(waited: timedelta | None, **fields: Any) -> WatchedQueue:
    oldest = {} if waited is None else {"oldest": JobId("oldest"), "oldest_due_at": NOW - waited}
    given: dict[str, Any] = {"paused": False, "late_after": MINUTE, **oldest, **fields}
    return WatchedQueue(name="mails", **given)


@pytest.mark.parametrize("waited", [None, timedelta(), MINUTE])
def test_a_queue_is_in_time_up_to_its_bound(waited: timedelta | None) -> None:
    assert lateness_changes([a_queue(waited)], NOW) == []


def test_a_queue_past_its_bound_becomes_late_with_an_event_that_says_why() -> None:
    (change,) = lateness_changes([a_queue(MINUTE + MOMENT, paused=True)], NOW)
    assert change.queue == "mails"
    assert change.event is not None
    assert (change.event.type, change.event.subject) == ("onbeat.queue.late", "mails")
    assert change.event.data is not None
    assert msgspec.json.decode(change.event.data) == {
        "queue": "mails",
        "paused": True,
        "job": "oldest",
        "due_at": "2030-01-01T11:58:59.999999Z",
        "waited": 60.000001,
        "late_after": 60.0,
    }


def test_the_event_of_another_time_has_another_id() -> None:
    late = [a_queue(MINUTE + SECOND)]
    ids = {
        change.event.id
        for now in (NOW, NOW, NOW + SECOND)
        for change in lateness_changes(late, now)
        if change.event is not None
    }
    assert len(ids) == 2


def test_a_queue_that_is_late_already_brings_no_second_event() -> None:
    assert lateness_changes([a_queue(2 * MINUTE, late_since=NOW - MINUTE)], NOW) == []


@pytest.mark.parametrize("waited", [None, MINUTE])
def test_a_late_queue_is_in_time_again_once_its_jobs_are(waited: timedelta | None) -> None:
    (change,) = lateness_changes([a_queue(waited, late_since=NOW - MINUTE)], NOW)
    assert (change.queue, change.event) == ("mails", None)
