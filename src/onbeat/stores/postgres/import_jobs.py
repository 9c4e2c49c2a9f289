"""Imports of jobs with their history from another store."""

from collections.abc import Mapping, Sequence

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.ports.store import Hint, JobExport
from onbeat.rules.merge import is_further
from onbeat.stores.merge import export_as_imported
from onbeat.stores.postgres.rows import (
    ENDED_COLUMNS,
    LIVE_COLUMNS,
    Row,
    columns,
    read_jobs,
    spec_of,
)
from onbeat.stores.postgres.settle import is_implied_by
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.forms import transition_row
from onbeat.stores.sql.values import micros, micros_or_none, overlap_text, to_json
from onbeat.stores.sql.verbs.dependents import add_dependencies, cascade
from onbeat.stores.sql.verbs.history import add_attempts, add_transitions, exports_of
from onbeat.stores.sql.verbs.schedules import hold_schedules


async def import_jobs(transaction: Transaction, exports: Sequence[JobExport]) -> int:
    """Store all jobs first, then free the dependents of ended ones, then add dependencies."""
    if not exports:
        return 0
    first = {export.job.id: export for export in reversed(exports)}
    coming = [first[id] for id in sorted(first)]
    schedules = {one.job.schedule_id for one in coming if one.job.schedule_id is not None}
    await hold_schedules(transaction, schedules)
    here = await find_existing_exports(transaction, list(first))
    further = [export_as_imported(one) for one in coming if is_further(one, here.get(one.job.id))]
    stored = await import_each(transaction, further, here)
    await import_histories(transaction, stored)
    await free_dependents(transaction, [one.job for one in stored if one.job.is_final])
    waiting = [one.job for one in stored if not one.job.is_final]
    await add_dependencies(transaction, [(one.id, other) for one in waiting for other in one.after])
    if stored:
        transaction.hints.add(Hint.JOBS)
    return len(stored)


async def find_existing_exports(
    transaction: Transaction, ids: Sequence[JobId]
) -> dict[JobId, JobExport]:
    """Locked until the commit; a job that ends before that is found among the ended ones."""
    live = f"""
        SELECT {LIVE_COLUMNS} FROM jobs WHERE id = ANY($1::uuid[]) ORDER BY jobs.id FOR UPDATE
    """  # noqa: S608  no value in it
    ended = f"""
        SELECT {ENDED_COLUMNS}
        FROM finished WHERE id = ANY($1::uuid[]) ORDER BY finished.id FOR UPDATE
    """  # noqa: S608  as above
    jobs = read_jobs([*await transaction.rows(live, ids), *await transaction.rows(ended, ids)])
    return {export.job.id: export for export in await exports_of(transaction, jobs)}


async def import_each(
    transaction: Transaction, exports: Sequence[JobExport], here: Mapping[JobId, JobExport]
) -> list[JobExport]:
    """Replace the stored jobs; returns the imports that were stored.

    Live jobs whose unique key another live job holds are not stored; ended rows of theirs here
    stay.
    """
    ids = [export.job.id for export in exports]
    live_here = [id for id in ids if id in here and not here[id].job.is_final]
    ended_here = {id for id in ids if id in here and here[id].job.is_final}
    await transaction.run("DELETE FROM jobs WHERE id = ANY($1::uuid[])", live_here)
    await transaction.run("DELETE FROM waits WHERE job_id = ANY($1::uuid[])", live_here)
    stored = await import_live(
        transaction, [export.job for export in exports if not export.job.is_final]
    )
    gone = [id for id in ended_here if id in stored]
    ended = [export for export in exports if export.job.is_final]
    gone += [export.job.id for export in ended if export.job.id in ended_here]
    await transaction.run("DELETE FROM finished WHERE id = ANY($1::uuid[])", gone)
    await import_ended(transaction, ended)
    return [export for export in exports if export.job.is_final or export.job.id in stored]


COMMON = {
    "id": "uuid",
    "queue": "text",
    "priority": "smallint",
    "lane": "text",
    "created_at": "bigint",
    "due_at": "bigint",
    "start_by": "bigint",
    "unique_key": "text",
    "schedule_id": "uuid",
    "occurrence": "bigint",
    "overlap": "text",
    "token": "integer",
    "attempt": "integer",
    "lost": "smallint",
    "released": "smallint",
    "reason": "text",
    "cancel_reason": "text",
    "started_at": "bigint",
    "result": "text",
    "error": "text",
    "progress": "text",
    "spec": "text",
}
LIVE = COMMON | {"cursor": "text", "grp": "text", "suspicion": "text"}
ENDED = COMMON | {
    "state": "text",
    "finished_at": "bigint",
    "last_worker": "text",
    "last_attempt": "text",
}
"""The columns of an ended job, and their types."""


def common_row(job: Job) -> Row:
    return (
        job.id,
        job.queue,
        job.priority,
        lane_of(job.target),
        micros(job.created_at),
        micros(job.due_at),
        micros_or_none(job.start_by),
        job.unique,
        job.schedule_id,
        micros_or_none(job.occurrence),
        overlap_text(job.overlap),
        job.token,
        job.attempt,
        job.lost,
        job.released,
        job.reason,
        job.cancel_reason,
        micros_or_none(job.started_at),
        None if job.result is None else bytes(job.result).decode(),
        job.error,
        None if job.progress is None else to_json(job.progress),
        spec_of(job),
    )


def unnest_clause(names: Mapping[str, str]) -> str:
    arrays = ", ".join(f"${dsn}::{kind}[]" for dsn, kind in enumerate(names.values(), 1))
    return f"unnest({arrays}) AS new ({', '.join(names)})"


PUT_LIVE = f"""
    INSERT INTO jobs ({", ".join(LIVE)}, held, awaited)
    SELECT new.*,
           new.schedule_id IS NOT NULL AND EXISTS (
             SELECT 1 FROM schedules WHERE schedules.id = new.schedule_id AND status = 'paused'),
           (SELECT 1 FROM waits WHERE waits.awaits = new.id LIMIT 1) IS NOT NULL
    FROM {unnest_clause(LIVE)}
    ON CONFLICT DO NOTHING
    RETURNING jobs.id
"""  # noqa: S608  no value in it
PUT_ENDED = f"""
    INSERT INTO finished ({", ".join(ENDED)})
    SELECT * FROM {unnest_clause(ENDED)}
"""  # noqa: S608  as above


async def import_live(transaction: Transaction, jobs: Sequence[Job]) -> set[JobId]:
    if not jobs:
        return set()
    rows = [
        (*common_row(job), cursor_text(job), job.group or None, suspicion_text(job)) for job in jobs
    ]
    found_rows = await transaction.column(PUT_LIVE, *columns(rows))
    return {JobId(str(id)) for id in found_rows}


def cursor_text(job: Job) -> str | None:
    return None if job.cursor is None else bytes(job.cursor).decode()


def suspicion_text(job: Job) -> str | None:
    return None if job.suspicion is None else to_json(job.suspicion)


async def import_ended(transaction: Transaction, exports: Sequence[JobExport]) -> None:
    if exports:
        await transaction.run(PUT_ENDED, *columns([ended_row(export) for export in exports]))


def ended_row(export: JobExport) -> Row:
    job, last = export.job, last_attempt(export)
    answer = last is not None and is_implied_by(job, last)
    return (
        *common_row(job),
        job.state.value,
        micros_or_none(job.finished_at),
        last.worker if last is not None and answer else None,
        to_json(last) if last is not None and not answer else None,
    )


def last_attempt(export: JobExport) -> Attempt | None:
    """The attempt that is stored in the row of an ended job."""
    last = export.attempts[-1] if export.attempts else None
    return last if last is not None and last.token == export.job.token else None


async def import_histories(transaction: Transaction, exports: Sequence[JobExport]) -> None:
    """Replace the stored attempts and transitions."""
    ids = [export.job.id for export in exports]
    await transaction.run("DELETE FROM attempts WHERE job_id = ANY($1::uuid[])", ids)
    await transaction.run("DELETE FROM transitions WHERE job_id = ANY($1::uuid[])", ids)
    attempts = [
        (attempt.job_id, attempt.token, to_json(attempt))
        for export in exports
        for attempt in export.attempts
        if not (export.job.is_final and attempt is last_attempt(export))
    ]
    await add_attempts(transaction, attempts)
    steps = [transition_row(step) for export in exports for step in export.transitions]
    await add_transitions(transaction, steps)


async def free_dependents(transaction: Transaction, ended: Sequence[Job]) -> None:
    """Free or cancel dependents here, at the instant when the awaited job ended."""
    sql = "SELECT DISTINCT awaits FROM waits WHERE awaits = ANY($1::uuid[])"
    awaited = {str(id) for id in await transaction.column(sql, [job.id for job in ended])}
    for job in ended:
        if job.id in awaited and job.finished_at is not None:
            await cascade(transaction, {job.id: job.state}, micros(job.finished_at))
