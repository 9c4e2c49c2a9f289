"""Plans: jobs, dispositions and the raised watermark in one transaction.

A writer of dispositions locks the row of their schedule, so that the rows read here stay valid
until the commit.
"""

from collections.abc import Collection, Sequence

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.ports.store import Hint
from onbeat.stores.mysql.dispositions import (
    DispositionRuns,
    read_runs,
    time_range_of,
)
from onbeat.stores.mysql.enqueue import insert
from onbeat.stores.mysql.rows import job_row
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import (
    free_instant,
    insert_dispositions,
    occurrence_of,
    row_of_job,
)
from onbeat.stores.sql.verbs.history import add_transitions

Locked = dict[ScheduleId, tuple[int, str]]
"""The version and the status of each existing schedule."""


async def apply_plans(transaction: Transaction, plans: Sequence[Plan]) -> list[bool]:
    locked = await lock_schedules(transaction, {plan.schedule_id for plan in plans})
    answers = [
        plan.schedule_id in locked and locked[plan.schedule_id][0] == plan.version for plan in plans
    ]
    fitting = [plan for plan, fits in zip(plans, answers, strict=True) if fits]
    await store_plans(transaction, fitting, paused_of(locked))
    return answers


async def lock_schedules(transaction: Transaction, ids: Collection[ScheduleId]) -> Locked:
    """Lock the schedules: no other transaction plans, edits or pauses them or admits their jobs."""
    if not ids:
        return {}
    sql = """
        SELECT id, version, status
        FROM schedules FORCE INDEX (PRIMARY)
        WHERE id IN %s
        ORDER BY id
        FOR UPDATE
    """
    rows = await transaction.rows(sql, (tuple(ids),))
    return {id: (version, status) for id, version, status in rows}


def paused_of(locked: Locked) -> frozenset[ScheduleId]:
    return frozenset(id for id, (_, status) in locked.items() if status == "paused")


async def store_plans(
    transaction: Transaction, plans: Sequence[Plan], paused: Collection[ScheduleId]
) -> None:
    """Store plans without version checks; the callers have checked versions and hold the locks."""
    if not plans:
        return
    stretches = [stretch for plan in plans if (stretch := time_range_of(plan))]
    runs = await read_runs(transaction, stretches)
    jobs = [job for plan in plans for job in plan.jobs if runs.take_job(plan.schedule_id, job)]
    await insert(transaction, [(*job_row(job), job.schedule_id in paused) for job in jobs])
    for plan in plans:
        for skip in plan.skips:
            runs.take_skip(plan.schedule_id, skip)
    await insert_dispositions(transaction, runs.new)
    await raise_watermarks(transaction, plans)
    for plan in plans:
        for dropped in plan.dropped:
            await drop_planned(transaction, dropped)
    await allow_late(transaction, [id for plan in plans for id in plan.allowed_late])


async def raise_watermarks(transaction: Transaction, plans: Sequence[Plan]) -> None:
    await transaction.run_each(
        """
        UPDATE schedules
        SET planned_through = GREATEST(planned_through, %(planned_through)s),
            plan_at = %(plan_at)s,
            status = IF(%(finished)s, 'finished', status)
        WHERE id = %(id)s
        """,
        [
            {
                "id": plan.schedule_id,
                "planned_through": micros(plan.planned_through),
                "plan_at": None if plan.finished else micros_or_none(plan.plan_at),
                "finished": plan.finished,
            }
            for plan in plans
        ],
    )
    transaction.hints.add(Hint.SCHEDULES)


async def drop_planned(transaction: Transaction, dropped: Dropped) -> None:
    """Cancel a job that never started; its occurrence becomes a skip.

    A plan has no current time. The job's end is the instant from which it could no longer start.
    """
    sql = "SELECT COALESCE(start_by, due_at), schedule_id, occurrence FROM jobs WHERE id = %s"
    rows = await transaction.rows(sql, (dropped.job_id,))
    if not rows:
        return
    ended_at, schedule_id, occurrence = rows[0]
    reasons = {dropped.job_id: dropped.reason}
    if await cancel_waiting(transaction, reasons, ended_at, started_too=False):
        await transaction.run(
            """
            UPDATE dispositions
            SET job_id = NULL, reason = %s
            WHERE schedule_id = %s AND last = %s AND job_id = %s
            """,
            (dropped.reason, schedule_id, occurrence, dropped.job_id),
        )


async def allow_late(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Remove the `start_by` of jobs that never started."""
    if not ids:
        return
    sql = """
        SELECT id, start_by
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 0 AND start_by IS NOT NULL
        ORDER BY id
        FOR UPDATE
    """
    bounds = await transaction.rows(sql, (tuple(ids),))
    if bounds:
        await transaction.run_each(
            "UPDATE jobs SET start_by = NULL, lapsed = 0 WHERE id = %s", [(id,) for id, _ in bounds]
        )
        cause = "allowed to start late"
        await add_transitions(
            transaction, [(id, start_by, "excused", cause, 0, None) for id, start_by in bounds]
        )
        transaction.hints.add(Hint.JOBS)


async def backfill(
    transaction: Transaction, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]
) -> int:
    locked = await lock_schedules(transaction, {id})
    added: list[Job] = []
    for job in jobs:
        if await free_instant(transaction, id, occurrence_of(job)):
            await insert_dispositions(transaction, [row_of_job(job)])
            added.append(job)
    paused = paused_of(locked)
    await insert(transaction, [(*job_row(job), job.schedule_id in paused) for job in added])
    for skip in skips:
        await replace_skips(transaction, id, skip)
    return len(added)


async def replace_skips(transaction: Transaction, id: ScheduleId, skip: Skip) -> None:
    """Store this skip in place of those that it overlaps."""
    first, last = micros(skip.first), micros(skip.last)
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id = %s AND job_id IS NULL AND last >= %s AND first <= %s
        """,
        (id, first, last),
    )
    runs = DispositionRuns()
    sql = """
        SELECT first, last FROM dispositions WHERE schedule_id = %s AND last >= %s AND first <= %s
    """
    for low, high in await transaction.rows(sql, (id, first, last)):
        runs.add(id, low, high)
    runs.take_skip(id, skip)
    await insert_dispositions(transaction, runs.new)
