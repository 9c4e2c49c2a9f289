"""What a condition reads, and what follows from its value."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.condition import Condition
from onbeat.model.job import JobState
from onbeat.model.outcome import Cancelled, Failed, Snoozed
from onbeat.rules.condition import (
    answer_fact,
    facts_of,
    is_to_be_judged,
    verdict_of,
)
from onbeat.testing.build import NOW, a_job

TEXT = Condition(text="answer > 1")


def test_a_condition_that_is_false_cancels_or_puts_off() -> None:
    assert verdict_of(TEXT, True) is None
    assert verdict_of(TEXT, False) == Cancelled("condition is false: answer > 1", unstarted=True)
    later = replace(TEXT, postpone=timedelta(minutes=5))
    reason = "condition is false: answer > 1"
    assert verdict_of(later, False) == Snoozed(timedelta(minutes=5), reason, unstarted=True)
    named = Condition(predicate="is_open")
    assert verdict_of(named, False) == Cancelled("condition is false: is_open", unstarted=True)


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "null"), ("yes", "a text"), (1, "a number"), ([], "a list or")]
)
def test_a_value_that_is_no_truth_is_a_failed_attempt(value: object, kind: str) -> None:
    verdict = verdict_of(TEXT, value)
    assert isinstance(verdict, Failed)
    assert f"its value is {kind}" in verdict.error


def test_the_body_of_an_answer_is_read_as_json_where_it_is() -> None:
    def http(body: str) -> object:
        return answer_fact(
            msgspec.Raw(msgspec.json.encode({"status": 200, "body": body})), is_http=True
        )

    assert http('{"a": 1}') == {"status": 200, "body": {"a": 1}}
    assert http("plain") == {"status": 200, "body": "plain"}
    assert answer_fact(None, is_http=False) is None
    assert answer_fact(msgspec.Raw(b"[1]"), is_http=False) == [1]


def test_jobs_before_are_known_by_name_or_else_by_id() -> None:
    named = a_job(name="left", state=JobState.SUCCEEDED, result=msgspec.Raw(b'{"rows": 2}'))
    again = a_job(name="left", state=JobState.FAILED, error="boom")
    plain = a_job(state=JobState.SUCCEEDED)
    gone = a_job()
    job = a_job(after=(named.id, again.id, plain.id, gone.id))
    facts = facts_of(job, NOW, after={one.id: one for one in (named, again, plain)})
    assert facts["after"] == {
        "left": {"state": "succeeded", "result": {"rows": 2}, "error": None},
        again.id: {"state": "failed", "result": None, "error": "boom"},
        plain.id: {"state": "succeeded", "result": None, "error": None},
    }


def test_a_condition_is_judged_until_it_has_held() -> None:
    assert not is_to_be_judged(a_job(attempt=1))
    job = a_job(attempt=1, condition=TEXT)
    assert is_to_be_judged(job)
    assert is_to_be_judged(replace(job, attempt=2, lost=1))
    assert is_to_be_judged(replace(job, attempt=2, error="condition failed: answer > 1: no key"))
    assert not is_to_be_judged(replace(job, attempt=2, error="boom"))
