"""Decides which waiting jobs that could not start in time still run."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan
from onbeat.model.schedule import CatchUp, Schedule
from onbeat.recurrence import compile_spec
from onbeat.rules.misfires import misfire_event
from onbeat.rules.plans import MISFIRED, Compile, bounded_recurrence

EXPIRED = "expired: it could not start in time"


def is_expired(job: Job, now: datetime) -> bool:
    """Whether the job's own expiry has passed, and not just the grace of its occurrence."""
    return job.expires_at is not None and job.expires_at < now


def judge_overdue(
    schedule: Schedule, jobs: Sequence[Job], now: datetime, compile: Compile = compile_spec
) -> Plan:
    """Decide on jobs of one schedule whose `start_by` has passed before they started.

    Under `latest` the newest occurrence up to now may still run, however late; under `none` no
    occurrence may; under `all` only the expiry counts. The schedule itself does not change.
    """
    latest = (
        bounded_recurrence(schedule, compile).latest(now)
        if schedule.catch_up is CatchUp.LATEST
        else None
    )
    excused = tuple(
        job.id for job in jobs if not is_expired(job, now) and may_still_run(schedule, job, latest)
    )
    return Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_through=schedule.planned_through,
        plan_at=schedule.plan_at,
        allowed_late=excused,
        decided_at=now,
        dropped=tuple(dropped(schedule, job, now) for job in jobs if job.id not in excused),
    )


def dropped(schedule: Schedule, job: Job, now: datetime) -> Dropped:
    if is_expired(job, now) or job.occurrence is None:
        return Dropped(job.id, EXPIRED if is_expired(job, now) else MISFIRED)
    event = misfire_event(schedule, job.occurrence, job.occurrence, now, job.id)
    return Dropped(job.id, MISFIRED, event)


def may_still_run(schedule: Schedule, job: Job, latest: datetime | None) -> bool:
    match schedule.catch_up:
        case CatchUp.ALL:
            return True
        case CatchUp.LATEST:
            return latest is None or job.occurrence is None or job.occurrence >= latest
        case CatchUp.NONE:
            return False
