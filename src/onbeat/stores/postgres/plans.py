"""Plans: jobs, dispositions and the raised watermark in one transaction.

A writer of dispositions locks the row of their schedule, so that two planners take turns and the
second sees the rows of the first.
"""

from collections.abc import Sequence

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.ports.store import Hint
from onbeat.stores.postgres.enqueue import insert
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.rows import columns, job_row
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import (
    DispositionRow,
    free_instant,
    occurrence_of,
    row_of_job,
    row_of_skip,
)


async def apply_plans(transaction: Transaction, plans: Sequence[Plan]) -> list[bool]:
    sql = """
        SELECT id, version FROM schedules WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
    """
    ids = list({plan.schedule_id for plan in plans})
    versions = {str(id): version for id, version in await transaction.rows(sql, ids)}
    answers = [versions.get(plan.schedule_id) == plan.version for plan in plans]
    await store_plans(transaction, [one for one, fits in zip(plans, answers, strict=True) if fits])
    return answers


async def store_plans(transaction: Transaction, plans: Sequence[Plan]) -> None:
    """Store plans without version checks; the callers have checked versions."""
    jobs = await without_disposition(transaction, [job for plan in plans for job in plan.jobs])
    await insert(transaction, [job_row(job) for job in jobs])
    await add_dispositions(transaction, [row_of_job(job) for job in jobs])
    await add_dispositions(
        transaction, [row_of_skip(plan.schedule_id, skip) for plan in plans for skip in plan.skips]
    )
    await raise_watermarks(transaction, plans)
    for plan in plans:
        for dropped in plan.dropped:
            await drop_planned(transaction, dropped)
    await allow_late(transaction, [id for plan in plans for id in plan.allowed_late])


COVERED = """
    coalesce((SELECT last >= new.first FROM dispositions
              WHERE dispositions.schedule_id = new.schedule_id AND dispositions.first <= new.first
              ORDER BY dispositions.first DESC LIMIT 1), FALSE)
"""


async def without_disposition(transaction: Transaction, jobs: Sequence[Job]) -> list[Job]:
    """The jobs whose occurrence has no disposition yet; of two for one occurrence the first."""
    if not jobs:
        return []
    occurrences = [(job.schedule_id, micros_or_none(job.occurrence)) for job in jobs]
    taken = await find_covered(transaction, occurrences)
    fresh: dict[tuple[ScheduleId | None, int | None], Job] = {}
    for occurrence, is_taken, job in zip(occurrences, taken, jobs, strict=True):
        if not is_taken:
            fresh.setdefault(occurrence, job)
    return list(fresh.values())


async def find_covered(
    transaction: Transaction, occurrences: Sequence[tuple[ScheduleId | None, int | None]]
) -> list[bool]:
    """For each instant, whether it has a disposition, also within a run of skips."""
    sql = f"""
        SELECT {COVERED}
        FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS new (schedule_id, first, place)
        ORDER BY place
    """  # noqa: S608  no value in it
    return await transaction.column(sql, *columns(occurrences))


async def add_dispositions(transaction: Transaction, rows: Sequence[DispositionRow]) -> int:
    """Add skips whose first instant has no disposition yet; returns how many."""
    if not rows:
        return 0
    return await transaction.run(
        f"""
        INSERT INTO dispositions (schedule_id, first, last, job_id, reason)
        SELECT new.*
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[])
             AS new (schedule_id, first, last, job_id, reason)
        WHERE NOT {COVERED}
        ON CONFLICT DO NOTHING
        """,  # noqa: S608  no value in it
        *columns(rows),
    )


async def raise_watermarks(transaction: Transaction, plans: Sequence[Plan]) -> None:
    """Of several plans for one schedule the `plan_at` of the last counts."""
    if not plans:
        return
    last = {plan.schedule_id: plan for plan in plans}
    furthest: dict[ScheduleId, int] = {}
    for plan in plans:
        through = micros(plan.planned_through)
        furthest[plan.schedule_id] = max(through, furthest.get(plan.schedule_id, through))
    await transaction.run(
        """
        UPDATE schedules
        SET planned_through = greatest(schedules.planned_through, raised.planned_through),
            plan_at = CASE WHEN raised.finished THEN NULL ELSE raised.plan_at END,
            status = CASE WHEN raised.finished THEN 'finished' ELSE schedules.status END
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::boolean[])
             AS raised (id, planned_through, plan_at, finished)
        WHERE schedules.id = raised.id
        """,
        list(last),
        [furthest[id] for id in last],
        [micros_or_none(plan.plan_at) for plan in last.values()],
        [plan.finished for plan in last.values()],
    )
    transaction.hints.add(Hint.SCHEDULES)


async def drop_planned(transaction: Transaction, dropped: Dropped) -> None:
    """Cancel a job that never started; its occurrence becomes a skip.

    A plan has no current time. The job's end is the instant from which it could no longer start.
    """
    sql = "SELECT coalesce(start_by, due_at) FROM jobs WHERE id = $1"
    ended_at = await transaction.value(sql, dropped.job_id)
    reasons = {dropped.job_id: dropped.reason}
    if ended_at is None or not await cancel_waiting(
        transaction, reasons, ended_at, started_too=False
    ):
        return
    await transaction.run(
        """
        UPDATE dispositions
        SET job_id = NULL, reason = $2
        FROM finished
        WHERE finished.id = $1
          AND dispositions.schedule_id = finished.schedule_id
          AND dispositions.first = finished.occurrence
          AND dispositions.job_id = $1
        """,
        dropped.job_id,
        dropped.reason,
    )


async def allow_late(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Remove the `start_by` of jobs that never started."""
    if not ids:
        return
    sql = """
        WITH late AS MATERIALIZED (
          SELECT id, start_by
          FROM jobs
          WHERE id = ANY($1::uuid[])
            AND NOT running AND start_by IS NOT NULL
          ORDER BY id
          FOR UPDATE
        )
        UPDATE jobs
        SET start_by = NULL, lapsed = FALSE
        FROM late
        WHERE jobs.id = late.id
        RETURNING jobs.id, late.start_by
    """
    for id, start_by in await transaction.rows(sql, list(ids)):
        causes = {JobId(str(id)): "allowed to start late"}
        await note(transaction, causes, start_by, "excused")
        transaction.hints.add(Hint.JOBS)


async def backfill(
    transaction: Transaction, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]
) -> int:
    await transaction.rows("SELECT 1 FROM schedules WHERE id = $1 FOR UPDATE", id)
    added = [job for job in jobs if await free_instant(transaction, id, occurrence_of(job))]
    await insert(transaction, [job_row(job) for job in added])
    await add_dispositions(transaction, [row_of_job(job) for job in added])
    await replace_skips(transaction, id, skips)
    return len(added)


async def replace_skips(transaction: Transaction, id: ScheduleId, skips: Sequence[Skip]) -> None:
    """Store these skips in place of those that they overlap."""
    for skip in skips:
        await transaction.run(
            """
            DELETE FROM dispositions
            WHERE schedule_id = $1 AND job_id IS NULL AND first <= $2 AND last >= $3
            """,
            id,
            micros(skip.last),
            micros(skip.first),
        )
        await add_dispositions(transaction, [row_of_skip(id, skip)])
