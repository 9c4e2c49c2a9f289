"""Plans: jobs, dispositions and the raised watermark in one transaction.

Whoever writes dispositions of a schedule holds its row locked, so that two planners take turns and
the second sees what the first has written.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.ports.store import Disposition, Hint
from onbeat.stores.postgres.ends import cancel_waiting
from onbeat.stores.postgres.enqueue import insert
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.rows import columns, job_row
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros, micros_or_none

DispositionRow = tuple[ScheduleId, int, int, JobId | None, str | None]


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
    """Whatever the versions; their callers have looked at them."""
    jobs = await without_disposition(transaction, [job for plan in plans for job in plan.jobs])
    await insert(transaction, [job_row(job) for job in jobs])
    await add_dispositions(transaction, [row_of_job(job) for job in jobs])
    await add_dispositions(
        transaction, [row_of_skip(plan.schedule_id, skip) for plan in plans for skip in plan.skips]
    )
    await raise_watermarks(transaction, plans)
    for plan in plans:
        for dropped in plan.dropped:
            await drop(transaction, dropped)
    await excuse(transaction, [id for plan in plans for id in plan.excused])


COVERED = """
    coalesce((SELECT last >= new.first FROM dispositions
              WHERE dispositions.schedule_id = new.schedule_id AND dispositions.first <= new.first
              ORDER BY dispositions.first DESC LIMIT 1), FALSE)
"""


async def without_disposition(transaction: Transaction, jobs: Sequence[Job]) -> list[Job]:
    """Those whose occurrence is not settled yet; of two for one occurrence the first."""
    if not jobs:
        return []
    occurrences = [(job.schedule_id, micros_or_none(job.occurrence)) for job in jobs]
    taken = await covered(transaction, occurrences)
    fresh: dict[tuple[ScheduleId | None, int | None], Job] = {}
    for occurrence, is_taken, job in zip(occurrences, taken, jobs, strict=True):
        if not is_taken:
            fresh.setdefault(occurrence, job)
    return list(fresh.values())


async def covered(
    transaction: Transaction, occurrences: Sequence[tuple[ScheduleId | None, int | None]]
) -> list[bool]:
    """For each of these instants whether it has a disposition, be it within a run of skips."""
    sql = f"""
        SELECT {COVERED}
        FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS new (schedule_id, first, place)
        ORDER BY place
    """  # noqa: S608  no value in it
    return await transaction.column(sql, *columns(occurrences))


def row_of_job(job: Job) -> DispositionRow:
    assert job.schedule_id is not None, "a planned job has a schedule"
    assert job.occurrence is not None, "a planned job has an occurrence"
    at = micros(job.occurrence)
    return (job.schedule_id, at, at, job.id, None)


def row_of_skip(id: ScheduleId, skip: Skip) -> DispositionRow:
    return (id, micros(skip.first), micros(skip.last), None, skip.reason)


async def add_dispositions(transaction: Transaction, rows: Sequence[DispositionRow]) -> int:
    """Those whose first instant has none yet. Answers with how many were added."""
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
    """Of several plans for one schedule the last says when to look again."""
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


async def drop(transaction: Transaction, dropped: Dropped) -> None:
    """Cancel a job that never started; its occurrence becomes a skip.

    A plan tells no present. The job ended when it could no longer start, so that is its end.
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


async def excuse(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Let jobs that never started start however late."""
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
        causes = {JobId(str(id)): "it may start although it is late"}
        await note(transaction, causes, start_by, "excused")
        transaction.hints.add(Hint.JOBS)


async def dispositions(
    transaction: Transaction, asked: tuple[ScheduleId, int, int]
) -> list[Disposition]:
    sql = """
        SELECT first, last, job_id, reason
        FROM dispositions
        WHERE schedule_id = $1
          AND first <= $3
          AND first >= coalesce((SELECT first FROM dispositions
                                 WHERE schedule_id = $1 AND first <= $2 AND last >= $2
                                 ORDER BY first DESC LIMIT 1), $2)
        ORDER BY first
    """
    return [read_disposition(row) for row in await transaction.rows(sql, *asked)]


def read_disposition(row: Sequence[Any]) -> Disposition:
    first, last, job_id, reason = row
    return Disposition(
        first=instant(first),
        last=instant(last),
        job_id=None if job_id is None else JobId(str(job_id)),
        reason=reason,
    )


class Backfill(msgspec.Struct, frozen=True):
    id: ScheduleId
    jobs: Sequence[Job]
    skips: Sequence[Skip]


async def backfill(transaction: Transaction, request: Backfill) -> int:
    await transaction.rows("SELECT 1 FROM schedules WHERE id = $1 FOR UPDATE", request.id)
    added = [
        job
        for job in request.jobs
        if await free_instant(transaction, request.id, micros_or_none(job.occurrence))
    ]
    await insert(transaction, [job_row(job) for job in added])
    await add_dispositions(transaction, [row_of_job(job) for job in added])
    await replace_skips(transaction, request.id, request.skips)
    return len(added)


async def replace_skips(transaction: Transaction, id: ScheduleId, skips: Sequence[Skip]) -> None:
    """Put these skips in the place of those that they touch."""
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


async def free_instant(transaction: Transaction, id: ScheduleId, at: int | None) -> bool:
    """Whether the instant has no job yet; a run of skips is split around it."""
    assert at is not None, "a backfilled job has an occurrence"
    sql = """
        SELECT first, last, job_id, reason
        FROM dispositions
        WHERE schedule_id = $1 AND first <= $2 AND last >= $2
        ORDER BY first DESC
        LIMIT 1
    """
    covering: Sequence[Any] = await transaction.rows(sql, id, at)
    if not covering:
        return True
    first, last, job_id, reason = covering[0]
    if job_id is not None:
        return False
    await transaction.run(
        "DELETE FROM dispositions WHERE schedule_id = $1 AND first = $2", id, first
    )
    parts = ((first, at - 1), (at + 1, last))
    await add_dispositions(
        transaction, [(id, low, high, None, reason) for low, high in parts if low <= high]
    )
    return True
