"""Schedules and their updates."""

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.ports.store import Hint
from onbeat.rules.plans import follow_schedule
from onbeat.stores.postgres.rows import LIVE_COLUMNS, read_jobs, spec_of
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.schedules import spec_text
from onbeat.stores.sql.values import (
    overlap_text,
)
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import forget_dispositions_after
from onbeat.stores.sql.verbs.overlap import ask_to_stop
from onbeat.stores.sql.verbs.plans import store_plan
from onbeat.stores.sql.verbs.schedules import insert_schedules, refuse_taken_key, rewrite_schedule

CHANGED = "schedule changed"
DELETED = "schedule deleted"


async def add_schedule(transaction: Transaction, new: Schedule, plan: Plan) -> None:
    """Adding the same schedule again after a lost answer changes nothing."""
    if await transaction.value("SELECT 1 FROM schedules WHERE id = $1", new.id):
        return
    await refuse_taken_key(transaction, new)
    await insert_schedules(transaction, [new])
    await store_plan(transaction, plan)
    transaction.hints.add(Hint.SCHEDULES)


async def update_schedule(
    transaction: Transaction, edited: Schedule, plan: Plan | None, now: int
) -> bool:
    sql = "SELECT version, spec FROM schedules WHERE id = $1 FOR UPDATE"
    stored = next(iter(await transaction.rows(sql, edited.id)), None)
    if stored is None:
        return False
    version, spec = stored
    if version != edited.version - 1:
        # This same edit may be stored already, from a call whose answer was lost.
        return bool(version == edited.version and spec == spec_text(edited))
    await refuse_taken_key(transaction, edited)
    await rewrite_schedule(transaction, edited)
    await transaction.run(
        "UPDATE jobs SET held = $2 WHERE schedule_id = $1 AND held <> $2",
        edited.id,
        edited.status is ScheduleStatus.PAUSED,
    )
    if plan is not None:
        await forget_after(transaction, edited.id, now)
        await store_plan(transaction, plan)
    await follow(transaction, edited)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return True


async def follow(transaction: Transaction, edited: Schedule) -> None:
    """Apply the edit to the schedule's waiting jobs."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs
        WHERE schedule_id = $1 AND NOT running
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  no value in it
    waiting = read_jobs(await transaction.rows(sql, edited.id))
    if waiting:
        await transaction.run(
            """
            UPDATE jobs
            SET queue = $2, priority = $3, lane = $4, overlap = $5, spec = followed.spec
            FROM unnest($1::uuid[], $6::text[]) AS followed (id, spec)
            WHERE jobs.id = followed.id
              AND NOT running
            """,
            [job.id for job in waiting],
            edited.queue,
            edited.priority,
            lane_of(edited.target),
            overlap_text(edited.overlap),
            [spec_of(follow_schedule(job, edited)) for job in waiting],
        )


async def forget_after(transaction: Transaction, id: ScheduleId, now: int) -> None:
    """After a changed rule, cancel jobs planned for later than `now` that never started."""
    sql = """
        SELECT id FROM jobs
        WHERE schedule_id = $1 AND occurrence > $2 AND NOT running
          AND (token = 0 OR start_by IS NOT NULL)
    """
    rows = [JobId(str(one)) for one in await transaction.column(sql, id, now)]
    reasons = dict.fromkeys(rows, CHANGED)
    # A job that was claimed meanwhile is not void.
    void = await cancel_waiting(transaction, reasons, now, started_too=False)
    await forget_dispositions_after(transaction, id, now, void)
    # Nothing is planned beyond `now` any more; the new plan sets the watermark.
    await transaction.run(
        "UPDATE schedules SET planned_through = least(planned_through, $2) WHERE id = $1", id, now
    )


async def delete_schedule(transaction: Transaction, id: ScheduleId, now: int) -> bool:
    if not await transaction.run("DELETE FROM schedules WHERE id = $1", id):
        return False
    await forget_dispositions_after(transaction, id, now, None)
    sql = "SELECT id FROM jobs WHERE schedule_id = $1"
    live = [JobId(str(one)) for one in await transaction.column(sql, id)]
    await ask_to_stop(transaction, live, DELETED, now)
    await cancel_waiting(transaction, dict.fromkeys(live, DELETED), now)
    await ask_to_stop(transaction, live, DELETED, now)
    transaction.hints.add(Hint.SCHEDULES)
    return True
