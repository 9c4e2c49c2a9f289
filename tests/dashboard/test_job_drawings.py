"""What the page of a job draws: attempts on a bar, and a traceback in parts."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat.dashboard.drawing.attempts import SHOWN_MAX, attempt_bars
from onbeat.dashboard.drawing.tracebacks import FRAME_LINES_MAX, traceback_parts
from onbeat.model.attempt import OutcomeName
from onbeat.model.job import JobState
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job
from onbeat.wire.jobs import AttemptAnswer, job_answer

ERROR = """Traceback (most recent call last):
  File "/srv/shop/billing.py", line 8, in charge
    send(card)
  File "/usr/lib/python3.12/site-packages/http/client.py", line 3, in send
    raise Timeout
  File "<frozen importlib>", line 1, in run
Timeout: no answer
"""


def attempt(number: int, start: int, end: int | None, outcome: OutcomeName | None) -> AttemptAnswer:
    known: dict[str, Any] = (
        {} if end is None else {"finished": NOW + end * SECOND, "outcome": outcome}
    )
    return AttemptAnswer(number=number, worker="w", started=NOW + start * SECOND, **known)


def test_waits_attempts_and_the_plan_stand_on_one_scale() -> None:
    job = job_answer(a_job(attempt=1, due_at=NOW + 100 * SECOND))
    bars = attempt_bars(job, [attempt(1, 10, 40, OutcomeName.FAILED)], NOW + 50 * SECOND)
    assert [(bar.x, bar.width, bar.mark) for bar in bars] == [
        (0.0, 10.0, "wait-2"),
        (10.0, 30.0, "fail"),
        (40.0, 10.0, "wait-2"),
        (50.0, 50.0, "plan"),
    ]
    assert bars[1].words == "attempt 1: failed 30.0 s"
    assert bars[3].words == "attempt 2 is planned"


@pytest.mark.parametrize(
    ("outcome", "mark"),
    [(OutcomeName.SUCCEEDED, "ok"), (OutcomeName.CANCELLED, "wait"), (OutcomeName.LOST, "fail")],
)
def test_each_end_has_its_colour(outcome: OutcomeName, mark: str) -> None:
    job = job_answer(a_job(state=JobState.SUCCEEDED, finished_at=NOW))
    (bar,) = attempt_bars(job, [attempt(1, 0, 1, outcome)], NOW + MINUTE)
    assert bar.mark == mark


def test_a_running_attempt_reaches_to_now() -> None:
    job = job_answer(a_job(state=JobState.RUNNING))
    (bar,) = attempt_bars(job, [attempt(1, 0, None, None)], NOW + MINUTE)
    assert (bar.mark, bar.width) == ("run", 100.0)


def test_a_job_that_ended_without_an_attempt_has_no_bar() -> None:
    assert attempt_bars(job_answer(a_job(state=JobState.CANCELLED)), (), NOW) == ()


def test_only_the_newest_attempts_are_drawn() -> None:
    many = [attempt(n, n, n + 1, OutcomeName.FAILED) for n in range(1_000)]
    job = job_answer(a_job(state=JobState.FAILED, finished_at=NOW + timedelta(seconds=1_000)))
    assert len(attempt_bars(job, many, NOW)) == SHOWN_MAX


def test_frames_of_libraries_are_told_from_own_ones() -> None:
    parts = traceback_parts(ERROR)
    assert [(part.kind, part.frames) for part in parts] == [
        ("text", 0),
        ("own", 0),
        ("library", 2),
        ("text", 0),
    ]
    assert "\n".join(part.text for part in parts) == ERROR.rstrip("\n")


def test_an_error_of_any_length_stays_whole() -> None:
    error = "\n".join(f"line {n}" for n in range(FRAME_LINES_MAX + 5))
    assert "\n".join(part.text for part in traceback_parts(error)) == error
    assert traceback_parts("") == []
