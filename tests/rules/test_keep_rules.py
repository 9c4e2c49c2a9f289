"""How long ended jobs are kept, and what is swept."""

from datetime import timedelta

import pytest

from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.keep_rule import Keeping, KeepRule, Sweep
from onbeat.model.limits import KEEP_RULES_MAX, SPAN_MAX
from onbeat.rules.keep_rules import check_rules, kept_for, longest, sweeps
from onbeat.testing.build import DAY, HOUR, NOW

SUCCEEDED, FAILED, CANCELLED = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED
PLAIN = Keeping(after=7 * DAY, failed_after=30 * DAY)
BULK = KeepRule(queue="bulk", state=SUCCEEDED, after=HOUR)
PAYMENTS = KeepRule(queue="payments", after=365 * DAY)


def keeping(*rules: KeepRule) -> Keeping:
    return Keeping(after=PLAIN.after, failed_after=PLAIN.failed_after, rules=rules)


@pytest.mark.parametrize(
    ("rules", "queue", "state", "kept"),
    [
        ((), "mail", SUCCEEDED, 7 * DAY),
        ((), "mail", CANCELLED, 7 * DAY),
        ((), "mail", FAILED, 30 * DAY),
        ((BULK,), "bulk", SUCCEEDED, HOUR),
        ((BULK,), "bulk", FAILED, 30 * DAY),
        ((BULK,), "mail", SUCCEEDED, 7 * DAY),
        ((BULK, KeepRule(queue="bulk", after=DAY)), "bulk", SUCCEEDED, HOUR),
        ((BULK, KeepRule(queue="bulk", after=DAY)), "bulk", CANCELLED, DAY),
        ((BULK, KeepRule(after=2 * DAY)), "bulk", SUCCEEDED, HOUR),
        ((BULK, KeepRule(after=2 * DAY)), "mail", FAILED, 2 * DAY),
        ((KeepRule(state=FAILED, after=DAY), PAYMENTS), "payments", FAILED, DAY),
        ((KeepRule(state=FAILED, after=DAY), PAYMENTS), "payments", SUCCEEDED, 365 * DAY),
    ],
)
def test_the_first_rule_that_a_job_meets_counts(
    rules: tuple[KeepRule, ...], queue: str, state: JobState, kept: timedelta
) -> None:
    assert kept_for(keeping(*rules), queue, state) == kept


def test_the_longest_span_is_that_of_any_queue() -> None:
    assert longest(PLAIN, SUCCEEDED, CANCELLED) == 7 * DAY
    assert longest(keeping(BULK, PAYMENTS), SUCCEEDED, CANCELLED) == 365 * DAY
    assert longest(keeping(BULK), FAILED) == 30 * DAY


def test_without_rules_nothing_is_swept() -> None:
    assert list(sweeps(PLAIN, NOW)) == []


def test_what_is_kept_for_less_than_the_longest_span_is_swept() -> None:
    assert list(sweeps(keeping(BULK, PAYMENTS), NOW)) == [
        Sweep(state=SUCCEEDED, before=NOW - HOUR, queue="bulk"),
        Sweep(state=SUCCEEDED, before=NOW - 7 * DAY, others=("bulk", "payments")),
        Sweep(state=FAILED, before=NOW - 30 * DAY, others=("payments",)),
        Sweep(state=CANCELLED, before=NOW - 7 * DAY, others=("payments",)),
    ]


def test_states_that_go_together_are_swept_where_their_spans_differ() -> None:
    swept = list(sweeps(keeping(KeepRule(state=CANCELLED, after=DAY)), NOW))
    assert swept == [Sweep(state=CANCELLED, before=NOW - DAY)]


def test_a_sweep_takes_its_queue_or_all_but_others() -> None:
    one = Sweep(state=FAILED, before=NOW, queue="bulk")
    rest = Sweep(state=FAILED, before=NOW, others=("bulk",))
    assert (one.takes("bulk"), one.takes("mail")) == (True, False)
    assert (rest.takes("bulk"), rest.takes("mail")) == (False, True)


def test_as_many_rules_as_the_limit_are_possible() -> None:
    rules = [KeepRule(queue=f"queue {number}", after=DAY) for number in range(KEEP_RULES_MAX)]
    check_rules(rules)
    with pytest.raises(Invalid, match=f"at most {KEEP_RULES_MAX} rules"):
        check_rules([*rules, KeepRule(after=DAY)])


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([KeepRule(state=JobState.WAITING, after=DAY)], "rule 1: state must be one of"),
        ([KeepRule(after=-DAY)], "rule 1: after must be from 0s"),
        ([KeepRule(after=SPAN_MAX + DAY)], "rule 1: after must be from 0s to 3660d"),
        ([KeepRule(after=DAY), BULK], "rule 2 never counts"),
        ([KeepRule(queue="bulk", after=DAY), BULK], "rule 2 never counts"),
        ([KeepRule(state=SUCCEEDED, after=DAY), BULK], "rule 2 never counts"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules: list[KeepRule], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check_rules(rules)
