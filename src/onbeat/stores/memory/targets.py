"""Replaces stored targets when encryption keys change."""

from collections.abc import Sequence

from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId
from onbeat.ports.access import TargetChange
from onbeat.stores.memory.tables import Tables


def replace_job_targets(tables: Tables, changes: Sequence[TargetChange]) -> int:
    count = 0
    for change in changes:
        job = tables.jobs.get(JobId(change.id))
        if job is not None and job.target == change.before:
            # Directly in the table, as no indexed field changes.
            tables.jobs[job.id] = replace(job, target=change.after)
            count += 1
    return count


def replace_schedule_targets(tables: Tables, changes: Sequence[TargetChange]) -> int:
    count = 0
    for change in changes:
        schedule = tables.schedules.get(ScheduleId(change.id))
        if schedule is not None and schedule.target == change.before:
            tables.schedules[schedule.id] = replace(schedule, target=change.after)
            count += 1
    return count
