"""The verbs of jobs, queues and workers, against the memory store."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Conflict, Invalid, Malformed, NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.outcome import Failed, Lost, Snoozed, Succeeded
from onbeat.model.retry import RetryPolicy
from onbeat.operations.context import TaskDefaults
from onbeat.operations.tables.fleet import (
    QUEUE_LIST,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    STATS_SHOW,
    WORKER_LIST,
)
from onbeat.operations.tables.jobs import (
    JOB_CANCEL,
    JOB_ENQUEUE,
    JOB_LIST,
    JOB_RETRY,
    JOB_SHOW,
    JOB_WHY,
)
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_PAUSE, SCHEDULE_TRIGGER
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.counters import Counters
from operations.harness import OperationsHarness

ABSENT = "01900000-0000-7000-8000-00000000ffff"


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def enqueue(office: OperationsHarness, **fields: Any) -> str:
    return (await office.ask(JOB_ENQUEUE, {"task": "work"} | fields))["id"]


async def why(office: OperationsHarness, id: str) -> tuple[str, str | None]:
    answer = await office.ask(JOB_WHY, id=id)
    assert answer["explanation"].endswith(".")
    return answer["code"], answer["may_run_at"]


async def test_a_job_is_kept_as_it_was_sent(office: OperationsHarness) -> None:
    id = await enqueue(
        office,
        args=[1],
        kwargs={"a": "b"},
        delay="10m",
        queue="q",
        priority=-1,
        unique="u",
        retry={"attempts_max": 7},
        timeout="30s",
        expires_at="2026-03-02T13:00:00Z",
        labels={"x": "y"},
    )
    shown = await office.ask(JOB_SHOW, id=id)
    expected = {
        "state": "waiting",
        "reason": None,
        "target": {"task": "work", "args": [1], "kwargs": {"a": "b"}},
        "queue": "q",
        "priority": -1,
        "run_at": "2026-03-02T12:10:00Z",
        "created_at": "2026-03-02T12:00:00Z",
        "attempt": 0,
        "attempts_max": 7,
        "attempts": [],
        "unique": "u",
        "labels": {"x": "y"},
        "result": None,
        "history": [{"at": "2026-03-02T12:00:00Z", "to": "waiting", "cause": "enqueued"}],
    }
    assert {key: shown[key] for key in expected} == expected
    job = await office.store.job(JobId(id))
    assert (job.timeout, job.start_by) == (timedelta(seconds=30), job.expires_at)


async def test_a_live_unique_job_is_answered_instead(office: OperationsHarness) -> None:
    first = await office.ask(JOB_ENQUEUE, {"task": "work", "unique": "u"})
    assert set(first) == {"id"}
    again = await office.ask(JOB_ENQUEUE, {"task": "work", "unique": "u"})
    assert again == first | {"created": False}


async def test_new_jobs_and_known_ones_are_counted() -> None:
    counters = Counters()
    office = OperationsHarness(telemetry=CompositeTelemetry(counters))
    await office.ask(JOB_ENQUEUE, {"jobs": [{"task": "work", "unique": "u"}, {"task": "work"}]})
    assert counters.duplicates == {}
    await office.ask(JOB_ENQUEUE, {"jobs": [{"task": "work", "unique": "u"}, {"task": "work"}]})
    assert (counters.sent_jobs, counters.duplicates) == ({"api": 3}, {"api": 1})


async def test_many_jobs_are_one_write(office: OperationsHarness) -> None:
    writes, store = [], office.store.enqueue

    async def counted(jobs: Any, keyed: Any = None) -> Any:
        writes.append(len(jobs))
        return await store(jobs, keyed)

    office.store.enqueue = counted
    one = {"task": "work", "unique": "u"}
    answer = await office.ask(JOB_ENQUEUE, {"jobs": [one, {"task": "b"}, one]})
    assert writes == [3]
    assert len(answer["ids"]) == 3
    assert answer["existing"] == [answer["ids"][0]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"expires_at": "2026-03-02T12:00:00Z"}, "expires_at"),
        ({"delay": "1h", "expires_at": "2026-03-02T12:30:00Z"}, "expires_at"),
        ({"run_at": "9999-12-31T23:00:00-10:00"}, "run_at"),
    ],
)
async def test_a_job_that_cannot_start_is_refused(
    office: OperationsHarness, body: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await enqueue(office, **body)
    assert caught.value.field == field


async def test_a_fault_in_one_of_many_names_it_and_stores_none(office: OperationsHarness) -> None:
    bad = {"target": {"http": {"url": "nowhere"}}}
    with pytest.raises(Invalid) as caught:
        await office.ask(JOB_ENQUEUE, {"jobs": [{"task": "a"}, bad]})
    assert caught.value.field == "jobs[1].target.http.url"
    assert (await office.ask(JOB_LIST))["jobs"] == []


async def test_a_job_waits_only_for_jobs_that_exist(office: OperationsHarness) -> None:
    with pytest.raises(Invalid):
        await enqueue(office, after=[ABSENT])


async def test_a_task_gives_what_its_job_leaves_open() -> None:
    policy = RetryPolicy(attempts_max=9, delay=timedelta(seconds=5))
    declared = TaskDefaults(fields={"queue": "mail", "priority": 3}, retry=policy)
    office = OperationsHarness(task_defaults=lambda _: declared)
    job = await office.store.job(JobId(await enqueue(office)))
    assert (job.queue, job.priority, job.retry) == ("mail", 3, policy)
    job = await office.store.job(
        JobId(await enqueue(office, priority=0, retry={"attempts_max": 2}))
    )
    assert job.priority == 0
    assert job.retry == msgspec.structs.replace(policy, attempts_max=2)


async def test_a_list_goes_on_where_the_page_before_ended(office: OperationsHarness) -> None:
    ids = []
    for number in range(5):
        ids.append(await enqueue(office, task=f"t{number % 2}"))
        office.move(seconds=1)
    first = await office.ask(JOB_LIST, limit="2")
    assert [job["id"] for job in first["jobs"]] == [ids[4], ids[3]]
    second = await office.ask(JOB_LIST, limit="2", cursor=first["cursor"])
    assert [job["id"] for job in second["jobs"]] == [ids[2], ids[1]]
    last = await office.ask(JOB_LIST, limit="2", cursor=second["cursor"])
    assert ([job["id"] for job in last["jobs"]], last["cursor"]) == ([ids[0]], None)
    assert len((await office.ask(JOB_LIST, task="t1"))["jobs"]) == 2
    assert (await office.ask(JOB_LIST, state="running"))["jobs"] == []


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ({"state": "lost"}, Invalid),
        ({"cursor": "x"}, Malformed),
        ({"schedule_id": "x"}, Malformed),
        ({"queue": "x" * 201}, Invalid),
    ],
)
async def test_a_bad_filter_names_itself(
    office: OperationsHarness, named: dict[str, Any], kind: type[Any]
) -> None:
    with pytest.raises(kind) as caught:
        await office.ask(JOB_LIST, **named)
    assert caught.value.field == next(iter(named))


async def test_the_detail_tells_every_attempt_and_step(office: OperationsHarness) -> None:
    id = await enqueue(office)
    await office.run(Failed("boom"), "work")
    office.move(seconds=10)
    await office.run(Snoozed(timedelta(minutes=1)), "work")
    office.move(minutes=2)
    await office.run(Succeeded(msgspec.Raw(b'{"n":1}')), "work")
    shown = await office.ask(JOB_SHOW, id=id)
    assert (shown["state"], shown["result"]) == ("succeeded", {"n": 1})
    assert [attempt["outcome"] for attempt in shown["attempts"]] == [
        "failed",
        "snoozed",
        "succeeded",
    ]
    assert shown["attempts"][0]["error"] == "boom"
    steps = [(entry["to"], entry.get("cause")) for entry in shown["history"]]
    assert steps == [
        ("waiting", "enqueued"),
        ("running", None),
        ("waiting", "failed: boom"),
        ("running", None),
        ("waiting", "snoozed"),
        ("running", None),
        ("succeeded", "succeeded"),
    ]


async def test_a_running_attempt_is_shown_too(office: OperationsHarness) -> None:
    id = await enqueue(office)
    await office.claim("work")
    shown = await office.ask(JOB_SHOW, id=id)
    started = {"number": 1, "worker": "w1", "started": "2026-03-02T12:00:00Z"}
    assert shown["attempts"] == [started | {"finished": None, "outcome": None, "error": None}]
    assert shown["history"][-1]["to"] == "running"


async def test_why_tells_of_a_running_job_whose_worker_is_silent(office: OperationsHarness) -> None:
    id = await enqueue(office)
    await office.hire("work")
    await office.claim("work")
    assert (await office.ask(JOB_WHY, id=id))["code"] == "running"
    office.move(minutes=5)
    answer = await office.ask(JOB_WHY, id=id)
    assert answer["code"] == "worker_silent"
    assert "worker w1, attempt 1, which is not heard of any more" in answer["explanation"]
    await office.hire("work")
    assert (await office.ask(JOB_WHY, id=id))["code"] == "running"


async def test_a_cancel_ends_what_waits_and_asks_what_runs(office: OperationsHarness) -> None:
    id = await enqueue(office)
    cancelled = await office.ask(JOB_CANCEL, {"reason": "no need"}, id=id)
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "no need")
    assert (await office.ask(JOB_CANCEL, {"dependents": True}, id=id))["state"] == "cancelled"
    running = await enqueue(office)
    await office.claim("work")
    request = await office.ask(JOB_CANCEL, id=running)
    assert (request["state"], request["cancel_reason"]) == ("running", "cancelled by request")


async def test_a_cancel_before_a_retry_leaves_the_history_as_it_was(
    office: OperationsHarness,
) -> None:
    id = await enqueue(office, retry={"delay": "10m", "jitter": False})
    await office.run(Failed("boom"), "work")
    before = (await office.ask(JOB_SHOW, id=id))["history"]
    assert [(one["to"], one.get("cause")) for one in before[1:]] == [
        ("running", None),
        ("waiting", "failed: boom"),
    ]
    office.move(minutes=1)
    await office.ask(JOB_CANCEL, id=id)
    after = (await office.ask(JOB_SHOW, id=id))["history"]
    assert after[:-1] == before
    assert (after[-1]["to"], after[-1]["cause"]) == ("cancelled", "cancelled by request")


async def test_a_cancel_without_the_dependents_is_refused(office: OperationsHarness) -> None:
    id = await enqueue(office)
    with pytest.raises(Invalid, match="dependents must be true") as caught:
        await office.ask(JOB_CANCEL, {"dependents": False}, id=id)
    assert caught.value.field == "dependents"
    assert (await office.ask(JOB_SHOW, id=id))["state"] == "waiting"


async def test_what_has_ended_well_cannot_be_cancelled_or_retried(
    office: OperationsHarness,
) -> None:
    id = await enqueue(office)
    await office.run(Succeeded(), "work")
    for operation in (JOB_CANCEL, JOB_RETRY):
        with pytest.raises(Conflict, match="succeeded"):
            await office.ask(operation, id=id)


async def test_a_failed_job_can_be_retried(office: OperationsHarness) -> None:
    id = await enqueue(office, retry={"attempts_max": 1})
    await office.run(Failed("boom"), "work")
    with pytest.raises(Conflict):
        await office.ask(JOB_CANCEL, id=id)
    assert (await office.ask(JOB_RETRY, id=id))["state"] == "waiting"
    assert (await office.ask(JOB_RETRY, id=id))["state"] == "waiting"
    await office.run(Succeeded(), "work")
    assert (await office.ask(JOB_SHOW, id=id))["state"] == "succeeded"


@pytest.mark.parametrize("operation", [JOB_SHOW, JOB_CANCEL, JOB_RETRY, JOB_WHY])
async def test_a_job_that_is_not_there(office: OperationsHarness, operation: Operation) -> None:
    with pytest.raises(NotFound, match="Job not found"):
        await office.ask(operation, id=ABSENT)
    with pytest.raises(Malformed, match="Invalid job ID format"):
        await office.ask(operation, id="x")


async def test_why_a_job_does_not_run(office: OperationsHarness) -> None:
    later = await enqueue(office, delay="10m")
    now = await enqueue(office)
    assert await why(office, now) == ("no_worker", None)
    await office.hire("other")
    assert await why(office, now) == ("unknown_task", None)
    await office.hire("work", queues=("mail",))
    assert await why(office, now) == ("no_worker_for_queue", None)
    await office.hire("work", concurrency=10)
    assert await why(office, now) == ("ready", "2026-03-02T12:00:00Z")
    assert await why(office, later) == ("later", "2026-03-02T12:10:00Z")
    office.move(minutes=5)
    assert await why(office, now) == ("no_worker", None)


async def test_why_a_job_does_not_run_while_the_workers_are_full(office: OperationsHarness) -> None:
    id = await enqueue(office)
    await enqueue(office, task="other", priority=-1)
    await office.hire("work", "other", concurrency=1)
    await office.claim("other")
    assert await why(office, id) == ("workers_busy", None)


async def test_why_a_job_waits_whose_worker_died_more_than_once(office: OperationsHarness) -> None:
    """Not after the first time, which leaves no bound."""
    await office.hire("work", concurrency=10, lease_seconds=600)
    id = await enqueue(office)
    response = []
    for company in (9, 9, 4, 2):
        await office.run(Lost("worker w ended", company=company), "work")
        office.move(seconds=30)
        answer = await office.ask(JOB_WHY, id=id)
        response.append((answer["code"], answer["explanation"]))
    died = "Its worker died {} while it ran, so it runs apart: {}."
    assert response == [
        ("ready", "It is due and about to start."),
        ("apart", died.format("twice", "one of at most 4 jobs in its worker")),
        ("apart", died.format("3 times", "one of at most 2 jobs in its worker")),
        ("apart", died.format("4 times", "alone in its worker")),
    ]
    await office.claim("work")
    response = (await office.ask(JOB_WHY, id=id))["explanation"]
    assert response.endswith("attempt 5, alone in its worker, and may wait there for that.")


async def test_why_a_blocked_job_does_not_run(office: OperationsHarness) -> None:
    await office.hire("work", concurrency=10)
    first = await enqueue(office)
    second = await enqueue(office, after=[first])
    answer = await office.ask(JOB_WHY, id=second)
    assert (answer["code"], answer["waits_for"]) == ("blocked", [first])
    assert first in answer["explanation"]


async def test_why_a_job_of_a_paused_queue_or_schedule_does_not_run(
    office: OperationsHarness,
) -> None:
    await office.hire("work", concurrency=10)
    id = await enqueue(office, delay="1m")
    await office.ask(QUEUE_PAUSE, name="default")
    assert await why(office, id) == ("queue_paused", "2026-03-02T12:01:00Z")
    await office.ask(QUEUE_RESUME, name="default")
    body = {"name": "x", "every": "1h", "target": {"task": "work"}}
    schedule = (await office.ask(SCHEDULE_CREATE, body))["id"]
    await office.ask(SCHEDULE_PAUSE, id=schedule)
    job = (await office.ask(SCHEDULE_TRIGGER, id=schedule))["job_id"]
    assert (await why(office, job))[0] == "schedule_paused"


async def test_why_says_the_line_of_an_error_that_says_most(office: OperationsHarness) -> None:
    error = 'File "work.py", line 1, in work\n    raise ValueError("no")\nValueError: no'
    id = await enqueue(office, retry={"attempts_max": 2, "delay": "10s", "jitter": False})
    await office.run(Failed(error), "work")
    answer = (await office.ask(JOB_WHY, id=id))["explanation"]
    assert answer.startswith("Attempt 1 of 2 failed (ValueError: no); it is tried again at ")
    office.move(minutes=1)
    await office.run(Failed(error), "work")
    answer = (await office.ask(JOB_WHY, id=id))["explanation"]
    assert answer == "It has failed: attempts used up: ValueError: no. It can be retried."


async def test_why_a_failed_attempt_waits(office: OperationsHarness) -> None:
    await office.hire("work", concurrency=10)
    id = await enqueue(office, retry={"delay": "1m", "jitter": False})
    await office.run(Failed("boom"), "work")
    answer = await office.ask(JOB_WHY, id=id)
    assert answer["code"] == "retry_later"
    assert "Attempt 1 of 3 failed (boom)" in answer["explanation"]


async def test_why_a_lapsed_job_does_not_run(office: OperationsHarness) -> None:
    await office.hire("work", concurrency=10, lease_seconds=600)
    id = await enqueue(office, expires_at="2026-03-02T12:01:00Z")
    office.move(minutes=2)
    assert await why(office, id) == ("lapsed", None)


async def test_why_a_job_that_does_not_wait_does_not_run(office: OperationsHarness) -> None:
    id = await enqueue(office, retry={"attempts_max": 1})
    await office.claim("work")
    assert await why(office, id) == ("running", None)
    await office.ask(JOB_CANCEL, id=id)
    assert await why(office, id) == ("stopping", None)
    done = await enqueue(office, task="b")
    await office.run(Succeeded(), "b")
    assert await why(office, done) == ("succeeded", None)
    failed = await enqueue(office, task="c", retry={"attempts_max": 1})
    await office.run(Failed("boom"), "c")
    answer = await office.ask(JOB_WHY, id=failed)
    assert answer["code"] == "failed"
    assert "boom" in answer["explanation"]


async def test_queues_are_paused_and_shown(office: OperationsHarness) -> None:
    await enqueue(office, queue="mail.urgent")
    answer = await office.ask(QUEUE_PAUSE, name="mail.urgent")
    by = {"by": "local", "at": "2026-03-02T12:00:00Z"}
    assert answer == {"name": "mail.urgent", "paused": True, "pause": by}
    (queue,) = (await office.ask(QUEUE_LIST))["queues"]
    assert (queue["name"], queue["paused"], queue["due"]) == ("mail.urgent", True, 1)
    await office.ask(QUEUE_RESUME, name="mail.urgent")
    assert (await office.ask(QUEUE_LIST))["queues"][0]["paused"] is False
    with pytest.raises(Invalid):
        await office.ask(QUEUE_PAUSE, name=" ")


async def test_workers_are_shown_until_they_fall_silent(office: OperationsHarness) -> None:
    await office.hire("work", queues=("mail",), concurrency=4)
    (worker,) = (await office.ask(WORKER_LIST))["workers"]
    assert worker["alive"] is True
    assert (worker["tasks"], worker["queues"]) == (["work"], ["mail"])
    office.move(minutes=1)
    assert (await office.ask(WORKER_LIST))["workers"][0]["alive"] is False


async def test_figures_count_by_state(office: OperationsHarness) -> None:
    await enqueue(office)
    stats = await office.ask(STATS_SHOW)
    assert stats["jobs"]["waiting"] == 1
    assert stats["unknown_tasks"] == {"work": 1}
    assert JobState.WAITING in stats["jobs"]
