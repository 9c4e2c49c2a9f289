"""Builders of records for tests: valid by default, so that a test sets only relevant fields."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId, WorkerId
from onbeat.model.job import Job
from onbeat.model.plan import Plan
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import WorkerRecord

NOW: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
TICK: Final = timedelta(microseconds=1)
"""The smallest time span that a store distinguishes."""

numbers = count(1)


def an_id() -> str:
    """A new id, greater than all earlier ones, in the form of a UUIDv7."""
    number = next(numbers)
    return f"0190{number >> 32:04x}-{number >> 16 & 0xFFFF:04x}-7000-8000-{number:012x}"


def a_job(task: str = "work", **fields: Any) -> Job:
    """A job for the handler `task`, due at `NOW`."""
    job = Job(id=JobId(an_id()), target=HandlerTarget(task), created_at=NOW, due_at=NOW)
    return replace(job, **fields)


def a_schedule(**fields: Any) -> Schedule:
    """An hourly schedule, planned up to `NOW` and due for its next plan."""
    schedule = Schedule(
        id=ScheduleId(an_id()),
        name="every hour",
        recurrence=RecurrenceSpec(kind="cron", text="0 * * * *", tz="UTC"),
        target=HandlerTarget("work"),
        created_at=NOW,
        updated_at=NOW,
        planned_through=NOW,
        plan_at=NOW,
    )
    return replace(schedule, **fields)


def an_occurrence(schedule: Schedule, at: datetime = NOW, **fields: Any) -> Job:
    """The job of one occurrence of the schedule."""
    job = a_job(
        target=schedule.target,
        due_at=at,
        queue=schedule.queue,
        priority=schedule.priority,
        labels=schedule.labels,
        schedule_id=schedule.id,
        occurrence=at,
        overlap=schedule.overlap,
    )
    return replace(job, **fields)


def a_plan(schedule: Schedule, *jobs: Job, **fields: Any) -> Plan:
    """A plan that adds these jobs and by default extends to the last of them."""
    ends = [job.occurrence for job in jobs if job.occurrence is not None]
    plan = Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_through=max([schedule.planned_through, *ends]),
        plan_at=schedule.plan_at,
        jobs=jobs,
    )
    return replace(plan, **fields)


def a_worker(**fields: Any) -> WorkerRecord:
    worker = WorkerRecord(
        id=WorkerId(f"worker-{an_id()}"),
        host="host",
        pid=1,
        started_at=NOW,
        beat=1,
        beat_at=NOW,
        lanes=("work",),
    )
    return replace(worker, **fields)
