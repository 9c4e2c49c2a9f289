"""Which jobs a filter is for."""

from typing import Any

import pytest

from onbeat.model.job import JobState
from onbeat.model.page import JobFilter
from onbeat.rules.job_filters import fold, matches
from onbeat.testing.build import HOUR, NOW, TICK, a_job, an_id

FLOW, SCHEDULE, OTHER = an_id(), an_id(), an_id()
JOB = a_job(
    "billing.charge",
    queue="billing",
    schedule_id=SCHEDULE,
    flow=FLOW,
    labels={"run": "2026-11", "a:b": "c"},
    state=JobState.FAILED,
    finished_at=NOW,
    error="Traceback\nTimeout: Ärger",
)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({}, True),
        ({"state": JobState.FAILED}, True),
        ({"state": JobState.WAITING}, False),
        ({"queue": "billing"}, True),
        ({"queue": "bill"}, False),
        ({"schedule_id": SCHEDULE}, True),
        ({"schedule_id": OTHER}, False),
        ({"flow": FLOW}, True),
        ({"flow": OTHER}, False),
        ({"ids": (JOB.id,)}, True),
        ({"ids": ()}, False),
        ({"task": "billing.charge"}, True),
        ({"task": "billing.*"}, True),
        ({"task": "*"}, True),
        ({"task": "billing.charge*"}, True),
        ({"task": "billing"}, False),
        ({"task": "mail.*"}, False),
        ({"label": ("run:2026-11",)}, True),
        ({"label": ("run:2026-11", "a:b:c")}, True),
        ({"label": ("run:2026-1",)}, False),
        ({"label": ("run:2026-11", "x:y")}, False),
        ({"since": NOW}, True),
        ({"since": NOW + TICK}, False),
        ({"until": NOW + TICK}, True),
        ({"until": NOW}, False),
        ({"since": NOW, "until": NOW + HOUR}, True),
        ({"error": "TIMEOUT"}, True),
        ({"error": "Ärger"}, True),
        ({"error": "ärger"}, False),
        ({"error": "refused"}, False),
    ],
)
def test_each_filter_counts(filter: dict[str, Any], expected: bool) -> None:
    assert matches(JobFilter(**filter), JOB) is expected


def test_a_job_that_has_not_ended_counts_by_its_due_time() -> None:
    job = a_job(due_at=NOW + HOUR)
    assert matches(JobFilter(since=NOW + HOUR), job)
    assert not matches(JobFilter(until=NOW + HOUR), job)
    assert not matches(JobFilter(error="x"), job)


def test_only_the_letters_of_ascii_lose_their_case() -> None:
    assert fold("AbZ Ä 1") == "abz Ä 1"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"state": JobState.FAILED, "flow": FLOW, "schedule_id": SCHEDULE}, False),
        ({"queue": "a"}, True),
        ({"label": ("a:b",)}, True),
        ({"ids": ()}, True),
        ({"since": NOW}, True),
    ],
)
def test_what_no_index_answers_is_a_search(fields: dict[str, Any], expected: bool) -> None:
    assert JobFilter(**fields).is_search is expected
