"""What the end of a job leaves: its key, its payload, its event, and the end of its flow."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from onbeat.model.condition import Condition
from onbeat.model.event import EventCause
from onbeat.model.held_key import ALWAYS, HeldKey
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.limits import EVENT_DEPTH_MAX
from onbeat.model.target import (
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.rules.dependents import doom_of_flow, end_of_flow, stay_cancelled
from onbeat.rules.held_keys import held_key, is_held, outlasts
from onbeat.rules.job_events import DEPTH, end_event
from onbeat.rules.payloads import without_payload
from onbeat.testing.build import NOW, a_job

MINUTE = timedelta(minutes=1)
FAILED = "onbeat.job.failed"


def keyed(**fields: Any) -> Job:
    return a_job(unique="k", unique_for=MINUTE, **fields)


def test_a_key_is_held_for_its_span_or_for_ever() -> None:
    job = keyed()
    assert held_key(job, JobState.SUCCEEDED, NOW) == HeldKey(
        key="k", job_id=job.id, until=NOW + MINUTE
    )
    lasting = a_job(unique="k", unique_for=ALWAYS)
    assert held_key(lasting, JobState.FAILED, NOW) == HeldKey(
        key="k", job_id=lasting.id, until=None
    )


def test_what_did_nothing_or_asks_for_nothing_holds_no_key() -> None:
    assert held_key(keyed(), JobState.CANCELLED, NOW) is None
    assert held_key(keyed(started_at=NOW), JobState.CANCELLED, NOW) is not None
    assert held_key(a_job(unique="k"), JobState.SUCCEEDED, NOW) is None
    assert held_key(a_job(unique_for=MINUTE), JobState.SUCCEEDED, NOW) is None


def test_of_two_copies_of_a_key_the_one_that_is_held_longer_counts() -> None:
    short, long = (HeldKey(key="k", job_id=JobId("j"), until=NOW + n * MINUTE) for n in (1, 2))
    lasting = HeldKey(key="k", job_id=JobId("j"), until=None)
    assert outlasts(short, None)
    assert outlasts(long, short)
    assert outlasts(lasting, long)
    assert not outlasts(short, long)
    assert not outlasts(long, lasting)
    assert (is_held(short, NOW), is_held(short, NOW + MINUTE)) == (True, False)
    assert is_held(lasting, NOW + 1_000 * MINUTE)


@pytest.mark.parametrize(
    ("target", "left"),
    [
        (HandlerTarget("work", msgspec.Raw(b"[1]")), HandlerTarget("work")),
        (
            HttpTarget("http://h/p?code=1", "POST", {"a": "b"}, "body", "whsec_x"),
            HttpTarget("http://h/p", "POST"),
        ),
        (MessageTarget("mq", "q", msgspec.Raw(b"1"), {"a": "b"}), MessageTarget("mq", "q")),
        (
            NotifyTarget("mail", "ada@example.com", text="code"),
            NotifyTarget("mail", "ada@example.com"),
        ),
    ],
)
def test_only_whom_it_called_is_left_of_a_sensitive_job(target: Target, left: Target) -> None:
    job = a_job(target=target, condition=Condition(text="true"))
    assert without_payload(job) is job
    bare = without_payload(msgspec.structs.replace(job, sensitive=True))
    assert (bare.target, bare.condition) == (left, None)


def ended(**fields: Any) -> Job:
    failed = a_job(state=JobState.FAILED, finished_at=NOW, error="boom")
    return msgspec.structs.replace(failed, **fields)


def test_the_end_of_a_job_is_an_event_where_it_is_wanted() -> None:
    job = ended()
    event = end_event(job, {FAILED})
    assert event is not None
    assert event.data is not None
    data = msgspec.json.decode(event.data)
    assert (event.type, event.subject, event.extensions) == (FAILED, job.id, {DEPTH: 1})
    assert (data["job"], data["task"], data["error"]) == (job.id, "work", "boom")
    assert end_event(job, {"onbeat.job.cancelled"}) is None
    assert end_event(ended(finished_at=None), {FAILED}) is None
    called = end_event(ended(target=HttpTarget("http://h/")), {FAILED})
    assert called is not None
    assert called.data is not None
    assert msgspec.json.decode(called.data)["target"] == "@http"


def test_a_job_of_an_own_event_makes_none_of_its_type_and_none_for_ever() -> None:
    other = "onbeat.job.cancelled"
    assert end_event(ended(cause=EventCause(FAILED)), {FAILED}) is None
    deep = end_event(ended(cause=EventCause(other, EVENT_DEPTH_MAX - 1)), {FAILED})
    assert deep is not None
    assert deep.extensions == {DEPTH: EVENT_DEPTH_MAX}
    assert end_event(ended(cause=EventCause(other, EVENT_DEPTH_MAX)), {FAILED}) is None


def test_a_flow_ends_as_the_worst_of_its_jobs() -> None:
    done = ended(state=JobState.SUCCEEDED)
    stopped = ended(state=JobState.CANCELLED)
    by_another = ended(state=JobState.CANCELLED, cause_id=done.id)
    assert end_of_flow([done, by_another]) is JobState.SUCCEEDED
    assert end_of_flow([done, stopped]) is JobState.CANCELLED
    assert end_of_flow([stopped, ended()]) is JobState.FAILED
    assert end_of_flow([]) is JobState.SUCCEEDED
    assert doom_of_flow(JobId("f"), JobState.FAILED).reason == "flow f it waited for failed"


def test_what_another_failure_prevents_stays_cancelled_with_what_comes_after_it() -> None:
    lost, other = JobId("lost"), JobId("other")
    first = a_job(after=(lost, other))
    second = a_job(after=(first.id,))
    clean = a_job(after=(first.id,), edges={first.id: Edge.END})
    stay = stay_cancelled([first, second, clean], {other: JobState.FAILED})
    assert stay.keys() == {first.id, second.id}
    assert stay[first.id].cause_id == other
    assert stay[second.id].reason == f"job {first.id} it waited for was cancelled"
    assert stay_cancelled([first, second], {other: JobState.SUCCEEDED}) == {}
