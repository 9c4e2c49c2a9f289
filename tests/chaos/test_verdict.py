"""The judge of chaos sees each way in which journals can be wrong."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chaos.verdict import Journals, Record, Run, Verdict, judge, table

AT = datetime(2030, 1, 1, tzinfo=UTC)


def good():
    """Two jobs that went well, one of them after its worker was killed, poison, and a schedule."""
    return Journals(
        intents={1, 2, 3},
        answers=[(1, "a"), (2, "b"), (2, "b"), (3, "p")],
        runs=[
            Run("a", 1, "w1", 1.0, 2.0),
            Run("b", 1, "w1", 1.0),
            Run("b", 2, "w2", 6.5, 7.0),
            Run("p", 1, "w2", 1.0),
        ],
        records={
            "a": Record("a", "work", "succeeded", 1, 1, result=1),
            "b": Record("b", "work", "succeeded", 2, 2, result=2, lost=frozenset({1})),
            "p": Record("p", "poison", "failed", 1, 3, reason="poison: its worker died"),
        },
        kills=[("w1", 5.0)],
        wanted=[AT, AT + timedelta(seconds=1)],
        dispositions=[AT, AT + timedelta(seconds=1)],
    )


def test_journals_of_a_good_run_are_good():
    verdict = judge(good())
    assert verdict.is_good, table("good", verdict)
    assert (verdict.accepted, verdict.ok, verdict.recovered) == (3, 3, [1.5])


def changed(journals, id, **fields):
    journals.records[id] = replace(journals.records[id], **fields)


def forget_job(journals):
    del journals.records["a"]


def add_job_nobody_asked_for(journals):
    journals.records["x"] = Record("x", "work", "succeeded", 1, 9, result=1)
    journals.runs.append(Run("x", 1, "w1", 1.0, 2.0))


def leave_job_waiting(journals):
    changed(journals, "a", state="waiting")


def fail_innocent(journals):
    changed(journals, "a", state="failed", reason="poison: its worker died 3 times")


def let_poison_succeed(journals):
    changed(journals, "p", state="succeeded")


def end_poison_without_evidence(journals):
    changed(journals, "p", reason="attempts used up")


def make_two_jobs_of_one_request(journals):
    journals.records["a2"] = Record("a2", "work", "succeeded", 1, 1, result=1)
    journals.runs.append(Run("a2", 1, "w1", 1.0, 2.0))


def answer_one_request_with_two_jobs(journals):
    journals.answers.append((1, "b"))


def run_again_after_its_end(journals):
    journals.runs.append(Run("a", 2, "w2", 9.0, 9.5))


def give_one_token_out_twice(journals):
    journals.runs.append(Run("a", 1, "w2", 3.0, 4.0))


def overlap(journals):
    journals.runs[1] = Run("b", 1, "w1", 1.0, 6.9)
    changed(journals, "b", lost=frozenset())


def count_stale_result(journals):
    changed(journals, "b", result=1)


def succeed_without_a_run(journals):
    journals.runs.remove(Run("a", 1, "w1", 1.0, 2.0))


def miss_occurrence(journals):
    journals.dispositions.pop()


def record_occurrence_twice(journals):
    journals.dispositions.append(AT)


def invent_occurrence(journals):
    journals.dispositions.append(AT + timedelta(seconds=0.5))


@pytest.mark.parametrize(
    ("spoil", "seen"),
    [
        (forget_job, "lost"),
        (add_job_nobody_asked_for, "unexpected"),
        (leave_job_waiting, "unended"),
        (fail_innocent, "harmed"),
        (let_poison_succeed, "harmed"),
        (end_poison_without_evidence, "harmed"),
        (make_two_jobs_of_one_request, "doubled"),
        (answer_one_request_with_two_jobs, "doubled"),
        (run_again_after_its_end, "doubled"),
        (give_one_token_out_twice, "doubled"),
        (overlap, "overlapped"),
        (count_stale_result, "stale"),
        (succeed_without_a_run, "stale"),
        (miss_occurrence, "occurrences"),
        (record_occurrence_twice, "occurrences"),
        (invent_occurrence, "occurrences"),
    ],
)
def test_each_wrong_is_seen_and_called_by_its_name(spoil, seen):
    journals = good()
    spoil(journals)
    verdict = judge(journals)
    assert getattr(verdict, seen)
    assert not verdict.is_good
    assert f"  {seen}: " in table("bad", verdict)


def test_every_violation_has_a_wrong_here():
    (mark,) = test_each_wrong_is_seen_and_called_by_its_name.pytestmark
    assert {seen for _, seen in mark.args[1]} == set(Verdict.VIOLATIONS)


def test_a_run_in_which_nothing_was_accepted_proves_nothing():
    assert not judge(Journals()).is_good


def test_an_attempt_that_was_lost_may_go_on_beside_the_next():
    journals = good()
    journals.runs[1] = Run("b", 1, "w1", 1.0, 6.9)
    assert judge(journals).is_good
