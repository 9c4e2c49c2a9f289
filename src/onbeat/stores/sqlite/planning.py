"""Plans: jobs, dispositions and the raised watermark in one transaction."""

from collections.abc import Iterable, Sequence

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Dropped, Plan, Skip
from onbeat.ports.store import Disposition, Hint
from onbeat.stores.sql.values import instant, micros, micros_or_none
from onbeat.stores.sqlite.ends import cancel_waiting
from onbeat.stores.sqlite.enqueue import insert
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.rows import job_row
from onbeat.stores.sqlite.transaction import Row, Transaction, listed

DispositionRow = tuple[ScheduleId, int, int, JobId | None, str | None]


def apply_plans(transaction: Transaction, plans: Sequence[Plan]) -> list[bool]:
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM schedules WHERE id = value ->> 0 AND version = value ->> 1))
        FROM json_each(?)
    """
    current = transaction.values(sql, (listed((one.schedule_id, one.version) for one in plans),))
    answers = [bool(one) for one in current]
    store_plans(transaction, [one for one, fits in zip(plans, answers, strict=True) if fits])
    return answers


def store_plans(transaction: Transaction, plans: Sequence[Plan]) -> None:
    """Whatever the versions; their callers have looked at them."""
    jobs = without_disposition(transaction, [job for plan in plans for job in plan.jobs])
    insert(transaction, [job_row(job) for job in jobs])
    add_dispositions(transaction, map(row_of_job, jobs))
    add_dispositions(
        transaction, (row_of_skip(plan.schedule_id, skip) for plan in plans for skip in plan.skips)
    )
    raise_watermarks(transaction, plans)
    for plan in plans:
        for dropped in plan.dropped:
            drop(transaction, dropped)
    excuse(transaction, [id for plan in plans for id in plan.excused])


def without_disposition(transaction: Transaction, jobs: Sequence[Job]) -> list[Job]:
    """Those whose occurrence is not settled yet; of two for one occurrence the first."""
    sql = """
        SELECT json_group_array(
                 coalesce((SELECT last >= value ->> 1 FROM dispositions
                           WHERE schedule_id = value ->> 0 AND first <= value ->> 1
                           ORDER BY first DESC LIMIT 1), 0))
        FROM json_each(?)
    """
    occurrences = [(job.schedule_id, micros_or_none(job.occurrence)) for job in jobs]
    taken = transaction.values(sql, (listed(occurrences),)) if jobs else []
    fresh: dict[tuple[ScheduleId | None, int | None], Job] = {}
    for occurrence, is_taken, job in zip(occurrences, taken, jobs, strict=True):
        if not is_taken:
            fresh.setdefault(occurrence, job)
    return list(fresh.values())


def row_of_job(job: Job) -> DispositionRow:
    assert job.schedule_id is not None, "a planned job has a schedule"
    assert job.occurrence is not None, "a planned job has an occurrence"
    at = micros(job.occurrence)
    return (job.schedule_id, at, at, job.id, None)


def row_of_skip(id: ScheduleId, skip: Skip) -> DispositionRow:
    return (id, micros(skip.first), micros(skip.last), None, skip.reason)


def add_dispositions(transaction: Transaction, rows: Iterable[DispositionRow]) -> int:
    """Those whose first instant has none yet; answers with how many."""
    batch: list[Row] = list(rows)
    return transaction.run_rows(
        """
        INSERT OR IGNORE INTO dispositions (schedule_id, first, last, job_id, reason)
        SELECT *
        FROM :rows
        WHERE column1 IS NOT NULL
          AND NOT coalesce((SELECT last >= column2 FROM dispositions
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
        UPDATE schedules
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


def drop(transaction: Transaction, dropped: Dropped) -> None:
    """Cancel a job that never started; its occurrence becomes a skip.

    A plan tells no present. The job ended when it could no longer start, so that is its end.
    """
    sql = "SELECT coalesce(start_by, due_at) FROM jobs WHERE id = ?"
    ended_at = transaction.value(sql, (dropped.job_id,))
    reasons = {dropped.job_id: dropped.reason}
    if ended_at is None or not cancel_waiting(transaction, reasons, ended_at, started_too=False):
        return
    transaction.run(
        """
        UPDATE dispositions
        SET job_id = NULL, reason = :reason
        WHERE job_id = :id
          AND (schedule_id, first) = (SELECT schedule_id, occurrence FROM finished WHERE id = :id)
        """,
        {"id": dropped.job_id, "reason": dropped.reason},
    )


def excuse(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Let jobs that never started start however late."""
    sql = """
        SELECT json_group_array(json_array(id, start_by))
        FROM jobs
        WHERE id IN (SELECT value FROM json_each(?))
          AND state = 'waiting' AND start_by IS NOT NULL
    """
    bounds = transaction.values(sql, (listed(ids),)) if ids else []
    for id, start_by in bounds:
        transaction.run("UPDATE jobs SET start_by = NULL, lapsed = 0 WHERE id = ?", (id,))
        note(transaction, [id], start_by, "excused", {id: "it may start although it is late"})
        transaction.hints.add(Hint.JOBS)


def dispositions(transaction: Transaction, asked: tuple[ScheduleId, int, int]) -> list[Disposition]:
    sql = """
        SELECT json_group_array(json_array(first, last, job_id, reason))
        FROM (
          SELECT first, last, job_id, reason
          FROM dispositions
          WHERE schedule_id = ?1
            AND first <= ?3
            AND first >= coalesce((SELECT first FROM dispositions
                                   WHERE schedule_id = ?1 AND first <= ?2 AND last >= ?2
                                   ORDER BY first DESC LIMIT 1), ?2)
          ORDER BY first
        )
    """
    return [
        Disposition(first=instant(first), last=instant(last), job_id=job_id, reason=reason)
        for first, last, job_id, reason in transaction.values(sql, asked)
    ]


def backfill(
    transaction: Transaction, asked: tuple[ScheduleId, Sequence[Job], Sequence[Skip]]
) -> int:
    id, jobs, skips = asked
    added = [job for job in jobs if free_instant(transaction, id, micros_or_none(job.occurrence))]
    insert(transaction, [job_row(job) for job in added])
    add_dispositions(transaction, map(row_of_job, added))
    replace_skips(transaction, id, skips)
    return len(added)


def replace_skips(transaction: Transaction, id: ScheduleId, skips: Sequence[Skip]) -> None:
    """Put these skips in the place of those that they touch."""
    for skip in skips:
        transaction.run(
            """
            DELETE FROM dispositions
            WHERE schedule_id = ? AND job_id IS NULL AND first <= ? AND last >= ?
            """,
            (id, micros(skip.last), micros(skip.first)),
        )
        add_dispositions(transaction, [row_of_skip(id, skip)])


def free_instant(transaction: Transaction, id: ScheduleId, at: int | None) -> bool:
    """Whether the instant has no job yet; a run of skips is split around it."""
    assert at is not None, "a backfilled job has an occurrence"
    sql = """
        SELECT json_array(first, last, job_id, reason)
        FROM dispositions
        WHERE schedule_id = ? AND first <= ? AND last >= ?
        ORDER BY first DESC
        LIMIT 1
    """
    covering = transaction.values(sql, (id, at, at))
    if not covering:
        return True
    first, last, job_id, reason = covering
    if job_id is not None:
        return False
    transaction.run("DELETE FROM dispositions WHERE schedule_id = ? AND first = ?", (id, first))
    parts = ((first, at - 1), (at + 1, last))
    add_dispositions(
        transaction, [(id, low, high, None, reason) for low, high in parts if low <= high]
    )
    return True
