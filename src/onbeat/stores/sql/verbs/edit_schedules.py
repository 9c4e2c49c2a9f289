"""Schedules that are added, edited and deleted."""

from collections.abc import Collection
from typing import Final

from onbeat.model.event import Event
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint
from onbeat.rules.plans import DELETED, cause_of_edit, follow_schedule
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import forget_dispositions_after
from onbeat.stores.sql.verbs.overlap import ask_to_stop
from onbeat.stores.sql.verbs.own_events import announce
from onbeat.stores.sql.verbs.plans import store_plan
from onbeat.stores.sql.verbs.schedules import (
    delete_own_types,
    insert_schedules,
    lock_schedules,
    refuse_taken_key,
    rewrite_schedule,
    schedules_by_id,
)
from onbeat.stores.sql.verbs.withdrawals import withdraw

FOLLOWED: Final = ("queue", "priority", "lane", "overlap", "spec")
"""The columns of a waiting job that an edit of its schedule may change."""


async def add_schedule(session: Session, new: Schedule, plan: Plan) -> None:
    """Adding the same schedule again after a lost answer changes nothing."""
    if await schedules_by_id(session, [new.id]):
        return
    await refuse_taken_key(session, new)
    await insert_schedules(session, [new])
    await store_plan(session, plan)
    session.hints.add(Hint.SCHEDULES)


async def update_schedule(
    session: Session, edited: Schedule, plan: Plan | None, now: int, event: Event | None = None
) -> bool:
    stored = (await lock_schedules(session, {edited.id})).get(edited.id)
    if stored is None:
        return False
    if stored.version != edited.version - 1:
        # This same edit may be stored already, from a call whose answer was lost.
        return stored.version == edited.version and is_result_of(session, stored, edited)
    await refuse_taken_key(session, edited)
    await rewrite_schedule(session, edited)
    await hold_jobs(session, [edited.id], held=edited.status is ScheduleStatus.PAUSED)
    if plan is not None:
        await forget_after(session, edited, now)
        await store_plan(session, plan)
    await follow(session, edited)
    await announce(session, () if event is None else (event,))
    session.hints.update((Hint.SCHEDULES, Hint.JOBS))
    return True


def is_result_of(session: Session, stored: Schedule, edited: Schedule) -> bool:
    """Whether the stored schedule has the fields of the edit; it may have finished since."""
    spec_of = session.forms.schedule_spec
    has_its_status = stored.status in (edited.status, ScheduleStatus.FINISHED)
    return has_its_status and stored.key == edited.key and spec_of(stored) == spec_of(edited)


async def hold_jobs(session: Session, ids: Collection[ScheduleId], *, held: bool) -> None:
    """Jobs of a paused schedule are held."""
    if not ids:
        return
    dialect = session.dialect
    sql = f"""
        UPDATE onbeat.jobs {dialect.use_index("jobs_of_schedule")} SET held = ?
        WHERE {dialect.in_list("schedule_id", "uuid")} AND held <> ?
    """  # noqa: S608  values are bound
    await session.execute(sql, held, tuple(ids), held)


async def follow(session: Session, edited: Schedule) -> None:
    """Apply the edit to the schedule's waiting jobs."""
    form, dialect = session.forms.jobs, session.dialect
    rest = f"""
        FROM onbeat.{form.live.view} {dialect.use_index("jobs_of_schedule")}
        WHERE schedule_id = ? AND {dialect.is_waiting}
        ORDER BY id
        {dialect.for_update}
    """
    waiting = await session.select(form.live.columns, rest, edited.id)
    rows: list[Row] = []
    for job in map(form.read, waiting):
        values = form.row(follow_schedule(job, edited))
        row = dict(zip(form.new, values, strict=True))
        rows.append((job.id, *(row[name] for name in FOLLOWED)))
    columns: Columns = {name: form.new[name] for name in FOLLOWED}
    await session.update_rows("jobs", {"id": "uuid"}, columns, rows)


async def forget_after(session: Session, edited: Schedule, now: int) -> None:
    """After a changed rule, withdraw jobs planned for later than `now` that never started."""
    id, reason = edited.id, cause_of_edit(edited)
    rest = f"""
        FROM onbeat.jobs {session.dialect.use_index("jobs_of_schedule")}
        WHERE schedule_id = ? AND occurrence > ? AND {session.dialect.is_waiting}
          AND (token = 0 OR start_by IS NOT NULL)
    """
    later = await session.select("id", rest, id, now)
    # A job that was claimed meanwhile goes on and keeps its disposition.
    void = await withdraw(session, {JobId(str(job_id)) for (job_id,) in later}, reason, now)
    await forget_dispositions_after(session, id, now, void)
    # Nothing is planned beyond `now` any more; the new plan sets the watermark.
    sql = """
        UPDATE onbeat.schedules SET planned_through = ? WHERE id = ? AND planned_through > ?
    """
    await session.execute(sql, now, id, now)


async def delete_schedule(session: Session, id: ScheduleId, now: int) -> bool:
    if not await lock_schedules(session, {id}):
        return False
    await forget_dispositions_after(session, id, now, None)
    live = await lock_jobs_of(session, id)
    await ask_to_stop(session, live, DELETED, now)
    # The next job shows the deletion, also to a copy; those after it leave no trace.
    await withdraw(session, await planned_after_next(session, id, now), DELETED, now)
    await cancel_waiting(session, dict.fromkeys(live, DELETED), now)
    await session.execute("DELETE FROM onbeat.schedules WHERE id = ?", id)
    await delete_own_types(session, [id])
    session.hints.add(Hint.SCHEDULES)
    return True


async def lock_jobs_of(session: Session, id: ScheduleId) -> list[JobId]:
    """The live jobs of the schedule: none of them is claimed or released until the commit."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("jobs_of_schedule")}
        WHERE schedule_id = ?
        ORDER BY id
        {dialect.for_update}
    """
    return [JobId(str(job_id)) for (job_id,) in await session.select("id", rest, id)]


async def planned_after_next(session: Session, id: ScheduleId, now: int) -> list[JobId]:
    """The jobs planned for later than `now` that never started, but for the first one."""
    rest = f"""
        FROM onbeat.jobs {session.dialect.use_index("jobs_of_schedule")}
        WHERE schedule_id = ? AND occurrence > ? AND {session.dialect.is_waiting} AND token = 0
        ORDER BY due_at, id
    """
    return [JobId(str(job_id)) for (job_id,) in await session.select("id", rest, id, now)][1:]
