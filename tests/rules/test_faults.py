"""Keys, titles and counts of faults."""

import string
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.fault import HOURS_KEPT, OTHER, FaultRecord
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.limits import FAULTS_MAX
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, NotifyTarget, Target
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.faults import (
    END_CHARS,
    PLACE_CHARS_MAX,
    TITLE_CHARS_MAX,
    change_of,
    ends_of,
    fault_key,
    fault_of,
    generic,
    hour_of,
    hours_until,
    joined,
    with_change,
)

NOW = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
TASK = HandlerTarget("billing.charge")
CALLBACK = HttpTarget("https://user:secret@api.example.org:8443/orders/12?key=x", "POST")

TRACEBACK = """File "/srv/app/{release}/billing/charge.py", line {line}, in charge
    gateway.pay(order)
    ~~~~~~~~~~~^^^^^^^
  File "/usr/lib/python3.11/site-packages/gateway/client.py", line 40, in pay
    raise GatewayTimeout(order)
gateway.errors.GatewayTimeout: no answer for order {order} within {span} s
"""


KEY = 5980086082189516017
PLAIN_KEY = 1249447238838980942


def traceback(release: str = "r20", line: int = 12, order: str = "1", span: str = "30.0") -> str:
    return TRACEBACK.format(release=release, line=line, order=order, span=span)


def test_a_key_is_the_same_in_every_process_and_release() -> None:
    assert fault_key(TASK, traceback()) == KEY
    assert fault_key(TASK, "it broke") == PLAIN_KEY


def test_a_fault_tells_error_and_own_frame() -> None:
    fault = fault_of(TASK, traceback())
    assert fault.title == "GatewayTimeout: no answer for order # within # s"
    assert fault.place == "billing/charge.py in charge"
    assert fault.key == fault_key(TASK, traceback())


digits = st.integers(0, 10**12).map(str)
ids = st.uuids().map(str)
spans = st.floats(0, 10**6, allow_nan=False).map(lambda value: f"{value:.3f}")


@given(digits | ids, spans, st.integers(1, 9_999))
def test_errors_that_differ_in_numbers_and_ids_have_one_fault(
    order: str, span: str, line: int
) -> None:
    first = f"order {order} took {span} s, at line {line}"
    second = "order 1 took 2.5 s, at line 3"
    assert fault_key(TASK, first) == fault_key(TASK, second)
    assert fault_key(TASK, traceback(line=line, span=span)) == fault_key(TASK, traceback())


@given(st.text(max_size=400), st.text(max_size=60))
def test_every_error_has_a_key_and_a_short_title(error: str, task: str) -> None:
    fault = fault_of(HandlerTarget(task), error)
    assert 0 < fault.key < 2**63
    assert 0 < len(fault.title) <= TITLE_CHARS_MAX
    assert len(fault.place) <= PLACE_CHARS_MAX


@given(st.text(string.printable, max_size=200))
def test_what_is_generic_stays_so(text: str) -> None:
    assert not any(char.isdecimal() for char in generic(text))


SAME = {
    "quoted parts": ("no file 'a b'", "no file 'c'"),
    "double quotes": ('no "x" here', 'no "y z" here'),
    "addresses": ("GET https://a.org/1?x failed", "GET http://b.org failed"),
    "mails": ("mailbox a.b@example.org is full", "mailbox c@d.de is full"),
    "memory": ("<Thing at 0x7f3a> broke", "<Thing at 0xFFFF12> broke"),
    "hexadecimal ids": ("commit 3f9a2b7c01 is gone", "commit 00aa11bb22cc is gone"),
    "paths": ("cannot open /var/lib/x/y.db", "cannot open /tmp/z/w.db"),
    "short hexadecimal ids": ("commit 3f9a2b is gone", "commit 123456 is gone"),
    "workers": ("worker abcdefghijkl ended", "worker a2b3c4d5e6f7 ended"),
    "blanks": ("a  b\tc", "a b c"),
    "later lines": ("ValueError: no\nmore 1", "ValueError: no"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_differs_each_time_does_not_count(one: str, other: str) -> None:
    assert fault_key(TASK, one) == fault_key(TASK, other)


OTHERS = {
    "a kind": ("ValueError: no", "KeyError: no"),
    "words": ("no answer", "no route"),
    "a frame": (traceback(), traceback().replace("in charge", "in refund")),
    "nothing at all": ("", "x"),
}


@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS)
def test_what_tells_failures_apart_counts(one: str, other: str) -> None:
    assert fault_key(TASK, one) != fault_key(TASK, other)


def test_the_task_counts() -> None:
    assert fault_key(TASK, "no") != fault_key(HandlerTarget("mail"), "no")


def test_callbacks_are_told_by_status_and_host() -> None:
    said = "POST https://api.example.org:8443/orders/12 answered 503 Service Unavailable: busy 7"
    fault = fault_of(CALLBACK, said)
    assert fault.title == "HTTP 503 from api.example.org"
    other = HttpTarget("https://api.example.org/other", "GET")
    assert fault_key(other, "GET https://api.example.org/other answered 503: x") == fault.key
    assert fault_key(CALLBACK, said.replace("503", "404")) != fault.key
    moved = HttpTarget("https://b.example.org/orders/12", "POST")
    assert fault_key(moved, said) != fault.key
    failed = fault_of(CALLBACK, "POST https://api.example.org:8443/orders/12 failed: timed out")
    assert failed.title == "POST api.example.org failed: timed out"
    assert "secret" not in failed.title


def test_a_callback_whose_url_cannot_be_read_has_a_fault() -> None:
    assert fault_of(HttpTarget("http://[::1"), "http://[::1 answered 500").title.startswith("HTTP")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MessageTarget("shop", "orders"), MessageTarget("shop", "bills")),
        (MessageTarget("shop", "orders"), MessageTarget("home", "orders")),
        (NotifyTarget("mail"), NotifyTarget("chat")),
    ],
)
def test_messages_and_notices_are_told_by_where_they_go(one: Target, other: Target) -> None:
    assert fault_key(one, "no broker") == fault_key(one, "no broker")
    assert fault_key(one, "no broker") != fault_key(other, "no broker")


FRAMES = {
    "own frames go first": (traceback(), "billing/charge.py in charge"),
    "a library's, without any other": (
        'File "/x/site-packages/lib/a.py", line 1, in f\nValueError: no',
        "lib/a.py in f",
    ),
    "a module's": ('File "app.py", line 3\n    x = (\nSyntaxError: never closed', "app.py in "),
    "numbers of releases": ('File "/srv/r21/app3.py", line 3, in f\nE: x', "r#/app#.py in f"),
    "none": ("ValueError: no", ""),
}


@pytest.mark.parametrize(("error", "place"), FRAMES.values(), ids=FRAMES)
def test_the_place_is_the_innermost_own_frame(error: str, place: str) -> None:
    assert fault_of(TASK, error).place.startswith(place)


def test_an_error_of_a_group_is_read() -> None:
    error = """  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 3, in f
  |     raise ExceptionGroup("two", [ValueError(1)])
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------"""
    assert fault_of(TASK, error).title == "ExceptionGroup: two (# sub-exceptions)"


def test_a_traceback_without_its_last_line_has_a_title() -> None:
    assert fault_of(TASK, 'File "a.py", line 3, in f\n    x()').title == "no error text"


def test_only_the_ends_of_an_error_are_looked_at() -> None:
    """Longer errors cost no more: what is looked at has a fixed length."""
    begin, end = "a" * END_CHARS, "\n" + "b" * (END_CHARS - 1)
    assert len(ends_of("x" * 10**6)) == 2 * END_CHARS + 1
    assert len(ends_of("x" * 2 * 10**6)) == 2 * END_CHARS + 1
    long = [fault_key(TASK, begin + "\nValueError: x" * n + end) for n in (1_000, 2_000)]
    assert long[0] == long[1]


SHAPES = {
    "lines of frames": 'File "/app/a.py", line 3, in f\n',
    "blanks": " ",
    "margins": " | | ",
    "quotes": "'",
    "digits and letters": "1a",
    "slashes": "/a",
    "mails": "a@b.",
    "addresses": "http://",
    "letters": "a",
}


def calls_of(error: str) -> int:
    """How many functions run for it, those of the interpreter included."""
    count = 0

    def note(_frame: object, event: str, _value: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        fault_of(TASK, error)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("part", SHAPES.values(), ids=SHAPES)
def test_a_fault_costs_in_proportion_to_its_error(part: str) -> None:
    once, twice = (calls_of(part * (count // len(part))) for count in (3_000, 6_000))
    assert twice <= 2 * once + 10


# Counts


def a_record() -> FaultRecord:
    return with_change(None, change_of(TASK, "default", "job", "it broke", NOW))


def test_hours_are_shown_up_to_now() -> None:
    record = a_record()
    assert hours_until(record, NOW)[-2:] == (0, 1)
    assert hours_until(record, NOW + 2 * HOUR)[-3:] == (1, 0, 0)
    assert len(hours_until(record, NOW)) == HOURS_KEPT
    assert not any(hours_until(record, NOW + HOURS_KEPT * HOUR))
    assert hours_until(record, NOW + 2 * HOUR, 3) == (1, 0, 0)
    assert hours_until(record, NOW + 2 * HOUR, 2) == (0, 0)
    # An hour that has not come is left out.
    assert hours_until(record, NOW - HOUR, 3) == (0, 0, 0)


def test_changes_of_one_fault_are_joined() -> None:
    first = change_of(TASK, "a", "1", "it broke", NOW)
    second = change_of(TASK, "b", "2", "it broke", NOW + HOUR)
    for both in (joined(first, second), joined(second, first)):
        assert (both.queue, both.sample_job, both.attempts) == ("b", "2", 2)
        assert (both.first_at, both.last_at) == (NOW, NOW + HOUR)
        assert both.hours == {hour_of(NOW): 1, hour_of(NOW) + 1: 1}


# The tally of a process


def a_job(number: int = 1, error: str | None = "it broke", task: str = "work") -> Job:
    target = HandlerTarget(task)
    fault = None if error is None else fault_key(target, error)
    return Job(
        id=JobId(str(number)), target=target, created_at=NOW, due_at=NOW, error=error, fault=fault
    )


def an_attempt(job: Job, outcome: OutcomeName = OutcomeName.FAILED, at: datetime = NOW) -> Attempt:
    return Attempt(
        job_id=job.id, token=Token(1), number=1, worker=None,
        started_at=NOW, finished_at=at, outcome=outcome,
    )  # fmt: skip


def test_ten_thousand_failures_are_one_change() -> None:
    tally = FaultTally()
    for number in range(10_000):
        job = a_job(number, f"order {number} failed")
        tally.note(job, an_attempt(job, at=NOW + timedelta(seconds=number)))
    (change,) = tally.take()
    assert (change.attempts, sum(change.hours.values())) == (10_000, 10_000)
    assert (change.first_at, change.last_at) == (NOW, NOW + timedelta(seconds=9_999))
    assert change.sample_job == "9999"
    assert list(tally.take()) == []


@pytest.mark.parametrize("outcome", [*OutcomeName])
def test_only_failed_and_lost_attempts_count(outcome: OutcomeName) -> None:
    tally, job = FaultTally(), a_job()
    tally.note(job, an_attempt(job, outcome))
    assert bool(tally.take()) is (outcome in {OutcomeName.FAILED, OutcomeName.LOST})


def test_a_job_without_a_fault_does_not_count() -> None:
    tally, job = FaultTally(), a_job(error=None)
    tally.note(job, an_attempt(job))
    assert not tally.take()


def test_a_tally_is_bounded() -> None:
    tally = FaultTally()
    for number in range(FAULTS_MAX + 5):
        job = a_job(number, task=f"task {number}")
        tally.note(job, an_attempt(job))
    changes = tally.take()
    assert len(changes) == FAULTS_MAX + 1
    assert (changes[0].fault, changes[0].attempts) == (OTHER, 5)


def test_what_could_not_be_stored_is_added_again() -> None:
    tally, job = FaultTally(), a_job()
    tally.note(job, an_attempt(job))
    (change,) = tally.take()
    tally.note(job, an_attempt(job))
    tally.add(change)
    (both,) = tally.take()
    assert both.attempts == 2
