"""Which transitions are said, how loudly, and with which fields."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from onbeat.model.errors import Unavailable
from onbeat.model.ids import ScheduleId, WorkerId
from onbeat.model.job import JobState
from onbeat.model.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.telemetry.log_events import LogEvents
from onbeat.telemetry.repeats import NAMES_MAX, REPEAT_SECONDS
from telemetry.jobs import NOON, SECOND, a_job


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[..., Any]:
    caplog.set_level(logging.DEBUG)
    return lambda: [(r.levelname.lower(), r.msg.event, r.msg.fields) for r in caplog.records]


@pytest.mark.parametrize(
    ("outcome", "level", "event"),
    [
        (Succeeded(), "debug", "job.succeeded"),
        (Failed("boom"), "warning", "job.failed"),
        (Snoozed(SECOND), "debug", "job.snoozed"),
        (Cancelled("enough"), "info", "job.cancelled"),
        (Lost("worker died"), "warning", "job.lost"),
        (Released(), "info", "job.released"),
    ],
)
def test_each_outcome_has_its_event_and_level(
    said: Callable[..., Any], outcome: Any, level: str, event: str
) -> None:
    LogEvents().ended(a_job(attempt=1, schedule_id=ScheduleId("s1")), outcome, 1.0)
    ((got_level, got_event, fields),) = said()
    assert (got_level, got_event) == (level, event)
    assert fields["job"] == "0192"
    assert fields["task"] == "mail.welcome"
    assert fields["schedule"] == "s1"
    assert fields["attempt"] == "1/3"
    assert fields["took"] == "1.000s"


def test_starts_and_successes_are_shown_where_people_read(
    said: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    events = LogEvents(level=logging.INFO)
    events.loop_beat("worker")  # looks which level is on
    job = a_job(attempt=1)
    events.started(job, 1.0)
    events.ended(job, Succeeded(), 1.0)
    events.ended(job, Snoozed(SECOND), 1.0)
    levels = [(level, event) for level, event, _ in said()]
    assert levels == [
        ("info", "job.started"), ("info", "job.succeeded"), ("info", "job.snoozed"),
    ]  # fmt: skip


@pytest.mark.parametrize(("seconds", "shown"), [(3600.0, "+3600.000s"), (-2.5, "-2.500s")])
def test_a_step_of_the_clock_is_a_warning_with_its_direction(
    said: Callable[..., Any], seconds: float, shown: str
) -> None:
    LogEvents().clock_stepped(seconds)
    assert said() == [("warning", "clock.stepped", {"seconds": shown})]


def test_a_failure_says_when_the_next_try_is(said: Callable[..., Any]) -> None:
    LogEvents().ended(a_job(due_at=NOON + 90 * SECOND), Failed("boom"), 1.0)
    assert said()[0][2]["next_at"] == "2026-03-01T12:01:30.000Z"


def test_the_last_failure_says_that_it_was_the_last(said: Callable[..., Any]) -> None:
    LogEvents().ended(a_job(state=JobState.FAILED), Failed("boom"), 1.0)
    assert said()[0][2]["state"] == "failed"
    assert "next_at" not in said()[0][2]


def test_a_traceback_is_told_by_its_last_line_and_in_full(said: Callable[..., Any]) -> None:
    trace = "Traceback (most recent call last):\n  File x\nValueError: boom\n"
    LogEvents().ended(a_job(), Failed(trace), 1.0)
    fields = said()[0][2]
    assert fields["error"] == "ValueError: boom"
    assert fields["exception"] == trace.strip()


BAD = "x\ud800\0y"


@pytest.mark.parametrize("outcome", [Failed(BAD), Cancelled(BAD), Snoozed(SECOND, BAD)])
def test_half_a_character_does_not_lose_the_line(
    said: Callable[..., Any], outcome: Outcome
) -> None:
    LogEvents().ended(a_job(state=JobState.FAILED), outcome, 1.0)
    fields = said()[0][2]
    text = fields.get("error") or fields["reason"]
    assert text.encode().decode() == "x?\ufffdy"


def test_what_goes_well_is_not_said_at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = LogEvents()
    journal.started(a_job(), 1.0)
    journal.ended(a_job(), Succeeded(), 1.0)
    journal.planned(5, 0)
    journal.pruned(0)
    journal.loop_beat("planner")
    assert not caplog.records


def test_a_level_that_is_set_later_counts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = LogEvents()
    caplog.set_level(logging.DEBUG)
    journal.started(a_job(), 1.0)
    journal.loop_beat("dispatcher")
    journal.started(a_job(), 1.0)
    caplog.set_level(logging.INFO)
    journal.loop_beat("dispatcher")
    journal.started(a_job(), 1.0)
    assert len(caplog.records) == 2


def test_the_other_events_are_said_once_each(said: Callable[..., Any]) -> None:
    journal = LogEvents()
    journal.started(a_job(), 1.0)
    journal.lease_lost(a_job())
    journal.planned(5, 1)
    journal.planned(0, 0)
    journal.rescued(a_job(), WorkerId("w1"))
    journal.pruned(3)
    events = [event for _, event, _ in said()]
    assert events == [
        "job.started", "job.lease_lost", "schedules.planned", "job.rescued", "jobs.pruned",
    ]  # fmt: skip


def test_an_endpoint_is_said_to_be_down_and_to_be_back(said: Callable[..., Any]) -> None:
    journal = LogEvents()
    journal.breaker_changed("http://a:80", is_open=True)
    journal.breaker_changed("http://a:80", is_open=False)
    assert said() == [
        ("warning", "endpoint.down", {"endpoint": "http://a:80"}),
        ("info", "endpoint.back", {"endpoint": "http://a:80"}),
    ]


def test_a_job_that_was_put_off_says_why(said: Callable[..., Any]) -> None:
    LogEvents().ended(a_job(), Snoozed(SECOND, "it seems to be down"), 1.0)
    assert said()[0][2]["reason"] == "it seems to be down"


def test_a_shortage_is_said_once_a_minute_for_each_kind_of_means(said: Callable[..., Any]) -> None:
    now = [0.0]
    journal = LogEvents(monotonic=lambda: now[0])
    for _ in range(3):
        journal.ran_short("open files")
    journal.ran_short("threads")
    now[0] += REPEAT_SECONDS
    journal.ran_short("open files")
    assert said() == [
        ("warning", "worker.resources_exhausted", {"means": "open files", "times": 1}),
        ("warning", "worker.resources_exhausted", {"means": "threads", "times": 1}),
        ("warning", "worker.resources_exhausted", {"means": "open files", "times": 3}),
    ]


def test_a_rescued_job_names_the_worker_that_is_gone(said: Callable[..., Any]) -> None:
    # The job itself has left it: only the one who took it back still knows.
    LogEvents().rescued(a_job(worker=None), WorkerId("w-gone"))
    ((_, _, fields),) = said()
    assert fields["worker"] == "w-gone"


def test_a_schedule_that_cannot_be_planned_is_named(said: Callable[..., Any]) -> None:
    schedule = Schedule(
        id=ScheduleId("s1"),
        name="payroll",
        recurrence=RecurrenceSpec(kind="cron", text="* * * * *"),
        target=a_job().target,
        created_at=NOON,
        updated_at=NOON,
        planned_through=NOON,
        plan_at=NOON,
    )
    journal = LogEvents(monotonic=lambda: 0.0)
    journal.unplannable(schedule, ValueError("boom"))
    journal.unplannable(schedule, ValueError("boom"))
    ((level, event, fields),) = said()
    assert (level, event, fields["name"]) == ("error", "schedule.unplannable", "payroll")


def test_a_loop_that_keeps_failing_is_said_at_once_and_then_once_a_minute(
    said: Callable[..., Any],
) -> None:
    now = [0.0]
    journal = LogEvents(monotonic=lambda: now[0])
    for _ in range(100):
        journal.loop_failed("planner", ValueError("boom"))
        now[0] += 1.0
    journal.loop_failed("pruner", ValueError("boom"))
    failed = [(fields["loop"], fields["times"]) for _, event, fields in said()]
    assert failed == [("planner", 1), ("planner", int(REPEAT_SECONDS)), ("pruner", 1)]


def test_what_a_loop_says_of_its_store_needs_no_traceback(
    said: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    journal = LogEvents()
    journal.loop_failed("planner", Unavailable("the disk is full"))
    journal.loop_failed("pruner", ValueError("boom"))
    assert [fields["error"] for _, _, fields in said()] == ["the disk is full", "boom"]
    store, mistake = (record.exc_info for record in caplog.records)
    assert store is None
    assert mistake is not None


def test_a_loop_that_recovers_is_said_once(said: Callable[..., Any]) -> None:
    journal = LogEvents()
    journal.loop_failed("planner", ValueError("boom"))
    journal.loop_beat("planner")
    journal.loop_beat("planner")
    assert [event for _, event, _ in said()] == ["loop.failed", "loop.recovered"]


def test_many_that_fail_at_once_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    journal = LogEvents(monotonic=lambda: 0.0)
    for n in range(NAMES_MAX * 3):
        journal.loop_failed(f"loop-{n}", ValueError("boom"))
    assert len(journal._failing._seen) <= NAMES_MAX
