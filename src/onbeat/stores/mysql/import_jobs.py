"""Imports of jobs with their history from another store."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.ports.store import Hint, JobExport
from onbeat.rules.merge import is_further
from onbeat.stores.merge import export_as_imported
from onbeat.stores.mysql.rows import (
    ENDED_COLUMNS,
    INSERT_FINISHED,
    LIVE_COLUMNS,
    finished_row,
    job_row,
    read_jobs,
    spec_of,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.forms import NEW_COLUMNS, transition_row
from onbeat.stores.sql.values import micros, micros_or_none, overlap_text, text_or_none, to_json
from onbeat.stores.sql.verbs.dependents import add_dependencies, cascade, lock_jobs
from onbeat.stores.sql.verbs.history import add_attempts, add_transitions, exports_of
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.schedules import hold_schedules


class PreparedImport(msgspec.Struct, frozen=True, gc=False):
    """An export prepared outside the transaction, to keep that short.

    `row` is for `finished` if `finished_at` is set, else for `jobs`.
    """

    export: JobExport
    id: JobId
    state: str
    finished_at: int | None
    schedule_id: ScheduleId | None
    after: tuple[JobId, ...]
    row: Row
    attempts: list[Row]
    steps: list[Row]


def prepare_import(export: JobExport) -> PreparedImport:
    job = export_as_imported(export).job
    records = {attempt.token: to_json(attempt) for attempt in export.attempts}
    last = records.pop(job.token, None) if job.is_final else None
    return PreparedImport(
        export=export,
        id=job.id,
        state=job.state.value,
        finished_at=micros_or_none(job.finished_at) if job.is_final else None,
        schedule_id=job.schedule_id,
        after=() if job.is_final else job.after,
        row=ended_row(job, last) if job.is_final else waiting_row(job),
        attempts=[(job.id, token, record) for token, record in records.items()],
        steps=list(map(transition_row, export.transitions)),
    )


INSERT_WAITING = f"""
    INSERT INTO jobs ({", ".join(NEW_COLUMNS)}, token, attempt, lost, released, started_at, reason,
                      cancel_reason, result, error, cursor_text, suspicion, held)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
            %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON DUPLICATE KEY UPDATE id = id
"""  # noqa: S608  no value in it


def waiting_row(job: Job) -> Row:
    """The values of `INSERT_WAITING` except `held`. The job is neither running nor blocked here."""
    return (
        *job_row(job),
        job.token,
        job.attempt,
        job.lost,
        job.released,
        micros_or_none(job.started_at),
        job.reason,
        job.cancel_reason,
        text_or_none(job.result),
        job.error,
        text_or_none(job.cursor),
        None if job.suspicion is None else to_json(job.suspicion),
    )


def ended_row(job: Job, last_attempt: str | None) -> Row:
    assert job.finished_at is not None, "an ended job has an end"
    stored = {
        "id": job.id,
        "queue": job.queue,
        "priority": job.priority,
        "lane": lane_of(job.target),
        "due_at": micros(job.due_at),
        "start_by": micros_or_none(job.start_by),
        "unique_key": job.unique,
        "schedule_id": job.schedule_id,
        "occurrence": micros_or_none(job.occurrence),
        "overlap": overlap_text(job.overlap),
        "token": job.token,
        "attempt": job.attempt,
        "lost": job.lost,
        "released": job.released,
        "started_at": micros_or_none(job.started_at),
        "reason": job.reason,
        "cancel_reason": job.cancel_reason,
        "result": text_or_none(job.result),
        "error": job.error,
        "progress": None if job.progress is None else to_json(job.progress),
        "spec": spec_of(job),
    }
    return finished_row(
        stored,
        state=job.state.value,
        finished_at=micros(job.finished_at),
        last_attempt=last_attempt,
    )


async def import_jobs(transaction: Transaction, exports: Sequence[PreparedImport]) -> int:
    """Store all jobs first, then free the dependents of ended ones, then add dependencies."""
    paused = await hold_schedules(
        transaction, {export.schedule_id for export in exports if export.schedule_id}
    )
    here = await lock_here(transaction, [export.id for export in exports])
    first = {export.id: export for export in reversed(exports)}
    further = [export for id, export in first.items() if is_further(export.export, here.get(id))]
    waiting = await import_waiting(
        transaction, [export for export in further if export.finished_at is None], here, paused
    )
    ended = [export for export in further if export.finished_at is not None]
    await import_ended(transaction, waiting, ended)
    await import_history(transaction, [*waiting, *ended], here)
    await free_dependents(transaction, ended)
    await add_dependencies(transaction, [(one.id, other) for one in waiting for other in one.after])
    return len(waiting) + len(ended)


async def lock_here(transaction: Transaction, ids: Sequence[JobId]) -> dict[JobId, JobExport]:
    if not ids:
        return {}
    live, ended = await transaction.tables(
        (
            f"""
            SELECT {LIVE_COLUMNS}
            FROM jobs FORCE INDEX (PRIMARY)
            WHERE id IN %(ids)s
            ORDER BY id
            FOR UPDATE
            """,  # noqa: S608  values are bound
            f"""
            SELECT {ENDED_COLUMNS}
            FROM finished FORCE INDEX (PRIMARY)
            WHERE id IN %(ids)s
            ORDER BY id
            FOR UPDATE
            """,  # noqa: S608  as above
        ),
        {"ids": tuple(ids)},
    )
    return {one.job.id: one for one in await exports_of(transaction, read_jobs((*live, *ended)))}


async def import_waiting(
    transaction: Transaction,
    exports: Sequence[PreparedImport],
    here: Mapping[JobId, JobExport],
    paused: Collection[ScheduleId],
) -> list[PreparedImport]:
    """Returns the imports that were stored; for others, another live job holds the unique key.

    Jobs that were live here go in first, so that they keep their unique keys.
    """
    ids = [export.id for export in exports]
    await remove_live_rows(transaction, ids)
    ordered = sorted(
        exports, key=lambda export: export.id not in here or here[export.id].job.is_final
    )
    rows = [(*export.row, export.schedule_id in paused) for export in ordered]
    if await transaction.insert(INSERT_WAITING, rows) == len(rows):
        stored = set(ids)
    else:
        stored = set(await lock_jobs(transaction, ids))
    if stored:
        transaction.hints.add(Hint.JOBS)
    return [export for export in exports if export.id in stored]


async def remove_live_rows(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Delete from `jobs` and the waits of these jobs; their dependents keep waiting."""
    if ids:
        await delete_live(transaction, ids)
        await transaction.run("DELETE FROM waits WHERE job_id IN %s", (tuple(ids),))


async def import_ended(
    transaction: Transaction,
    waiting: Sequence[PreparedImport],
    ended: Sequence[PreparedImport],
) -> None:
    """Store ended jobs; waiting ones also leave `finished`."""
    await remove_live_rows(transaction, [one.id for one in ended])
    ids = tuple(one.id for one in (*waiting, *ended))
    if ids:
        sql = "DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s"
        await transaction.run(sql, (ids,))
    await transaction.insert(INSERT_FINISHED, [one.row for one in ended])
    if ended:
        transaction.hints.add(Hint.ENDED)


async def import_history(
    transaction: Transaction, exports: Sequence[PreparedImport], here: Mapping[JobId, JobExport]
) -> None:
    """Replace the stored attempts and transitions."""
    known = tuple(export.id for export in exports if export.id in here)
    if known:
        delete = "DELETE attempts FROM attempts FORCE INDEX (PRIMARY) WHERE job_id IN %s"
        await transaction.run(delete, (known,))
        await transaction.run("DELETE FROM transitions WHERE job_id IN %s", (known,))
    await add_attempts(transaction, [row for export in exports for row in export.attempts])
    await add_transitions(transaction, [row for export in exports for row in export.steps])


async def free_dependents(transaction: Transaction, ended: Sequence[PreparedImport]) -> None:
    """Free or cancel dependents here, at the instant when the awaited job ended."""
    if not ended:
        return
    sql = "SELECT DISTINCT awaits FROM waits FORCE INDEX (PRIMARY) WHERE awaits IN %s"
    awaited = set(await transaction.column(sql, (tuple(one.id for one in ended),)))
    for one in ended:
        if one.id in awaited and one.finished_at is not None:
            await cascade(transaction, {one.id: one.state}, one.finished_at)
