"""Imports of schedules from another store."""

from collections.abc import Collection, Sequence

from onbeat.model.errors import Conflict
from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Hint
from onbeat.rules.merge import edited_since, newer_schedules
from onbeat.rules.plans import follow_schedule
from onbeat.stores.memory.tables import Tables


def import_schedules(tables: Tables, schedules: Sequence[Schedule]) -> int:
    newer = newer_schedules(schedules, tables.schedules)
    edited = edited_since(newer, tables.schedules)
    refuse_taken_keys(tables, newer.values())
    for schedule in newer.values():
        tables.put_schedule(schedule)
        tables.hints.add(Hint.SCHEDULES)
    for schedule in edited:
        forget_planned(tables, schedule.id)
        for job in tables.waiting_jobs(schedule.id):
            tables.put_job(follow_schedule(job, schedule))
    return len(newer)


def forget_planned(tables: Tables, id: ScheduleId) -> None:
    """Delete jobs that an older version planned and that never started; they are planned again."""
    for job in tables.waiting_jobs(id):
        if job.occurrence is not None and job.token == 0 and job.id not in tables.awaited_by:
            tables.unblock(job.id)
            tables.remove_job(job.id)
    tables.dispositions.keep_started(
        id, lambda job: job in tables.jobs and tables.jobs[job].token > 0
    )


def refuse_taken_keys(tables: Tables, schedules: Collection[Schedule]) -> None:
    holders = dict(tables.schedule_keys)
    for schedule in schedules:
        here = tables.schedules.get(schedule.id)
        if here is not None and here.key is not None:
            del holders[here.key]
        if schedule.key is None:
            continue
        if schedule.key in holders:
            holder = holders[schedule.key]
            raise Conflict(f"schedule {holder} has the key {schedule.key!r} already")
        holders[schedule.key] = schedule.id
