"""Why a job waits, from what is known of it: every reason, and when it may run."""

from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.condition import Window
from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import UNANSWERED
from onbeat.model.queue import Limits, Queue, Rate
from onbeat.model.schedule import PauseReason
from onbeat.model.target import NotifyTarget
from onbeat.rules.condition import FALSE
from onbeat.rules.why import Gathered, WaitFacts, key_it_holds, not_waiting, reasons
from onbeat.testing.build import HOUR, NOW, SECOND, a_job, a_schedule, a_worker, an_id

OTHERS = tuple(JobId(an_id()) for _ in range(2))
ABLE = [a_worker(concurrency=1)]
FULL = [a_worker(concurrency=1, running=1)]


def facts(job: Job | None = None, **known: Any) -> WaitFacts:
    return WaitFacts(
        **{
            "job": job or a_job(),
            "now": NOW,
            "queue": Queue(name="default"),
            "workers": ABLE,
            **known,
        }
    )


def limited(running: int = 0, **limits: Any) -> Queue:
    return Queue(name="default", running=running, due=2, limits=Limits(**limits))


CASES = {
    "ready": facts(),
    "lapsed": facts(a_job(start_by=NOW - SECOND)),
    "blocked": facts(a_job(blocked_by=1, after=OTHERS), predecessors=OTHERS),
    "overlap": facts(a_job(blocked_by=1)),
    "queue_paused": facts(queue=Queue(name="default", paused=True)),
    "schedule_paused": facts(schedule=a_schedule()),
    "later": facts(a_job(due_at=NOW + HOUR)),
    "retry_later": facts(a_job(due_at=NOW + HOUR, attempt=1, error="x\nTimeout")),
    "put_off": facts(a_job(due_at=NOW + HOUR, reason="asked to wait")),
    "condition": facts(replace(a_job(due_at=NOW + HOUR, reason=f"{FALSE}"), condition="true")),
    "gathering": facts(a_job(due_at=NOW + HOUR), gathered=Gathered("k", 1, NOW + HOUR)),
    "window": facts(a_job(window=(Window(days=(0,), start=0, end=60, timezone="UTC"),))),
    "queue_full": facts(queue=limited(running=1, concurrency=1)),
    "queue_rate": facts(queue=limited(rate=Rate(1, SECOND)), rate="1/s"),
    "group_full": facts(a_job(group="g"), queue=limited(group_concurrency=1), beside=1),
    "group_rate": facts(
        a_job(group="g"), queue=limited(group_rate=Rate(1, SECOND)), group_rate="1/s"
    ),
    "turn": facts(queue=limited(fair=True)),
    "no_worker": facts(workers=[]),
    "unknown_task": facts(workers=[a_worker(lanes=("other",))]),
    "no_worker_for_queue": facts(workers=[a_worker(queues=("other",))]),
    "workers_busy": facts(workers=FULL),
    "no_answer": facts(workers=[], calls=3),
}


@pytest.mark.parametrize(("code", "known"), CASES.items(), ids=CASES)
def test_each_reason_is_told(code: str, known: WaitFacts) -> None:
    (only,) = reasons(known)
    assert only.code == code
    assert only.words.endswith(".")


@pytest.mark.parametrize(
    "code", ["later", "retry_later", "put_off", "condition", "gathering", "window"]
)
def test_what_passes_by_itself_says_when(code: str) -> None:
    (only,) = reasons(CASES[code])
    assert only.until is not None
    assert only.until > NOW


def test_all_reasons_are_told_the_deepest_first() -> None:
    found = reasons(
        facts(a_job(due_at=NOW + HOUR), queue=Queue(name="default", paused=True), workers=[])
    )
    assert [one.code for one in found] == ["queue_paused", "later", "no_worker"]


def test_many_predecessors_are_counted() -> None:
    job = a_job(blocked_by=12, after=OTHERS)
    (only,) = reasons(facts(job, predecessors=OTHERS))
    assert only.words.endswith(" and 10 more.")
    assert only.jobs == OTHERS


@pytest.mark.parametrize(
    ("members", "live", "words"),
    [((), 0, "has just ended"), (OTHERS, 2, OTHERS[1]), (OTHERS, 13, "and 3 more")],
)
def test_a_flow_that_has_not_ended_is_named(members: Any, live: int, words: str) -> None:
    (only,) = reasons(facts(a_job(blocked_by=1), members=members, live=live))
    assert (only.code, only.jobs) == ("blocked", members)
    assert words in only.words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (PauseReason.ORPHANED, "no longer declares"),
        (PauseReason.DECLARED, "declares it so"),
        (None, "paused."),
    ],
)
def test_who_paused_a_schedule_is_told(reason: Any, words: str) -> None:
    (only,) = reasons(facts(schedule=a_schedule(pause_reason=reason)))
    assert words in only.words


def test_a_channel_that_no_worker_has_is_named() -> None:
    job = a_job(target=NotifyTarget(channel="mail", to="a@b.c"))
    (only,) = reasons(facts(job))
    assert "has the channel 'mail'" in only.words


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"state": JobState.RUNNING}, "running"),
        ({"state": JobState.RUNNING, "cancel_reason": "enough"}, "stopping"),
        ({"state": JobState.SUCCEEDED}, "succeeded"),
        ({"state": JobState.CANCELLED}, "cancelled"),
        ({"state": JobState.FAILED, "error": "a\nb"}, "failed"),
    ],
)
def test_a_job_that_does_not_wait_says_so(fields: Any, code: str) -> None:
    assert not_waiting(a_job(**fields)).code == code


@pytest.mark.parametrize(("calls", "words"), [(0, "in vain"), (1, "1 call of work waits")])
def test_a_call_without_an_answer_is_told(calls: int, words: str) -> None:
    (only,) = reasons(facts(a_job(error=UNANSWERED), workers=[], calls=calls))
    assert only.code == "no_answer"
    assert UNANSWERED in only.words
    assert words in only.words


def test_who_holds_a_key_is_told() -> None:
    job = a_job(unique="k", state=JobState.SUCCEEDED)
    assert key_it_holds(job, HeldKey(key="k", job_id=job.id, until=None)).words.startswith(
        "It holds"
    )
    other = key_it_holds(job, HeldKey(key="k", job_id=OTHERS[0], until=NOW + HOUR))
    assert OTHERS[0] in other.words
    assert "until 2030-01-01T13:00:00Z" in other.words
