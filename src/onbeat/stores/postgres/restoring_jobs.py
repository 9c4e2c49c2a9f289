"""Jobs that come in from another store, with all that is kept of them."""

from collections.abc import Mapping, Sequence

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.ports.store import Carton, Hint
from onbeat.stores.arriving import arrived, is_further
from onbeat.stores.postgres.ends import block, free_waiting, keep_alive
from onbeat.stores.postgres.enqueue import hold_schedules
from onbeat.stores.postgres.exporting import cartons_of
from onbeat.stores.postgres.rows import (
    ENDED_COLUMNS,
    LIVE_COLUMNS,
    Row,
    columns,
    read_jobs,
    spec_of,
)
from onbeat.stores.postgres.settle import is_told_by
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none, overlap_text, to_json


async def restore_jobs(transaction: Transaction, cartons: Sequence[Carton]) -> int:
    """First all are stored, then those that have ended free others, then those that wait wait."""
    if not cartons:
        return 0
    first = {carton.job.id: carton for carton in reversed(cartons)}
    coming = [first[id] for id in sorted(first)]
    schedules = {one.job.schedule_id for one in coming if one.job.schedule_id is not None}
    await hold_schedules(transaction, schedules)
    here = await find_here(transaction, list(first))
    further = [arrived(one) for one in coming if is_further(one, here.get(one.job.id))]
    stored = await put(transaction, further, here)
    await put_histories(transaction, stored)
    await free_others(transaction, [one.job for one in stored if one.job.is_final])
    await wait_for_others(transaction, [one.job for one in stored if not one.job.is_final])
    if stored:
        transaction.hints.add(Hint.JOBS)
    return len(stored)


async def find_here(transaction: Transaction, ids: Sequence[JobId]) -> dict[JobId, Carton]:
    """Locked until the commit; one that ends before it is locked is found where it then is."""
    live = f"""
        SELECT {LIVE_COLUMNS} FROM jobs WHERE id = ANY($1::uuid[]) ORDER BY jobs.id FOR UPDATE
    """  # noqa: S608  no value in it
    ended = f"""
        SELECT {ENDED_COLUMNS}
        FROM finished WHERE id = ANY($1::uuid[]) ORDER BY finished.id FOR UPDATE
    """  # noqa: S608  as above
    jobs = read_jobs([*await transaction.rows(live, ids), *await transaction.rows(ended, ids)])
    return {carton.job.id: carton for carton in await cartons_of(transaction, jobs)}


async def put(
    transaction: Transaction, cartons: Sequence[Carton], here: Mapping[JobId, Carton]
) -> list[Carton]:
    """In the place of what is here; answers with those that are stored.

    Not stored are live jobs whose unique key another live job holds: what is here of these stays.
    """
    ids = [carton.job.id for carton in cartons]
    live_here = [id for id in ids if id in here and not here[id].job.is_final]
    ended_here = {id for id in ids if id in here and here[id].job.is_final}
    await transaction.run("DELETE FROM jobs WHERE id = ANY($1::uuid[])", live_here)
    await transaction.run("DELETE FROM waits WHERE job_id = ANY($1::uuid[])", live_here)
    stored = await put_live(transaction, [one.job for one in cartons if not one.job.is_final])
    gone = [id for id in ended_here if id in stored]
    ended = [carton for carton in cartons if carton.job.is_final]
    gone += [carton.job.id for carton in ended if carton.job.id in ended_here]
    await transaction.run("DELETE FROM finished WHERE id = ANY($1::uuid[])", gone)
    await put_ended(transaction, ended)
    return [carton for carton in cartons if carton.job.is_final or carton.job.id in stored]


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
LIVE = COMMON | {"cursor": "text", "grp": "text"}
ENDED = COMMON | {
    "state": "text",
    "finished_at": "bigint",
    "last_worker": "text",
    "last_attempt": "text",
}
"""The columns of a job, and their types."""


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


def unnested(names: Mapping[str, str]) -> str:
    arrays = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(names.values(), 1))
    return f"unnest({arrays}) AS new ({', '.join(names)})"


PUT_LIVE = f"""
    INSERT INTO jobs ({", ".join(LIVE)}, held, awaited)
    SELECT new.*,
           new.schedule_id IS NOT NULL AND EXISTS (
             SELECT 1 FROM schedules WHERE schedules.id = new.schedule_id AND status = 'paused'),
           (SELECT 1 FROM waits WHERE waits.awaits = new.id LIMIT 1) IS NOT NULL
    FROM {unnested(LIVE)}
    ON CONFLICT DO NOTHING
    RETURNING jobs.id
"""  # noqa: S608  no value in it
PUT_ENDED = f"""
    INSERT INTO finished ({", ".join(ENDED)})
    SELECT * FROM {unnested(ENDED)}
"""  # noqa: S608  as above


async def put_live(transaction: Transaction, jobs: Sequence[Job]) -> set[JobId]:
    if not jobs:
        return set()
    rows = [(*common_row(job), cursor_text(job), job.group or None) for job in jobs]
    found = await transaction.column(PUT_LIVE, *columns(rows))
    return {JobId(str(id)) for id in found}


def cursor_text(job: Job) -> str | None:
    return None if job.cursor is None else bytes(job.cursor).decode()


async def put_ended(transaction: Transaction, cartons: Sequence[Carton]) -> None:
    if cartons:
        await transaction.run(PUT_ENDED, *columns([ended_row(carton) for carton in cartons]))


def ended_row(carton: Carton) -> Row:
    job, last = carton.job, last_attempt(carton)
    told = last is not None and is_told_by(job, last)
    return (
        *common_row(job),
        job.state.value,
        micros_or_none(job.finished_at),
        last.worker if last is not None and told else None,
        to_json(last) if last is not None and not told else None,
    )


def last_attempt(carton: Carton) -> Attempt | None:
    """The attempt that an ended job's row keeps."""
    last = carton.attempts[-1] if carton.attempts else None
    return last if last is not None and last.token == carton.job.token else None


async def put_histories(transaction: Transaction, cartons: Sequence[Carton]) -> None:
    """In the place of those that are here."""
    ids = [carton.job.id for carton in cartons]
    await transaction.run("DELETE FROM attempts WHERE job_id = ANY($1::uuid[])", ids)
    await transaction.run("DELETE FROM transitions WHERE job_id = ANY($1::uuid[])", ids)
    attempts = [
        (attempt.job_id, attempt.token, to_json(attempt))
        for carton in cartons
        for attempt in carton.attempts
        if not (carton.job.is_final and attempt is last_attempt(carton))
    ]
    if attempts:
        await transaction.run(
            """
            INSERT INTO attempts (job_id, token, record)
            SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[])
            """,
            *columns(attempts),
        )
    transitions = [
        (one.job_id, micros(one.at), one.to, one.cause, one.attempt, one.worker)
        for carton in cartons
        for one in carton.transitions
    ]
    if transitions:
        await transaction.run(
            """
            INSERT INTO transitions (job_id, at, went, cause, attempt, worker)
            SELECT job_id, at, went, cause, attempt, worker
            FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::integer[],
                        $6::text[]) WITH ORDINALITY
                 AS new (job_id, at, went, cause, attempt, worker, place)
            ORDER BY place
            """,
            *columns(transitions),
        )


async def free_others(transaction: Transaction, ended: Sequence[Job]) -> None:
    """What waits here for these goes on, or ends with them at the same instant."""
    sql = "SELECT DISTINCT awaits FROM waits WHERE awaits = ANY($1::uuid[])"
    awaited = {str(id) for id in await transaction.column(sql, [job.id for job in ended])}
    for job in ended:
        if job.id in awaited and job.finished_at is not None:
            await free_waiting(transaction, [job.id], micros(job.finished_at))


async def wait_for_others(transaction: Transaction, waiting: Sequence[Job]) -> None:
    pairs = [(job.id, other) for job in waiting for other in job.after]
    live = await keep_alive(transaction, {other for _, other in pairs})
    await block(transaction, [pair for pair in pairs if pair[1] in live])
