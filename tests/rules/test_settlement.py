from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.attempt import OutcomeName
from onbeat.model.condition import Condition
from onbeat.model.ids import Token, WorkerId
from onbeat.model.job import Job, JobState, Progress, Suspicion
from onbeat.model.limits import (
    ERROR_CHARS_MAX,
    ERROR_LINE_CHARS_MAX,
    LOST_MAX,
    REASON_CHARS_MAX,
    RELEASED_MAX,
    SPAN_MAX,
)
from onbeat.model.outcome import Cancelled, Failed, Lost, Released, Snoozed, Succeeded
from onbeat.model.retry import RetryPolicy
from onbeat.model.worker import carrier_id, remote_id
from onbeat.rules.condition import failed, is_to_be_judged
from onbeat.rules.faults import fault_key
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job

PLAIN = RetryPolicy(attempts_max=3, delay=SECOND, jitter=False)


def running(**fields: Any) -> Job:
    job = a_job(
        state=JobState.RUNNING,
        attempt=1,
        token=Token(1),
        worker=WorkerId("w"),
        started_at=NOW,
        progress=Progress(1, 2),
        retry=PLAIN,
        start_by=NOW,
    )
    return replace(job, **fields)


# outcome, the job as it ran, and what it becomes
WAITS = [
    (Failed("x"), {}, SECOND, {"attempt": 1, "error": "x"}),
    (Failed("x"), {"attempt": 2}, 2 * SECOND, {"attempt": 2}),
    # What was lost does not count against the attempts of the policy.
    (Failed("x"), {"attempt": 4, "lost": 2}, 2 * SECOND, {"attempt": 4}),
    (Failed("x", retry_after=MINUTE), {}, MINUTE + SECOND, {"error": "x"}),
    (Snoozed(MINUTE), {"attempt": 3}, MINUTE, {"attempt": 2}),
    (Snoozed(timedelta()), {}, timedelta(), {"attempt": 0}),
    (Snoozed(MINUTE), {"reason": "before"}, MINUTE, {"reason": None}),
    (Snoozed(MINUTE, "down"), {"error": "x"}, MINUTE, {"reason": "down", "error": "x"}),
    (Failed("x"), {"reason": "down"}, SECOND, {"reason": None}),
    (Released(), {"attempt": 3}, timedelta(), {"attempt": 2, "released": 1}),
    (
        Released(),
        {"released": RELEASED_MAX - 1},
        timedelta(),
        {"released": RELEASED_MAX},
    ),
    (Lost("w died"), {}, timedelta(), {"lost": 1, "attempt": 1, "error": "w died"}),
    (Lost("w died"), {"attempt": 2, "lost": 1}, SECOND, {"lost": 2}),
    (
        Lost("w died"),
        {"attempt": 2, "lost": 1, "suspicion": Suspicion(1, 1)},
        2 * SECOND,
        {"lost": 2, "suspicion": Suspicion(2, 1)},
    ),
]


@pytest.mark.parametrize(("outcome", "before", "wait", "wanted"), WAITS)
def test_what_can_go_on_waits_again(
    outcome: Any, before: dict[str, Any], wait: timedelta, wanted: dict[str, Any]
) -> None:
    settled = settle(running(**before), outcome, NOW, 0.5)
    assert settled.state is JobState.WAITING
    assert settled.due_at == NOW + wait
    assert {name: getattr(settled, name) for name in wanted} == wanted
    assert settled.worker is None
    assert settled.progress is None
    assert settled.start_by is None
    assert settled.finished_at is None


def test_a_job_that_no_worker_has_started_still_has_to_start_in_time() -> None:
    carried = running(worker=carrier_id("1"), start_by=NOW + MINUTE)
    assert settle(carried, Released(), NOW, 0.5).start_by == NOW + MINUTE
    for worker in ("worker-1", remote_id("w")):
        began = running(worker=worker, start_by=NOW + MINUTE)
        assert settle(began, Released(), NOW, 0.5).start_by is None


@pytest.mark.parametrize(
    ("outcome", "worker", "due_at"),
    [
        (Snoozed(timedelta(), unstarted=True), "worker-1", NOW - HOUR),
        (Snoozed(SECOND, unstarted=True), "worker-1", NOW + SECOND),
        (Snoozed(unstarted=True, until=NOW + SECOND), "worker-1", NOW + SECOND),
        (Snoozed(unstarted=True, until=NOW - SECOND), "worker-1", NOW),
        (Snoozed(timedelta()), "worker-1", NOW),
        (Released(), carrier_id("1"), NOW - HOUR),
        (Released(), "worker-1", NOW),
    ],
)
def test_a_job_that_is_put_back_before_it_began_keeps_its_place(
    outcome: Any, worker: str, due_at: datetime
) -> None:
    assert settle(running(due_at=NOW - HOUR, worker=worker), outcome, NOW, 0.5).due_at == due_at


@pytest.mark.parametrize(
    ("outcome", "start_by"),
    [
        (Released(), None),
        (Snoozed(timedelta()), None),
        (Snoozed(timedelta(), unstarted=True), NOW + MINUTE),
        (Snoozed(SECOND, unstarted=True), NOW + 2 * MINUTE),
        (Snoozed(unstarted=True, until=NOW + SECOND), NOW + 2 * MINUTE),
        (Snoozed(unstarted=True, until=NOW - SECOND), NOW + 2 * MINUTE),
    ],
)
def test_a_job_that_never_ran_still_has_to_start_in_time(
    outcome: Any, start_by: datetime | None
) -> None:
    """One that is put off has to by its expiry, which is all that still bounds it."""
    times = {"start_by": NOW + MINUTE, "expires_at": NOW + 2 * MINUTE}
    assert settle(running(**times), outcome, NOW, 0.5).start_by == start_by
    ran_before = running(attempt=2, **times)
    assert settle(ran_before, outcome, NOW, 0.5).start_by is None


UNSTARTED = (Snoozed(timedelta(), unstarted=True), Cancelled("no", unstarted=True))


@pytest.mark.parametrize("outcome", UNSTARTED)
@pytest.mark.parametrize(
    ("before", "has_begun"),
    [
        ({}, False),
        ({"attempt": 2}, True),
        ({"attempt": 2, "lost": 1}, True),
        ({"released": 1}, True),
        ({"cursor": b"{}"}, True),
    ],
)
def test_a_job_whose_target_never_ran_has_no_start(
    outcome: Any, before: dict[str, Any], has_begun: bool
) -> None:
    job = running(**before)
    settled = settle(job, outcome, NOW, 0.5)
    assert settled.started_at == (job.started_at if has_begun else None)
    assert settled.attempt == job.attempt - 1


def test_a_job_that_was_only_on_its_way_has_no_start() -> None:
    assert settle(running(worker=carrier_id("1")), Released(), NOW, 0.5).started_at is None
    assert settle(running(), Released(), NOW, 0.5).started_at is not None


ENDS = [
    (Succeeded(), {}, JobState.SUCCEEDED, {"reason": None, "error": None}),
    (
        Succeeded(msgspec.Raw(b"7")),
        {"error": "before"},
        JobState.SUCCEEDED,
        {"result": msgspec.Raw(b"7"), "error": None},
    ),
    (Failed("x", retryable=False), {}, JobState.FAILED, {"reason": "not retryable", "error": "x"}),
    (Failed("x"), {"attempt": 3}, JobState.FAILED, {"reason": "attempts used up", "error": "x"}),
    (Failed("x"), {"attempt": 5, "lost": 2}, JobState.FAILED, {"reason": "attempts used up"}),
    (Cancelled("why"), {}, JobState.CANCELLED, {"reason": "why", "result": None}),
    (
        Lost("w died"),
        {"attempt": 3, "lost": LOST_MAX - 1, "suspicion": Suspicion(LOST_MAX - 1, 1)},
        JobState.FAILED,
        {"error": "w died", "lost": LOST_MAX, "suspicion": None},
    ),
    (
        Lost("w died"),
        {"cancel_reason": "stop"},
        JobState.CANCELLED,
        {"reason": "stop", "lost": 1},
    ),
    (
        Released(),
        {"released": RELEASED_MAX},
        JobState.FAILED,
        {"reason": f"handed back {RELEASED_MAX} times"},
    ),
]


@pytest.mark.parametrize(("outcome", "before", "state", "wanted"), ENDS)
def test_what_cannot_go_on_ends_with_its_reason(
    outcome: Any, before: dict[str, Any], state: JobState, wanted: dict[str, Any]
) -> None:
    settled = settle(running(**before), outcome, NOW + SECOND, 0.5)
    assert settled.state is state
    assert settled.finished_at == NOW + SECOND
    assert {name: getattr(settled, name) for name in wanted} == wanted


@given(chance=st.floats(0, 1, exclude_max=True), attempt=st.integers(1, 9))
def test_a_target_that_asks_for_a_wait_gets_at_least_that(chance: float, attempt: int) -> None:
    policy = RetryPolicy(attempts_max=10, delay=SECOND, delay_max=MINUTE)
    job = running(retry=policy, attempt=attempt)
    settled = settle(job, Failed("x", retry_after=MINUTE), NOW, chance)
    assert NOW + MINUTE <= settled.due_at <= NOW + 2 * MINUTE


@given(chance=st.floats(0, 1, exclude_max=True), attempt=st.integers(1, 9))
def test_a_retry_waits_within_full_jitter(chance: float, attempt: int) -> None:
    job = running(retry=RetryPolicy(attempts_max=10, delay=SECOND), attempt=attempt)
    wait = settle(job, Failed("x"), NOW, chance).due_at - NOW
    assert timedelta() <= wait <= SECOND * 2 ** (attempt - 1)


@given(
    st.lists(st.sampled_from([Failed("x"), Lost("w"), Released(), Snoozed(SECOND)]), max_size=60)
)
def test_failures_losses_and_releases_each_have_a_budget_of_their_own(outcomes: list[Any]) -> None:
    job = running(attempt=0, state=JobState.WAITING)
    answer = []
    for outcome in outcomes:
        job = settle(replace(job, state=JobState.RUNNING, attempt=job.attempt + 1), outcome, NOW, 0)
        answer.append(type(outcome))
        if job.is_final:
            break
    assert answer.count(Failed) <= PLAIN.attempts_max
    assert answer.count(Lost) <= LOST_MAX
    assert answer.count(Released) <= RELEASED_MAX + 1
    used_up = (
        answer.count(Failed) == PLAIN.attempts_max
        or answer.count(Lost) == LOST_MAX
        or answer.count(Released) > RELEASED_MAX
    )
    assert job.is_final == used_up
    assert job.attempt - job.lost == answer.count(Failed) + (
        answer[-1:] == [Released] and job.is_final
    )


def test_a_long_error_keeps_its_telling_end_and_a_long_reason_its_beginning() -> None:
    long = "".join(f"line {number}\n" for number in range(2_000)) + "!"
    settled = settle(running(), Failed(long), NOW, 0)
    assert settled.error == long[-ERROR_CHARS_MAX:]
    assert attempt_of(running(), Failed(long), NOW).error == long[-ERROR_CHARS_MAX:]
    cancelled = settle(running(), Cancelled("!" + long), NOW, 0)
    assert cancelled.reason == ("!" + long)[:REASON_CHARS_MAX]


def test_a_message_of_a_megabyte_leaves_what_was_raised_and_where() -> None:
    text = f'  File "shop.py", line 9, in pay\nValueError: {"x" * 1_000_000}!'
    kept = settle(running(), Failed(text), NOW, 0).error
    assert kept is not None
    assert kept.startswith('  File "shop.py", line 9, in pay\nValueError: xxx')
    assert " … 998,013 characters left out … " in kept
    assert kept.endswith("x!")
    assert len(kept) < 2 * ERROR_LINE_CHARS_MAX
    whole = "x" * ERROR_CHARS_MAX
    assert settle(running(), Failed(whole), NOW, 0).error == whole


def test_text_that_no_store_can_keep_is_made_keepable() -> None:
    broken = "cannot read caf\udce9.txt"
    assert settle(running(), Failed("bad byte \0"), NOW, 0).error == "bad byte \ufffd"
    assert (
        settle(running(), Snoozed(timedelta(), "bad byte \0"), NOW, 0).reason == "bad byte \ufffd"
    )
    assert settle(running(), Failed(broken), NOW, 0).error == "cannot read caf?.txt"
    assert attempt_of(running(), Failed(broken), NOW).error == "cannot read caf?.txt"
    assert settle(running(), Cancelled(broken), NOW, 0).reason == "cannot read caf?.txt"
    assert attempt_of(running(), Cancelled(broken), NOW).error == "cannot read caf?.txt"


@pytest.mark.parametrize("delay", [timedelta(days=10_000_000), timedelta.max])
def test_a_snooze_lasts_at_most_as_long_as_any_delay(delay: timedelta) -> None:
    assert settle(running(), Snoozed(delay), NOW, 0).due_at == NOW + SPAN_MAX


def test_a_snooze_into_the_past_is_due_now() -> None:
    assert settle(running(), Snoozed(-MINUTE), NOW, 0).due_at == NOW
    assert settle(running(), Snoozed(until=NOW - MINUTE), NOW, 0).due_at == NOW


def test_a_snooze_until_an_instant_ends_then_whenever_it_is_stored() -> None:
    snoozed = Snoozed(until=NOW + MINUTE)
    assert settle(running(), snoozed, NOW, 0).due_at == NOW + MINUTE
    assert settle(running(), snoozed, NOW + SECOND, 0).due_at == NOW + MINUTE


@pytest.mark.parametrize(
    ("outcome", "name", "error"),
    [
        (Succeeded(), OutcomeName.SUCCEEDED, None),
        (Failed("x"), OutcomeName.FAILED, "x"),
        (Snoozed(SECOND), OutcomeName.SNOOZED, None),
        (Snoozed(SECOND, "down"), OutcomeName.SNOOZED, "down"),
        (Cancelled("why"), OutcomeName.CANCELLED, "why"),
        (Lost("w"), OutcomeName.LOST, "w"),
        (Released(), OutcomeName.RELEASED, None),
    ],
)
def test_every_attempt_is_kept_with_one_outcome(
    outcome: Any, name: OutcomeName, error: str | None
) -> None:
    attempt = attempt_of(running(attempt=2, token=Token(5)), outcome, NOW + SECOND)
    assert (attempt.outcome, attempt.error) == (name, error)
    assert (attempt.number, attempt.token, attempt.worker) == (2, 5, "w")
    assert (attempt.started_at, attempt.finished_at) == (NOW, NOW + SECOND)


CONDITION = Condition(text="job.nothing > 1")
BROKEN = failed(CONDITION, "no such key")


@pytest.mark.parametrize(
    ("outcomes", "judged"),
    [
        ([BROKEN], True),
        ([BROKEN, Lost("w died")], True),
        ([BROKEN, Lost("w died"), Lost("v died")], True),
        ([Lost("w died"), BROKEN, Lost("w died")], True),
        ([failed(CONDITION, "ask: " + "x" * ERROR_CHARS_MAX), Lost("w died")], True),
        ([Lost("w died")], True),
        ([Failed("boom")], False),
        ([Failed("boom"), Lost("w died")], False),
        ([BROKEN, Failed("boom"), Lost("w died")], False),
        ([BROKEN, Lost("w died"), Failed("boom")], False),
    ],
)
@pytest.mark.parametrize("sensitive", [False, True])
def test_a_condition_is_judged_until_it_has_held(
    outcomes: list[Failed | Lost], judged: bool, sensitive: bool
) -> None:
    job = running(
        condition=CONDITION,
        retry=replace(PLAIN, attempts_max=9, lost_max=5),
        attempt=0,
        sensitive=sensitive,
    )
    for outcome in outcomes:
        job = replace(job, state=JobState.RUNNING, attempt=job.attempt + 1)
        job = settle(job, outcome, NOW, 0.5)
        assert job.state is JobState.WAITING
        assert len(job.error or "") <= ERROR_CHARS_MAX
    assert is_to_be_judged(replace(job, attempt=job.attempt + 1)) is judged
    if isinstance(outcomes[-1], Lost) and not sensitive:
        assert (job.error or "").endswith("died")


def test_a_failure_has_a_fault_that_lasts_until_success() -> None:
    failed_once = settle(running(), Failed("order 1 failed"), NOW, 0.0)
    assert failed_once.fault == fault_key(failed_once.target, "order 2 failed")
    again = replace(running(), fault=failed_once.fault, error=failed_once.error)
    kept: list[Any] = [Snoozed(MINUTE), Released()]
    assert {settle(again, outcome, NOW, 0.0).fault for outcome in kept} == {failed_once.fault}
    assert settle(again, Succeeded(), NOW, 0.0).fault is None
    for_good = settle(again, Failed("order 3 failed", retryable=False), NOW, 0.0)
    assert (for_good.state, for_good.fault) == (JobState.FAILED, failed_once.fault)
    lost = settle(again, Lost("worker gone"), NOW, 0.0)
    assert lost.fault == fault_key(lost.target, "worker gone")


def test_the_fault_of_a_sensitive_job_tells_nothing_of_its_error() -> None:
    faults = {settle(running(sensitive=True), Failed(text), NOW, 0.0).fault for text in ("a", "b")}
    assert len(faults) == 1
