"""Schedules, plans and dispositions."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.errors import Conflict, NotFound
from onbeat.model.event import Event
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint
from onbeat.rules.plans import (
    DELETED,
    SCHEDULE_GONE,
    cause_of_edit,
    follow_schedule,
    is_current,
)
from onbeat.stores.memory.dependents import cancel, cancel_waiting, find_unstarted
from onbeat.stores.memory.dispositions import job_of
from onbeat.stores.memory.stored_events import announce
from onbeat.stores.memory.tables import Tables, has_started


def apply_plan(tables: Tables, plan: Plan) -> bool:
    schedule = tables.schedules.get(plan.schedule_id)
    if schedule is None or not is_current(plan, schedule.version, schedule.planned_through):
        return False
    store_plan(tables, schedule, plan)
    return True


def store_plan(tables: Tables, schedule: Schedule, plan: Plan) -> None:
    """Store the plan; `schedule` is the current one."""
    tables.put_schedule(
        replace(
            schedule,
            planned_through=max(schedule.planned_through, plan.planned_through),
            plan_at=None if plan.finished else plan.plan_at,
            status=ScheduleStatus.FINISHED if plan.finished else schedule.status,
        )
    )
    for job in plan.jobs:
        add_planned(tables, job)
    for skip in plan.skips:
        tables.dispositions.add_skip(schedule.id, skip)
        announce(tables, skip.event)
    for dropped in plan.dropped:
        drop(tables, dropped, plan.decided_at)
    for id in plan.allowed_late:
        excuse(tables, id, plan.decided_at)


def add_planned(tables: Tables, job: Job) -> bool:
    """Add the job of an occurrence, unless it has a disposition already."""
    assert job.schedule_id is not None
    assert job.occurrence is not None, "planned jobs belong to an occurrence"
    if not tables.dispositions.add(job.schedule_id, job_of(job.occurrence, job.id)):
        return False
    tables.put_job(job)
    return True


def drop(tables: Tables, dropped: Dropped, at: datetime | None) -> None:
    """Cancel a job that never started; its occurrence becomes a skip."""
    job = find_unstarted(tables, dropped.job_id)
    if job is None:
        return
    if job.schedule_id is not None and job.occurrence is not None:
        tables.dispositions.to_skip(job.schedule_id, job.occurrence, dropped.reason)
    cancel_waiting(tables, job, dropped.reason, at or job.start_by or job.due_at)
    announce(tables, dropped.event)


def excuse(tables: Tables, id: JobId, at: datetime | None) -> None:
    """Remove the `start_by` of a job that never started."""
    job = find_unstarted(tables, id)
    if job is not None and job.start_by is not None:
        tables.put_job(replace(job, start_by=None))
        tables.note(id, at or job.start_by, "excused", "allowed to start late")


def cancel_overdue(tables: Tables, ids: Sequence[JobId], reason: str, now: datetime) -> int:
    count = 0
    for id in ids:
        job = find_unstarted(tables, id)
        if job is not None:
            cancel_waiting(tables, job, reason, now)
            count += 1
    return count


def add_schedule(tables: Tables, schedule: Schedule, plan: Plan) -> None:
    refuse_taken_key(tables, schedule)
    if schedule.id in tables.schedules:
        # A repeated call: the first one took effect, but its answer was lost.
        return
    tables.put_schedule(schedule)
    tables.hints.add(Hint.SCHEDULES)
    store_plan(tables, schedule, plan)


def refuse_taken_key(tables: Tables, schedule: Schedule) -> None:
    holder = None if schedule.key is None else tables.schedule_keys.get(schedule.key)
    if holder is not None and holder != schedule.id:
        raise Conflict(f"schedule {holder} has the key {schedule.key!r} already")


def update_schedule(
    tables: Tables,
    schedule: Schedule,
    plan: Plan | None,
    now: datetime,
    event: Event | None = None,
) -> bool:
    stored = tables.schedules.get(schedule.id)
    if stored is None:
        return False
    if schedule.version != stored.version + 1:
        # A repeated call: the first one took effect, but its answer was lost.
        return is_result_of(stored, schedule)
    refuse_taken_key(tables, schedule)
    tables.hints.add(Hint.SCHEDULES)
    # The planner may have changed these since the caller read them, without a new version.
    edited = replace(schedule, planned_through=stored.planned_through, plan_at=stored.plan_at)
    tables.put_schedule(edited)
    if plan is not None:
        forget_future(tables, edited, now)
        # Nothing is planned beyond `now` any more; the new plan sets the watermark.
        store_plan(tables, replace(edited, planned_through=min(stored.planned_through, now)), plan)
    for job in tables.waiting_jobs(edited.id):
        tables.put_job(follow_schedule(job, edited))
    announce(tables, event)
    return True


def is_result_of(stored: Schedule, edited: Schedule) -> bool:
    """Whether the stored schedule is what the edit made of it, apart from what planning changes."""
    has_its_status = stored.status in (edited.status, ScheduleStatus.FINISHED)
    planned = replace(
        edited,
        status=stored.status,
        planned_through=stored.planned_through,
        plan_at=stored.plan_at,
    )
    return has_its_status and stored == planned


def forget_future(tables: Tables, edited: Schedule, now: datetime) -> None:
    """Delete occurrences later than `now` that never started; they are planned again."""
    id, reason = edited.id, cause_of_edit(edited)
    later = [job.id for job in tables.waiting_jobs(id) if is_later(job, now)]
    void = [job for one in later if (job := find_unstarted(tables, one))]
    for job in void:
        withdraw(tables, job, reason, now)
    started = started_later(tables, id, now).difference(job.id for job in void)
    tables.dispositions.cut_after(id, now, started)


def withdraw(tables: Tables, job: Job, reason: str, now: datetime) -> None:
    """Delete a planned job that never started; cancel it if others know it."""
    if job.token or tables.awaited_by.get(job.id) or tables.transitions.get(job.id):
        cancel_waiting(tables, job, reason, now)
        return
    tables.unblock(job.id)
    tables.remove_job(job.id)
    tables.hints.add(Hint.ENDED)


def started_later(tables: Tables, id: ScheduleId, now: datetime) -> set[JobId]:
    """Jobs that have started although their occurrence is later than `now`."""
    rows = tables.dispositions.between(id, now, datetime.max.replace(tzinfo=now.tzinfo))
    known = (tables.jobs.get(row.job_id) for row in rows if row.job_id is not None)
    return {job.id for job in known if job is not None and has_started(job)}


def is_later(job: Job, now: datetime) -> bool:
    return job.occurrence is not None and job.occurrence > now


def delete_schedule(tables: Tables, id: ScheduleId, now: datetime) -> bool:
    schedule = tables.schedules.get(id)
    if schedule is None:
        return False
    for job in planned_after_next(tables, id, now):
        withdraw(tables, job, DELETED, now)
    cancel(tables, [job.id for job in tables.live_jobs(id)], DELETED, now)
    tables.dispositions.cut_after(id, now, set())
    tables.remove_schedule(schedule)
    tables.hints.add(Hint.SCHEDULES)
    return True


def planned_after_next(tables: Tables, id: ScheduleId, now: datetime) -> list[Job]:
    """The jobs planned for later than `now` that never started, but for the first one.

    The first one shows the deletion of its schedule, also to a copy.
    """
    planned = [job for job in tables.waiting_jobs(id) if is_later(job, now) and not job.token]
    return sorted(planned, key=lambda job: (job.due_at, job.id))[1:]


def trigger(tables: Tables, id: ScheduleId, job: Job) -> None:
    refuse_gone(tables, id)
    if job.id not in tables.jobs:
        tables.put_job(job)


def refuse_gone(tables: Tables, id: ScheduleId) -> None:
    if id not in tables.schedules:
        raise NotFound(SCHEDULE_GONE)


def backfill(tables: Tables, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]) -> int:
    """Add jobs for past occurrences. `skips` are those that remain beside the jobs."""
    refuse_gone(tables, id)
    added = 0
    for job in jobs:
        assert job.occurrence is not None, "backfilled jobs belong to an occurrence"
        if tables.dispositions.to_job(id, job.occurrence, job.id):
            tables.put_job(job)
            added += 1
    tables.dispositions.replace_skips(id, skips)
    return added
