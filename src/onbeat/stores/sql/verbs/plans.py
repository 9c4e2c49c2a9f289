"""Plans: jobs, dispositions and the raised watermark in one transaction.

A writer of dispositions locks the row of their schedule, so that what it has read of them stays
valid until the commit.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import compress
from typing import Any

import msgspec

from onbeat.model.errors import NotFound
from onbeat.model.event import Event
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.transition import Transition
from onbeat.ports.store import Hint
from onbeat.rules.plans import SCHEDULE_GONE, is_current
from onbeat.stores.sql.dialect import Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros, micros_or_none
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import (
    add_dispositions,
    free_instant,
    insert_dispositions,
    occurrence_of,
    replace_skips,
    row_of_job,
    row_of_skip,
)
from onbeat.stores.sql.verbs.history import add_transitions
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.own_events import announce
from onbeat.stores.sql.verbs.schedules import Watermark, hold_statuses, lock_watermarks


async def apply_plans(session: Session, plans: Sequence[Plan]) -> list[bool]:
    here = await lock_watermarks(session, {plan.schedule_id for plan in plans})
    raised = dict(here)
    answers: list[bool] = []
    for plan in plans:
        before = raised.get(plan.schedule_id)
        if before and is_current(plan, before.version, instant(before.planned_through)):
            raised[plan.schedule_id] = raised_by(plan, before)
            answers.append(True)
        else:
            answers.append(False)
    await write_plans(session, list(compress(plans, answers)), here)
    return answers


async def store_plan(session: Session, plan: Plan) -> None:
    """Store a plan without a version check: the caller has just written this version."""
    await write_plans(session, [plan], await lock_watermarks(session, {plan.schedule_id}))


async def write_plans(
    session: Session, plans: Sequence[Plan], here: dict[ScheduleId, Watermark]
) -> None:
    jobs = [job for plan in plans for job in plan.jobs]
    skips = [row_of_skip(plan.schedule_id, skip) for plan in plans for skip in plan.skips]
    added = await add_dispositions(session, [*map(row_of_job, jobs), *skips])
    planned = {job_id for _, _, _, job_id, _ in added}
    await insert_jobs(session, [job for job in jobs if job.id in planned], paused_of(here))
    await raise_watermarks(session, plans, here)
    dropped = {one.job_id: (one, plan.decided_at) for plan in plans for one in plan.dropped}
    events = await drop_planned(session, dropped)
    events += [skip.event for plan in plans for skip in plan.skips if skip.event is not None]
    await announce(session, events)
    await allow_late(session, {id: plan.decided_at for plan in plans for id in plan.allowed_late})


def paused_of(here: Mapping[ScheduleId, Watermark]) -> set[ScheduleId]:
    return {id for id, one in here.items() if one.status == ScheduleStatus.PAUSED}


async def insert_jobs(
    session: Session, jobs: Sequence[Job], paused: Collection[ScheduleId] = ()
) -> None:
    """Add jobs that are new; those of paused schedules are held.

    Ended jobs are looked for last: a job is locked while it ends, so a new row with its id is
    written only when its end is visible.
    """
    if not jobs:
        return
    form, dialect = session.forms.jobs, session.dialect
    rows = [(*form.row(job), job.schedule_id in paused) for job in jobs]
    columns: Columns = {**form.new, "held": "boolean"}
    await session.insert_rows("jobs", columns, rows, dialect.unless_taken)
    chosen = f"FROM onbeat.finished WHERE {dialect.in_list('id', 'uuid')}"
    if ended := await session.select("id", chosen, tuple(job.id for job in jobs)):
        await delete_live(session, [id for (id,) in ended])
    session.hints.add(Hint.JOBS)


async def raise_watermarks(
    session: Session, plans: Sequence[Plan], here: dict[ScheduleId, Watermark]
) -> None:
    """A watermark never falls. Of several plans for a schedule the `plan_at` of the last counts."""
    if not plans:
        return
    raised: dict[ScheduleId, Watermark] = {}
    for plan in plans:
        before = raised.get(plan.schedule_id) or here[plan.schedule_id]
        raised[plan.schedule_id] = raised_by(plan, before)
    columns: Columns = {"planned_through": "bigint", "plan_at": "bigint", "status": "text"}
    rows = [(id, one.planned_through, one.plan_at, one.status) for id, one in raised.items()]
    await session.update_rows("schedules", {"id": "uuid"}, columns, rows)
    session.hints.add(Hint.SCHEDULES)


def raised_by(plan: Plan, before: Watermark) -> Watermark:
    return msgspec.structs.replace(
        before,
        planned_through=max(before.planned_through, micros(plan.planned_through)),
        plan_at=None if plan.finished else micros_or_none(plan.plan_at),
        status=ScheduleStatus.FINISHED.value if plan.finished else before.status,
    )


async def drop_planned(
    session: Session, dropped: Mapping[JobId, tuple[Dropped, datetime | None]]
) -> list[Event]:
    """Cancel jobs that never started; their occurrences become skips. Returns their events.

    Each with the instant of the decision; without one, a job ends when it could no longer start.
    """
    if not dropped:
        return []
    events: list[Event] = []
    rest = f"FROM onbeat.jobs WHERE {session.dialect.in_list('id', 'uuid')} ORDER BY id"
    columns = "id, schedule_id, occurrence, start_by, due_at"
    rows = await session.select(columns, rest, tuple(dropped))
    for id, schedule_id, occurrence, start_by, due_at in rows:
        job = JobId(str(id))
        one, at = dropped[job]
        ended_at = micros(at) if at else due_at if start_by is None else start_by
        if await cancel_waiting(session, {job: one.reason}, ended_at, started_too=False):
            await turn_into_skip(session, schedule_id, occurrence, one)
            events += [] if one.event is None else [one.event]
    return events


async def turn_into_skip(
    session: Session, id: ScheduleId, occurrence: int, dropped: Dropped
) -> None:
    end = session.forms.dispositions.end
    sql = f"""
        UPDATE onbeat.dispositions SET job_id = NULL, reason = ?
        WHERE schedule_id = ? AND {end} = ? AND job_id = ?
    """  # noqa: S608  values are bound
    await session.execute(sql, dropped.reason, id, occurrence, dropped.job_id)


async def allow_late(session: Session, ids: Mapping[JobId, datetime | None]) -> None:
    """Remove the `start_by` of jobs that never started; each with the instant of the decision."""
    if not ids:
        return
    dialect, forms = session.dialect, session.forms
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
          AND {dialect.is_waiting} AND start_by IS NOT NULL
        ORDER BY id
        {dialect.for_update}
    """
    late = await session.select("id, start_by, attempt, worker", rest, tuple(ids))
    columns: Columns = {"start_by": "bigint", "lapsed": "boolean"}
    changes = [(id, None, False) for id, *_ in late]
    await session.update_rows("jobs", {"id": "uuid"}, columns, changes)
    await add_transitions(session, [forms.transitions.row(excuse_of(row, ids)) for row in late])
    if late:
        session.hints.add(Hint.JOBS)


def excuse_of(row: Sequence[Any], decided: Mapping[JobId, datetime | None]) -> Transition:
    id, start_by, attempt, worker = row
    job = JobId(str(id))
    return Transition(
        job_id=job,
        at=decided[job] or instant(start_by),
        to="excused",
        cause="allowed to start late",
        attempt=attempt,
        worker=worker,
    )


async def trigger(session: Session, id: ScheduleId, job: Job) -> None:
    """Others may trigger the schedule meanwhile, but not delete or pause it."""
    statuses = await hold_statuses(session, {id})
    if id not in statuses:
        raise NotFound(SCHEDULE_GONE)
    await insert_jobs(session, [job], {id} if statuses[id] == ScheduleStatus.PAUSED else ())


async def backfill(
    session: Session, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]
) -> int:
    here = await lock_watermarks(session, {id})
    if not here:
        raise NotFound(SCHEDULE_GONE)
    by_instant = {occurrence_of(job): job for job in reversed(jobs)}
    added = [job for at, job in by_instant.items() if await free_instant(session, id, at)]
    await insert_jobs(session, added, paused_of(here))
    await insert_dispositions(session, list(map(row_of_job, added)))
    for skip in skips:
        await replace_skips(session, id, skip)
    return len(added)
