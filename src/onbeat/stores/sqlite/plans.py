"""Plans: jobs, dispositions and the raised watermark in one transaction."""

from collections.abc import Iterable, Sequence

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.ports.store import Hint
from onbeat.stores.sql.values import micros, micros_or_none
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import (
    DispositionRow,
    free_instant,
    occurrence_of,
    row_of_job,
    row_of_skip,
)
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.enqueue import insert
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.rows import job_row
from onbeat.stores.sqlite.transaction import Row, Transaction, json_array


def apply_plans(transaction: Transaction, plans: Sequence[Plan]) -> list[bool]:
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM onbeat_schedules
                         WHERE id = value ->> 0 AND version = value ->> 1))
        FROM json_each(?)
    """
    current = transaction.values(
        sql, (json_array((plan.schedule_id, plan.version) for plan in plans),)
    )
    answers = [bool(plan) for plan in current]
    store_plans(transaction, [plan for plan, fits in zip(plans, answers, strict=True) if fits])
    return answers


def store_plans(transaction: Transaction, plans: Sequence[Plan]) -> None:
    """Store plans without version checks; the callers have checked versions."""
    jobs = without_disposition(transaction, [job for plan in plans for job in plan.jobs])
    insert(transaction, [job_row(job) for job in jobs])
    add_dispositions(transaction, map(row_of_job, jobs))
    add_dispositions(
        transaction, (row_of_skip(plan.schedule_id, skip) for plan in plans for skip in plan.skips)
    )
    raise_watermarks(transaction, plans)
    for plan in plans:
        for dropped in plan.dropped:
            drop_planned(transaction, dropped)
    allow_late(transaction, [id for plan in plans for id in plan.allowed_late])


def without_disposition(transaction: Transaction, jobs: Sequence[Job]) -> list[Job]:
    """The jobs whose occurrence has no disposition yet; of two for one occurrence the first."""
    sql = """
        SELECT json_group_array(
                 coalesce((SELECT last >= value ->> 1 FROM onbeat_dispositions
                           WHERE schedule_id = value ->> 0 AND first <= value ->> 1
                           ORDER BY first DESC LIMIT 1), 0))
        FROM json_each(?)
    """
    occurrences = [(job.schedule_id, micros_or_none(job.occurrence)) for job in jobs]
    taken = transaction.values(sql, (json_array(occurrences),)) if jobs else []
    fresh: dict[tuple[ScheduleId | None, int | None], Job] = {}
    for occurrence, is_taken, job in zip(occurrences, taken, jobs, strict=True):
        if not is_taken:
            fresh.setdefault(occurrence, job)
    return list(fresh.values())


def add_dispositions(transaction: Transaction, rows: Iterable[DispositionRow]) -> int:
    """Add skips whose first instant has no disposition yet; returns how many."""
    batch: list[Row] = list(rows)
    return transaction.run_rows(
        """
        INSERT OR IGNORE INTO onbeat_dispositions (schedule_id, first, last, job_id, reason)
        SELECT *
        FROM :rows
        WHERE column1 IS NOT NULL
          AND NOT coalesce((SELECT last >= column2 FROM onbeat_dispositions
                            WHERE schedule_id = column1 AND first <= column2
                            ORDER BY first DESC LIMIT 1), 0)
        """,
        batch,
    )


def raise_watermarks(transaction: Transaction, plans: Sequence[Plan]) -> None:
    if not plans:
        return
    transaction.run_rows(
        """
        UPDATE onbeat_schedules
        SET planned_through = max(planned_through, column2),
            plan_at = iif(column4, NULL, column3),
            status = iif(column4, 'finished', status)
        FROM :rows
        WHERE id = column1
        """,
        [
            (
                plan.schedule_id,
                micros(plan.planned_through),
                micros_or_none(plan.plan_at),
                plan.finished,
            )
            for plan in plans
        ],
    )
    transaction.hints.add(Hint.SCHEDULES)


def drop_planned(transaction: Transaction, dropped: Dropped) -> None:
    """Cancel a job that never started; its occurrence becomes a skip.

    A plan has no current time. The job's end is the instant from which it could no longer start.
    """
    sql = "SELECT coalesce(start_by, due_at) FROM onbeat_jobs WHERE id = ?"
    ended_at = transaction.value(sql, (dropped.job_id,))
    reasons = {dropped.job_id: dropped.reason}
    if ended_at is None or not finish(
        cancel_waiting(transaction, reasons, ended_at, started_too=False)
    ):
        return
    transaction.run(
        """
        UPDATE onbeat_dispositions
        SET job_id = NULL, reason = :reason
        WHERE job_id = :id
          AND (schedule_id, first) = (SELECT schedule_id, occurrence
                                      FROM onbeat_finished
                                      WHERE id = :id)
        """,
        {"id": dropped.job_id, "reason": dropped.reason},
    )


def allow_late(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Remove the `start_by` of jobs that never started."""
    sql = """
        SELECT json_group_array(json_array(id, start_by))
        FROM onbeat_jobs
        WHERE id IN (SELECT value FROM json_each(?))
          AND state = 'waiting' AND start_by IS NOT NULL
    """
    bounds = transaction.values(sql, (json_array(ids),)) if ids else []
    for id, start_by in bounds:
        transaction.run("UPDATE onbeat_jobs SET start_by = NULL, lapsed = 0 WHERE id = ?", (id,))
        note(transaction, [id], start_by, "excused", {id: "allowed to start late"})
        transaction.hints.add(Hint.JOBS)


def backfill(
    transaction: Transaction, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]
) -> int:
    added = [job for job in jobs if finish(free_instant(transaction, id, occurrence_of(job)))]
    insert(transaction, [job_row(job) for job in added])
    add_dispositions(transaction, map(row_of_job, added))
    replace_skips(transaction, id, skips)
    return len(added)


def replace_skips(transaction: Transaction, id: ScheduleId, skips: Sequence[Skip]) -> None:
    """Store these skips in place of those that they overlap."""
    for skip in skips:
        transaction.run(
            """
            DELETE FROM onbeat_dispositions
            WHERE schedule_id = ? AND job_id IS NULL AND first <= ? AND last >= ?
            """,
            (id, micros(skip.last), micros(skip.first)),
        )
        add_dispositions(transaction, [row_of_skip(id, skip)])
