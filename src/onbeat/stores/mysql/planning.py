"""Plans: jobs, dispositions and the raised watermark in one transaction.

Whoever changes dispositions of a schedule holds the lock of its row, so that what is read here
stays true until the commit.
"""

from collections.abc import Collection, Sequence

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.ports.store import Disposition, Hint
from onbeat.stores.mysql.dispositions import (
    DispositionRow,
    Runs,
    add_dispositions,
    read_runs,
    stretch_of,
)
from onbeat.stores.mysql.ends import cancel_waiting
from onbeat.stores.mysql.enqueue import insert
from onbeat.stores.mysql.history import note
from onbeat.stores.mysql.rows import job_row
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import instant, micros, micros_or_none

Locked = dict[ScheduleId, tuple[int, str]]
"""The version and the status of each schedule that there is."""


async def apply_plans(transaction: Transaction, plans: Sequence[Plan]) -> list[bool]:
    locked = await lock_schedules(transaction, {one.schedule_id for one in plans})
    answers = [
        one.schedule_id in locked and locked[one.schedule_id][0] == one.version for one in plans
    ]
    fitting = [one for one, fits in zip(plans, answers, strict=True) if fits]
    await store_plans(transaction, fitting, paused_of(locked))
    return answers


async def lock_schedules(transaction: Transaction, ids: Collection[ScheduleId]) -> Locked:
    """Nobody else plans, edits, pauses or admits jobs of them until the commit."""
    if not ids:
        return {}
    sql = """
        SELECT id, version, status
        FROM schedules FORCE INDEX (PRIMARY)
        WHERE id IN %s
        ORDER BY id
        FOR UPDATE
    """
    found = await transaction.rows(sql, (tuple(ids),))
    return {id: (version, status) for id, version, status in found}


def paused_of(locked: Locked) -> frozenset[ScheduleId]:
    return frozenset(id for id, (_, status) in locked.items() if status == "paused")


async def store_plans(
    transaction: Transaction, plans: Sequence[Plan], paused: Collection[ScheduleId]
) -> None:
    """Whatever the versions; their callers have looked at them and hold the locks."""
    if not plans:
        return
    stretches = [stretch for plan in plans if (stretch := stretch_of(plan))]
    runs = await read_runs(transaction, stretches)
    jobs = [job for plan in plans for job in plan.jobs if runs.take_job(plan.schedule_id, job)]
    await insert(transaction, [(*job_row(job), job.schedule_id in paused) for job in jobs])
    for plan in plans:
        for skip in plan.skips:
            runs.take_skip(plan.schedule_id, skip)
    await add_dispositions(transaction, runs.new)
    await raise_watermarks(transaction, plans)
    for plan in plans:
        for dropped in plan.dropped:
            await drop(transaction, dropped)
    await excuse(transaction, [id for plan in plans for id in plan.excused])


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


async def drop(transaction: Transaction, dropped: Dropped) -> None:
    """Cancel a job that never started; its occurrence becomes a skip.

    A plan tells no present. The job ended when it could no longer start, so that is its end.
    """
    sql = "SELECT COALESCE(start_by, due_at), schedule_id, occurrence FROM jobs WHERE id = %s"
    found = await transaction.rows(sql, (dropped.job_id,))
    if not found:
        return
    ended_at, schedule_id, occurrence = found[0]
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


async def excuse(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Let jobs that never started start however late."""
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
        cause = "it may start although it is late"
        await note(
            transaction, [(id, start_by, "excused", cause, 0, None) for id, start_by in bounds]
        )
        transaction.hints.add(Hint.JOBS)


async def dispositions(
    transaction: Transaction, asked: tuple[ScheduleId, int, int]
) -> list[Disposition]:
    id, first, last = asked
    sql = """
        SELECT first, last, job_id, reason
        FROM dispositions
        WHERE schedule_id = %s AND last >= %s AND first <= %s
        ORDER BY last
    """
    return [
        Disposition(first=instant(first), last=instant(last), job_id=job_id, reason=reason)
        for first, last, job_id, reason in await transaction.rows(sql, (id, first, last))
    ]


async def backfill(
    transaction: Transaction, asked: tuple[ScheduleId, Sequence[Job], Sequence[Skip]]
) -> int:
    id, jobs, skips = asked
    locked = await lock_schedules(transaction, {id})
    added = [job for job in jobs if await free_instant(transaction, id, job)]
    paused = paused_of(locked)
    await insert(transaction, [(*job_row(job), job.schedule_id in paused) for job in added])
    for skip in skips:
        await replace_skips(transaction, id, skip)
    return len(added)


async def free_instant(transaction: Transaction, id: ScheduleId, job: Job) -> bool:
    """Whether the instant has no job yet: it is now the job's. A run of skips is split there."""
    assert job.occurrence is not None, "a backfilled job has an occurrence"
    at = micros(job.occurrence)
    rows: list[DispositionRow] = [(id, at, at, job.id, None)]
    sql = """
        SELECT first, last, job_id, reason
        FROM dispositions
        WHERE schedule_id = %s AND last >= %s
        ORDER BY last
        LIMIT 1
    """
    found = await transaction.rows(sql, (id, at))
    if found and found[0][0] <= at:
        first, last, job_id, reason = found[0]
        if job_id is not None:
            return False
        await transaction.run(
            "DELETE FROM dispositions WHERE schedule_id = %s AND last = %s", (id, last)
        )
        parts = ((first, at - 1), (at + 1, last))
        rows += [(id, low, high, None, reason) for low, high in parts if low <= high]
    await add_dispositions(transaction, rows)
    return True


async def replace_skips(transaction: Transaction, id: ScheduleId, skip: Skip) -> None:
    """Put this skip in the place of those that it touches."""
    first, last = micros(skip.first), micros(skip.last)
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id = %s AND job_id IS NULL AND last >= %s AND first <= %s
        """,
        (id, first, last),
    )
    runs = Runs()
    sql = """
        SELECT first, last FROM dispositions WHERE schedule_id = %s AND last >= %s AND first <= %s
    """
    for low, high in await transaction.rows(sql, (id, first, last)):
        runs.add(id, low, high)
    runs.take_skip(id, skip)
    await add_dispositions(transaction, runs.new)
