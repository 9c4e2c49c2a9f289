"""Schedules and their updates."""

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.ports.store import Hint
from onbeat.rules.plans import follow_schedule
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs, spec_of
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.schedules import spec_text
from onbeat.stores.sql.values import (
    overlap_text,
)
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import forget_dispositions_after
from onbeat.stores.sql.verbs.overlap import ask_to_stop
from onbeat.stores.sql.verbs.plans import store_plan
from onbeat.stores.sql.verbs.schedules import (
    insert_schedules,
    lock_watermarks,
    refuse_taken_key,
    rewrite_schedule,
)

CHANGED = "schedule changed"
DELETED = "schedule deleted"


async def add_schedule(transaction: Transaction, new: Schedule, plan: Plan) -> None:
    """Adding the same schedule again after a lost answer changes nothing."""
    if await transaction.value("SELECT 1 FROM schedules WHERE id = %s", (new.id,)):
        return
    await refuse_taken_key(transaction, new)
    await insert_schedules(transaction, [new])
    await store_plan(transaction, plan)
    transaction.hints.add(Hint.SCHEDULES)


async def update_schedule(
    transaction: Transaction, edited: Schedule, plan: Plan | None, now: int
) -> bool:
    here = (await lock_watermarks(transaction, {edited.id})).get(edited.id)
    if here is None or here.version != edited.version - 1:
        is_repeated = here is not None and here.version == edited.version
        return is_repeated and await is_stored(transaction, edited)
    await refuse_taken_key(transaction, edited)
    await rewrite_schedule(transaction, edited)
    await transaction.run(
        "UPDATE jobs FORCE INDEX (jobs_of_schedule) SET held = %s WHERE schedule_id = %s",
        (edited.status is ScheduleStatus.PAUSED, edited.id),
    )
    if plan is not None:
        await forget_after(transaction, edited.id, now)
        await store_plan(transaction, plan)
    await follow(transaction, edited)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return True


async def is_stored(transaction: Transaction, edited: Schedule) -> bool:
    """Whether this very edit was stored before, and its answer was lost."""
    sql = "SELECT 1 FROM schedules WHERE id = %s AND spec = %s AND name_key <=> %s"
    values = (edited.id, spec_text(edited), edited.key)
    return bool(await transaction.value(sql, values))


async def follow(transaction: Transaction, edited: Schedule) -> None:
    """Apply the edit to the schedule's waiting jobs."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (jobs_of_schedule)
        WHERE schedule_id = %s AND running = 0
        FOR UPDATE
    """  # noqa: S608  values are bound
    waiting = read_jobs(await transaction.rows(sql, (edited.id,)))
    await transaction.run_each(
        """
        UPDATE jobs
        SET queue = %s, priority = %s, lane = %s, overlap = %s, spec = %s
        WHERE id = %s
        """,
        [following_row(job, edited) for job in waiting],
    )


def following_row(job: Job, edited: Schedule) -> Row:
    return (
        edited.queue,
        edited.priority,
        lane_of(edited.target),
        overlap_text(edited.overlap),
        spec_of(follow_schedule(job, edited)),
        job.id,
    )


async def forget_after(transaction: Transaction, id: ScheduleId, now: int) -> None:
    """After a changed rule, cancel jobs planned for later than `now` that never started."""
    sql = """
        SELECT id
        FROM jobs
        WHERE schedule_id = %s AND occurrence > %s AND running = 0
          AND (token = 0 OR start_by IS NOT NULL)
    """
    void: list[JobId] = await transaction.column(sql, (id, now))
    # A job that was claimed meanwhile goes on and keeps its disposition.
    gone = await cancel_waiting(transaction, dict.fromkeys(void, CHANGED), now, started_too=False)
    await forget_dispositions_after(transaction, id, now, gone)
    # Nothing is planned beyond `now` any more; the new plan sets the watermark.
    await transaction.run(
        "UPDATE schedules SET planned_through = LEAST(planned_through, %s) WHERE id = %s", (now, id)
    )


async def delete_schedule(transaction: Transaction, id: ScheduleId, now: int) -> bool:
    if not await lock_watermarks(transaction, {id}):
        return False
    await forget_dispositions_after(transaction, id, now, None)
    sql = "SELECT id FROM jobs WHERE schedule_id = %s FOR UPDATE"
    live: list[JobId] = await transaction.column(sql, (id,))
    await cancel_waiting(transaction, dict.fromkeys(live, DELETED), now)
    await ask_to_stop(transaction, live, DELETED, now)
    await transaction.run("DELETE FROM schedules WHERE id = %s", (id,))
    transaction.hints.add(Hint.SCHEDULES)
    return True
