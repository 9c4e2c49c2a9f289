"""What became of occurrences."""

from typing import Any

import pytest

from onbeat.model.job import JobState
from onbeat.model.limits import ERROR_CHARS_MAX
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.rules.outcomes import (
    FORGOTTEN,
    LATE_AFTER,
    REASON_CHARS_MAX,
    WORST_FIRST,
    BackfillCount,
    Judged,
    Span,
    count_backfill,
    last_words,
    outcome_of_job,
    outcome_without_job,
    worst,
)
from onbeat.rules.plans import MISFIRED
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({}, "planned", None),
        ({"started_at": NOW, "error": "at x\nboom\n"}, "retrying", "boom"),
        ({"state": JobState.RUNNING, "started_at": NOW}, "running", None),
        ({"state": JobState.FAILED, "error": "boom"}, "failed", "boom"),
        ({"state": JobState.FAILED, "reason": "poison"}, "failed", "poison"),
        ({"state": JobState.CANCELLED, "reason": "overlap"}, "skipped", "overlap"),
        ({"state": JobState.CANCELLED}, "skipped", None),
        ({"state": JobState.CANCELLED, "reason": MISFIRED}, "misfired", MISFIRED),
        (
            {"state": JobState.CANCELLED, "started_at": NOW, "reason": "by hand"},
            "cancelled",
            "by hand",
        ),
        ({"state": JobState.SUCCEEDED, "started_at": NOW, "attempt": 1}, "ran", None),
        ({"state": JobState.SUCCEEDED, "attempt": 1}, "ran", None),
        ({"state": JobState.SUCCEEDED, "started_at": NOW + HOUR, "attempt": 1}, "late", None),
        ({"state": JobState.SUCCEEDED, "started_at": NOW + HOUR, "attempt": 2}, "ran", None),
    ],
)
def test_a_job_tells(fields: dict[str, Any], outcome: str, reason: str | None) -> None:
    job = a_job(**{"due_at": NOW, "occurrence": NOW, **fields})
    assert outcome_of_job(job) == Judged(OccurrenceOutcome(outcome), reason)


def test_late_is_more_than_its_bound() -> None:
    for extra, outcome in ((0 * SECOND, "ran"), (SECOND, "late")):
        job = a_job(state=JobState.SUCCEEDED, attempt=1, started_at=NOW + LATE_AFTER + extra)
        assert outcome_of_job(job).outcome == outcome


def test_jitter_is_not_late() -> None:
    job = a_job(
        state=JobState.SUCCEEDED,
        attempt=1,
        due_at=NOW + HOUR,
        occurrence=NOW,
        started_at=NOW + HOUR,
    )
    assert outcome_of_job(job).outcome == "ran"


def test_without_a_job_it_was_skipped_or_is_forgotten() -> None:
    assert outcome_without_job("paused") == Judged(OccurrenceOutcome.SKIPPED, "paused")
    assert outcome_without_job(MISFIRED) == Judged(OccurrenceOutcome.MISFIRED, MISFIRED)
    assert outcome_without_job(None) == Judged(OccurrenceOutcome.FORGOTTEN, FORGOTTEN)


def test_reasons_are_bounded() -> None:
    assert last_words("x" * 2 * ERROR_CHARS_MAX) == "x" * REASON_CHARS_MAX
    assert last_words(" \n ") is None
    assert last_words(None) is None


def test_the_worst_stands_for_all() -> None:
    assert {*WORST_FIRST} == {*OccurrenceOutcome}
    ran, failed = OccurrenceOutcome.RAN, OccurrenceOutcome.FAILED
    assert worst([ran, failed, ran]) is failed
    assert worst([ran]) is ran


def test_a_backfill_is_counted() -> None:
    at = [NOW + number * MINUTE for number in range(6)]
    known = [
        Span(at[0], at[0], has_job=True),
        Span(at[1], at[2], has_job=False),
        Span(at[2], at[2], has_job=True),  # within a run of skips
        Span(at[4] - SECOND, at[4] - SECOND, has_job=False),  # of an older rule
        Span(at[5], at[5] + HOUR, has_job=False),
    ]
    assert count_backfill(at, known) == BackfillCount(exist=2, skipped=2)
    assert count_backfill(at, []) == BackfillCount(0, 0)
    assert count_backfill([], known) == BackfillCount(0, 0)
