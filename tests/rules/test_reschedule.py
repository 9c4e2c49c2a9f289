"""Another due time for a waiting job."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.condition import Window
from onbeat.model.errors import Conflict, Invalid
from onbeat.model.job import JobState
from onbeat.rules.calendar import LAST
from onbeat.rules.reschedule import as_tried_again, new_due_time, with_due_time
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job


def test_it_is_an_instant_or_a_wait() -> None:
    job = a_job()
    assert new_due_time(job, NOW + HOUR, None, NOW) == NOW + HOUR
    assert new_due_time(job, None, MINUTE, NOW) == NOW + MINUTE
    assert new_due_time(job, None, timedelta(), NOW) == NOW
    assert new_due_time(job, None, None, NOW) == NOW


def test_it_may_have_passed() -> None:
    assert new_due_time(a_job(), NOW - DAY, None, NOW) == NOW - DAY


def test_a_wait_ends_before_time_does() -> None:
    assert new_due_time(a_job(), None, timedelta.max, NOW) == LAST


def test_windows_put_it_off() -> None:
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    noon = Window(days=tuple(range(7)), start=12 * 60, end=13 * 60, timezone="UTC")
    job = a_job(window=(noon,))
    assert new_due_time(job, midnight, None, NOW) == midnight + 12 * HOUR


@pytest.mark.parametrize("state", [one for one in JobState if one is not JobState.WAITING])
def test_only_waiting_jobs_are_rescheduled(state: JobState) -> None:
    with pytest.raises(Conflict, match=f"is {state}; only waiting"):
        new_due_time(a_job(state=state), NOW, None, NOW)


@pytest.mark.parametrize(("delay", "field"), [(None, "run_at"), (2 * HOUR, "delay")])
def test_a_job_does_not_expire_before_it_is_due(delay: timedelta | None, field: str) -> None:
    job = a_job(expires_at=NOW + HOUR)
    run_at = NOW + HOUR if delay is None else None
    with pytest.raises(Invalid, match="the job expires before") as caught:
        new_due_time(job, run_at, delay, NOW)
    assert caught.value.field == field
    assert new_due_time(job, NOW + HOUR - SECOND, None, NOW) == NOW + HOUR - SECOND


def test_one_that_has_expired_is_not_due_again() -> None:
    with pytest.raises(Invalid):
        new_due_time(a_job(expires_at=NOW - HOUR), NOW - 2 * HOUR, None, NOW)


def test_a_job_that_has_started_expires_no_more() -> None:
    tried = a_job(expires_at=NOW - MINUTE, started_at=NOW - HOUR)
    assert new_due_time(tried, NOW, None, NOW) == NOW
    put_back = replace(tried, start_by=NOW - MINUTE)
    with pytest.raises(Invalid, match="the job expires before"):
        new_due_time(put_back, NOW, None, NOW)


def test_the_misfire_bound_is_lifted_and_the_expiry_stays() -> None:
    late = a_job(start_by=NOW + MINUTE)
    assert with_due_time(late, NOW + HOUR).start_by is None
    expiring = a_job(start_by=NOW + MINUTE, expires_at=NOW + DAY)
    assert with_due_time(expiring, NOW + HOUR).start_by == NOW + DAY
    tried = a_job(expires_at=NOW + DAY)
    assert with_due_time(tried, NOW + HOUR).start_by is None


def test_a_job_that_is_tried_again_at_once_has_no_bounds() -> None:
    job = a_job(due_at=NOW + HOUR, expires_at=NOW + DAY)
    again = as_tried_again(job, NOW, at_once=True)
    assert (again.due_at, again.start_by, again.expires_at) == (NOW, None, None)


@pytest.mark.parametrize(
    ("times", "started_at", "kept"),
    [
        ((NOW + HOUR, NOW + DAY), None, (NOW + HOUR, NOW + DAY, NOW + DAY)),
        ((NOW - HOUR, NOW + DAY), None, (NOW, NOW + DAY, NOW + DAY)),
        ((NOW - HOUR, NOW), None, (NOW, None, None)),
        ((NOW + HOUR, None), None, (NOW + HOUR, None, None)),
        ((NOW + HOUR, NOW + DAY), NOW - HOUR, (NOW, None, None)),
    ],
)
def test_a_job_that_comes_back_keeps_what_has_not_passed(
    times: Any, started_at: datetime | None, kept: Any
) -> None:
    due_at, expires_at = times
    job = a_job(due_at=due_at, expires_at=expires_at, started_at=started_at)
    again = as_tried_again(job, NOW, at_once=False)
    assert (again.due_at, again.start_by, again.expires_at) == kept
