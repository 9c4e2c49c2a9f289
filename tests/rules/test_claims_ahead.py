"""What a worker claims ahead of its slots, and what it gives back."""

import pytest

from onbeat.model.limits import CLAIM_MAX
from onbeat.rules.claims_ahead import (
    AHEAD_MAX,
    AHEAD_SECONDS,
    LOOK_SECONDS,
    SHORT_SECONDS,
    ClaimsAhead,
)


def busy(concurrency: int = 10, fixed: int | None = None, *, pace: float = 0.0) -> ClaimsAhead:
    """A worker whose attempts are short, and that ends `pace` of them in a second."""
    claims = ClaimsAhead(concurrency, fixed)
    claims.mean_duration = 0.001
    claims.pace = pace
    return claims


@pytest.mark.parametrize("fixed", [None, 7])
def test_nothing_is_taken_ahead_before_attempts_are_known_to_be_short(fixed: int | None) -> None:
    claims = ClaimsAhead(10, fixed)
    assert claims.most == 0
    claims.note_duration(SHORT_SECONDS)
    assert claims.most == 0
    claims.note_duration(0.001)
    assert claims.most == (fixed or 10)
    claims.note_duration(60.0)
    assert claims.most == 0


@pytest.mark.parametrize(
    ("pace", "ahead"),
    [
        (0.0, 10),
        (10 / AHEAD_SECONDS, 10),
        (500 / AHEAD_SECONDS, 500),
        (AHEAD_MAX / AHEAD_SECONDS, AHEAD_MAX),
        (1e9, AHEAD_MAX),
    ],
)
def test_a_worker_takes_ahead_what_it_ends_soon(pace: float, ahead: int) -> None:
    assert busy(pace=pace).most == ahead
    assert busy(fixed=3, pace=pace).most == 3
    assert busy(concurrency=2 * AHEAD_MAX, pace=pace).most == 2 * AHEAD_MAX


def test_the_pace_is_that_of_the_time_with_work() -> None:
    claims = busy()
    claims.note_work(100.0)
    claims.note_ended(50, 100.1)
    assert claims.pace == pytest.approx(500)
    claims.note_work(900.0)
    claims.note_ended(90, 900.1)
    assert claims.pace == pytest.approx(600)  # a quarter of the way from 500 to 900
    claims.note_ended(0, 900.1)  # at the same reading of the clock
    assert claims.pace == pytest.approx(450)


def test_a_worker_that_has_half_of_what_it_may_take_ahead_claims_nothing() -> None:
    claims = busy(fixed=10)
    assert claims.is_stocked(room=4, waiting=6)
    assert not claims.is_stocked(room=5, waiting=5)
    assert not claims.is_stocked(room=1, waiting=0)  # slots are free: one job is welcome
    assert not busy(fixed=0).is_stocked(room=1, waiting=1)


def test_a_worker_with_room_for_a_full_claim_claims() -> None:
    claims = busy(pace=1e9)
    assert claims.is_stocked(room=CLAIM_MAX - 1, waiting=1_500)
    assert not claims.is_stocked(room=CLAIM_MAX, waiting=1_500)


def test_jobs_that_wait_go_back_when_no_attempt_has_begun_for_a_second() -> None:
    claims = busy(fixed=100)
    assert claims.surplus(60, 5.0) == 0
    assert claims.surplus(60, 5.0 + LOOK_SECONDS - 0.01) == 0
    assert claims.surplus(60, 5.0 + LOOK_SECONDS) == 60
    assert claims.most == 0  # else it would claim them again


def test_jobs_that_come_to_wait_have_a_second() -> None:
    claims = busy(fixed=100)
    assert claims.surplus(60, 5.0) == 0
    assert claims.surplus(0, 5.5) == 0
    assert claims.surplus(60, 6.5) == 0
    assert claims.surplus(60, 7.5) == 60


def test_jobs_go_back_that_the_worker_does_not_come_to_within_a_second() -> None:
    claims = busy(concurrency=1, pace=30.0)
    claims.surplus(900, 0.0)
    claims.begun += 30
    assert claims.surplus(870, 1.0) == 870 - 3  # it keeps what it would take now
    claims.begun += 2
    assert claims.surplus(1, 2.0) == 0


@pytest.mark.parametrize("waiting", [10, 400])
def test_what_is_done_within_a_second_stays(waiting: int) -> None:
    claims = busy(concurrency=10, pace=400.0)
    claims.surplus(waiting, 0.0)
    claims.begun += 1
    assert claims.surplus(waiting, 1.0) == 0


def test_a_number_set_by_hand_stays_while_attempts_begin() -> None:
    claims = busy(concurrency=1, fixed=500, pace=10.0)
    claims.surplus(500, 0.0)
    claims.begun += 10
    assert claims.surplus(490, 1.0) == 0
    assert claims.surplus(490, 2.0) == 490
