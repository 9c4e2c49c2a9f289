"""Waiting jobs that could not start in time: which run after all, and which do not."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan
from onbeat.model.schedule import CatchUp, Schedule
from onbeat.recurrence import compile_spec
from onbeat.rules.planning import MISFIRED, Read, bounded

EXPIRED = "expired: it could not start in time"


def is_expired(job: Job, now: datetime) -> bool:
    """Whether the job's own expiry has passed, rather than the grace of its occurrence."""
    return job.expires_at is not None and job.expires_at < now


def judge_lapsed(
    schedule: Schedule, jobs: Sequence[Job], now: datetime, read: Read = compile_spec
) -> Plan:
    """What becomes of jobs of one schedule whose `start_by` has passed before they started.

    Under `latest` the newest occurrence up to now may still run, however late; under `none`
    nothing may; `all` sets no bound but the expiry. Nothing of the schedule itself changes.
    """
    latest = bounded(schedule, read).latest(now) if schedule.catch_up is CatchUp.LATEST else None
    excused = tuple(
        job.id for job in jobs if not is_expired(job, now) and may_still_run(schedule, job, latest)
    )
    return Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_through=schedule.planned_through,
        plan_at=schedule.plan_at,
        excused=excused,
        dropped=tuple(
            Dropped(job.id, EXPIRED if is_expired(job, now) else MISFIRED)
            for job in jobs
            if job.id not in excused
        ),
    )


def may_still_run(schedule: Schedule, job: Job, latest: datetime | None) -> bool:
    match schedule.catch_up:
        case CatchUp.ALL:
            return True
        case CatchUp.LATEST:
            return latest is None or job.occurrence is None or job.occurrence >= latest
        case CatchUp.NONE:
            return False
