"""What a load counts."""

from datetime import UTC, datetime, timedelta

import pytest

from onbeat.model.job import JobState
from onbeat.model.limits import LOAD_ERRORS_MAX
from onbeat.model.load import LoadPlan, Pacing
from onbeat.rules.load_tally import OTHERS, LoadReport, LoadTally, rate_of

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLAN = LoadPlan(
    run="a",
    task="t",
    queue="load",
    rate=2.0,
    span=1.0,
    pacing=Pacing.FIXED,
    connections=4,
    payload=0,
    patience=60.0,
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def report(tally: LoadTally, *, is_read: bool = True, is_interrupted: bool = False) -> LoadReport:
    return tally.report(
        PLAN, start=START, clock_error=0.0, is_read=is_read, is_interrupted=is_interrupted
    )


def sent(count: int) -> LoadTally:
    tally = LoadTally()
    for number in range(count):
        tally.offer(0.001)
        tally.accept(0.004, 0.5 * number + 0.004)
    return tally


def test_two_jobs_that_went_well() -> None:
    tally = sent(2)
    for number in range(2):
        assert tally.ends.add(JobState.SUCCEEDED)
        sent_at = at(0.5 * number)
        tally.ends.time(sent_at, sent_at + timedelta(seconds=0.002), at(1), at(2 + number))
    found = report(tally)
    assert found.is_clean
    assert (found.offered, found.sent, found.found, found.unended) == (2, 2, 2, 0)
    assert found.ended == {JobState.SUCCEEDED: 2}
    assert (found.seconds, found.sent_rate, found.ended_rate) == (1.0, 2.0, 0.667)
    assert (found.send.count, found.send.max, found.sender_lag.max) == (2, 0.004, 0.001)
    assert (found.start.count, found.start.max) == (2, 0.998)
    assert (found.end_to_end.count, found.end_to_end.max) == (2, 2.5)


def test_a_job_that_was_never_started_has_no_delay_of_its_start() -> None:
    tally = sent(1)
    tally.ends.add(JobState.CANCELLED)
    tally.ends.time(at(0), at(0), None, at(1))
    tally.ends.fail("cancelled: by hand")
    found = report(tally)
    assert (found.start.count, found.end_to_end.count) == (0, 1)
    assert found.failures == {"cancelled: by hand": 1}
    assert not found.is_clean


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.RUNNING])
def test_live_jobs_are_unended(state: JobState) -> None:
    tally = sent(1)
    assert not tally.ends.add(state)
    found = report(tally)
    assert (found.found, found.unended, found.ended_rate) == (1, 1, None)
    assert not found.is_clean


def test_an_error_counts_by_its_kind() -> None:
    tally = sent(1)
    tally.offer(0.0)
    tally.refuse("unavailable: away", 7.0)
    found = report(tally, is_read=False)
    assert found.errors == {"unavailable: away": 1}
    assert found.seconds == 7.0
    assert not found.is_clean


def test_kinds_beyond_the_bound_are_counted_together() -> None:
    tally = LoadTally()
    for number in range(LOAD_ERRORS_MAX + 3):
        tally.refuse(f"error {number}", 0.0)
    tally.refuse("error 0", 0.0)
    assert tally.errors["error 0"] == 2
    assert tally.errors[OTHERS] == 3
    assert len(tally.errors) == LOAD_ERRORS_MAX + 1


def test_without_a_look_at_the_ends_an_accepted_job_is_enough() -> None:
    assert report(sent(2), is_read=False).is_clean
    assert not report(sent(2), is_read=True).is_clean


def test_an_interrupted_load_is_not_clean_and_lasted_as_long_as_it_sent() -> None:
    found = report(sent(1), is_read=False, is_interrupted=True)
    assert not found.is_clean
    assert found.seconds == 0.004


def test_a_request_under_way_is_not_clean() -> None:
    tally = sent(1)
    tally.offer(0.0)
    assert not report(tally, is_read=False).is_clean


def test_no_time_has_no_rate() -> None:
    assert (rate_of(3, 0.0), rate_of(3, 2.0)) == (0.0, 1.5)
