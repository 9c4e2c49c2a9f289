"""Imports of jobs with their history from another store."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.ports.store import Hint, JobExport
from onbeat.rules.merge import is_further
from onbeat.stores.merge import export_as_imported
from onbeat.stores.sql.values import micros, micros_or_none, text_or_none, to_json
from onbeat.stores.sql.verbs.dependents import add_dependencies
from onbeat.stores.sql.verbs.history import add_attempts, add_transitions
from onbeat.stores.sql.verbs.jobs import exports_by_id
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.rows import spec_of, transition_row
from onbeat.stores.sqlite.settle import free_and_cancel
from onbeat.stores.sqlite.transaction import Row, Transaction, json_array


class PreparedImport(msgspec.Struct, frozen=True, gc=False):
    """An export prepared outside the transaction, to keep that short."""

    export: JobExport
    id: JobId
    is_final: bool
    unique: str | None
    after: tuple[JobId, ...]
    ended_at: int | None
    row: Row
    attempts: tuple[Row, ...]
    transitions: tuple[Row, ...]


def prepare_import(export: JobExport) -> PreparedImport:
    """The attempt that ended a job is stored in the row of the job."""
    job = export_as_imported(export).job
    ending = {attempt.token: to_json(attempt) for attempt in export.attempts if job.is_final}.get(
        job.token
    )
    return PreparedImport(
        export=export,
        id=job.id,
        is_final=job.is_final,
        unique=job.unique,
        after=job.after,
        ended_at=micros_or_none(job.finished_at),
        row=import_row(job, ending),
        attempts=tuple(
            (attempt.job_id, attempt.token, to_json(attempt))
            for attempt in export.attempts
            if ending is None or attempt.token != job.token
        ),
        transitions=tuple(map(transition_row, export.transitions)),
    )


def import_row(job: Job, ending: str | None) -> Row:
    return (
        job.id,
        job.state.value,
        job.queue,
        job.priority,
        lane_of(job.target),
        micros(job.due_at),
        micros_or_none(job.start_by),
        job.unique,
        job.schedule_id,
        micros_or_none(job.occurrence),
        job.overlap.value,
        job.token,
        job.attempt,
        job.lost,
        job.released,
        micros_or_none(job.started_at),
        micros_or_none(job.finished_at),
        job.reason,
        job.cancel_reason,
        text_or_none(job.result),
        job.error,
        None if job.progress is None else to_json(job.progress),
        spec_of(job),
        ending,
        job.group,
        text_or_none(job.cursor),
        None if job.suspicion is None else to_json(job.suspicion),
    )


def import_jobs(transaction: Transaction, prepared: Sequence[PreparedImport]) -> int:
    """Store all jobs first, then free the dependents of ended ones, then add dependencies."""
    further = select_newer(transaction, prepared)
    ended = [one for one in further if one.is_final]
    clear_existing(transaction, [one.id for one in ended])
    live = with_free_key(transaction, [one for one in further if not one.is_final])
    clear_existing(transaction, [one.id for one in live])
    insert_ended(transaction, ended)
    insert_live(transaction, live)
    insert_histories(transaction, [*ended, *live])
    free_and_cancel(
        transaction,
        [one.id for one in ended],
        max((one.ended_at for one in ended if one.ended_at is not None), default=0),
    )
    finish(add_dependencies(transaction, [(one.id, other) for one in live for other in one.after]))
    return len(ended) + len(live)


def select_newer(
    transaction: Transaction, prepared: Sequence[PreparedImport]
) -> list[PreparedImport]:
    """The exports that are new here or further on than the stored job; for duplicates the first."""
    first: dict[JobId, PreparedImport] = {}
    for one in prepared:
        first.setdefault(one.id, one)
    here = {export.job.id: export for export in finish(exports_by_id(transaction, list(first)))}
    return [one for id, one in first.items() if is_further(one.export, here.get(id))]


def with_free_key(
    transaction: Transaction, prepared: Sequence[PreparedImport]
) -> list[PreparedImport]:
    sql = """
        SELECT json_group_array(json_array(unique_key, id))
        FROM onbeat_jobs
        WHERE unique_key IN (SELECT value FROM json_each(?))
    """
    keys = json_array(one.unique for one in prepared if one.unique is not None)
    holders: dict[str, JobId] = dict(transaction.values(sql, (keys,)))
    return [
        one
        for one in prepared
        if one.unique is None or holders.setdefault(one.unique, one.id) == one.id
    ]


def clear_existing(transaction: Transaction, jobs: Sequence[JobId]) -> None:
    """Delete the stored rows of the jobs; their dependents keep waiting."""
    ids = (json_array(jobs),)
    for sql in (
        "DELETE FROM onbeat_jobs WHERE id IN (SELECT value FROM json_each(?))",
        "DELETE FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?))",
        "DELETE FROM onbeat_attempts WHERE job_id IN (SELECT value FROM json_each(?))",
        "DELETE FROM onbeat_transitions WHERE job_id IN (SELECT value FROM json_each(?))",
        "DELETE FROM onbeat_waits WHERE job_id IN (SELECT value FROM json_each(?))",
    ):
        transaction.run(sql, ids)


def insert_live(transaction: Transaction, prepared: Sequence[PreparedImport]) -> None:
    inserted = transaction.run_rows(
        """
        INSERT INTO onbeat_jobs (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
          result, error, progress, spec, last_attempt, grp, cursor, suspicion, held)
        SELECT *, column9 IS NOT NULL AND EXISTS (
                    SELECT 1 FROM onbeat_schedules WHERE id = column9 AND status = 'paused')
        FROM :rows
        WHERE column1 IS NOT NULL
        """,
        [one.row for one in prepared],
    )
    if inserted:
        transaction.hints.add(Hint.JOBS)


def insert_ended(transaction: Transaction, prepared: Sequence[PreparedImport]) -> None:
    inserted = transaction.run_rows(
        """
        INSERT INTO onbeat_finished (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
          result, error, progress, spec, last_attempt)
        SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9,
               column10, column11, column12, column13, column14, column15, column16, column17,
               column18, column19, column20, column21, column22, column23, column24
        FROM :rows
        WHERE column1 IS NOT NULL
        """,
        [one.row for one in prepared],
    )
    if inserted:
        transaction.hints.add(Hint.ENDED)


def insert_histories(transaction: Transaction, prepared: Sequence[PreparedImport]) -> None:
    finish(add_attempts(transaction, [row for one in prepared for row in one.attempts]))
    finish(add_transitions(transaction, [row for one in prepared for row in one.transitions]))
