"""The history of a job as the event scheduler tells it."""

from typing import Any

import msgspec
import pytest

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState
from onbeat.model.target import HttpTarget
from onbeat.testing.build import MINUTE, NOW, a_job
from onbeat.wire.occurrences import event_of, known_attempts

ENDED: dict[str, Any] = {"token": 1, "attempt": 1, "started_at": NOW, "finished_at": NOW + MINUTE}


def an_attempt(job: Job, number: int, outcome: OutcomeName, error: str | None = None) -> Attempt:
    return Attempt(
        job_id=job.id,
        token=Token(number),
        number=number,
        worker=None,
        started_at=NOW,
        finished_at=NOW + MINUTE,
        outcome=outcome,
        error=error,
    )


def messages(job: Job, *attempts: Attempt) -> list[str]:
    return [f"{status.status}: {status.message}" for status in event_of(job, attempts).status]


QUEUED = "ready_queue: Event pre-queued for ready queue"
STARTED = "worker_queue: Event dispatched to worker queue"


def test_a_job_that_waits_or_runs() -> None:
    assert messages(a_job()) == [QUEUED]
    assert messages(a_job(state=JobState.RUNNING, started_at=NOW)) == [QUEUED, STARTED]


@pytest.mark.parametrize(
    ("outcome", "error", "message"),
    [
        (OutcomeName.FAILED, "it broke", "Attempt 1 failed: it broke"),
        (OutcomeName.LOST, None, "Attempt 1 lost: no reason given"),
        (OutcomeName.SNOOZED, None, "Attempt 1 asked to be run again later"),
        (OutcomeName.RELEASED, None, "Attempt 1 was handed back by its worker"),
    ],
)
def test_an_attempt_that_is_not_the_last(outcome: OutcomeName, error: str, message: str) -> None:
    job = a_job()
    assert messages(job, an_attempt(job, 1, outcome, error)) == [
        QUEUED,
        STARTED,
        f"ready_queue: {message}",
    ]


def test_a_job_that_ended_while_it_waited_for_its_retry() -> None:
    failed = an_attempt(a_job(), 1, OutcomeName.FAILED, "it broke")
    ended = failed.finished_at + MINUTE
    job = a_job(state=JobState.CANCELLED, reason="by hand", token=1, finished_at=ended)
    assert messages(job, failed) == [
        QUEUED,
        STARTED,
        "ready_queue: Attempt 1 failed: it broke",
        "cancelled: Event cancelled: by hand",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"state": JobState.SUCCEEDED}, "completed: Event successfully processed"),
        ({"state": JobState.CANCELLED, "reason": "by hand"}, "cancelled: Event cancelled: by hand"),
        ({"state": JobState.CANCELLED}, "cancelled: Event cancelled: no reason given"),
        ({"state": JobState.FAILED, "error": "it broke"}, "error: Task failed: it broke"),
        (
            {"state": JobState.FAILED, "attempt": 3, "target": HttpTarget("https://example.org/")},
            "error: Callback failed after max retries: no reason given",
        ),
    ],
)
def test_a_job_that_has_ended(fields: dict[str, object], message: str) -> None:
    job = msgspec.structs.replace(a_job(**ENDED), **fields)
    attempts = known_attempts(job) or ()
    assert messages(job, *attempts)[-1] == message


def test_attempts_that_need_not_be_looked_up() -> None:
    assert known_attempts(a_job()) == ()
    assert known_attempts(a_job(token=1, state=JobState.RUNNING)) == ()
    assert known_attempts(a_job(token=2, state=JobState.FAILED)) is None
    assert known_attempts(a_job(state=JobState.CANCELLED, **ENDED)) is None
    (attempt,) = known_attempts(a_job(state=JobState.FAILED, error="it broke", **ENDED)) or ()
    assert (attempt.outcome, attempt.error) == (OutcomeName.FAILED, "it broke")
