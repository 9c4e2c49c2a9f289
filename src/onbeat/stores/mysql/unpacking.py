"""Jobs that come in from another store, each in a carton with all that is kept of it."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.ports.store import Carton, Hint
from onbeat.stores.arriving import arrived, is_further
from onbeat.stores.mysql.ends import block, free_waiting, leave, lock_jobs
from onbeat.stores.mysql.enqueue import hold_schedules
from onbeat.stores.mysql.exporting import cartons_of
from onbeat.stores.mysql.history import keep_attempts, note
from onbeat.stores.mysql.rows import (
    ENDED_COLUMNS,
    INSERT_FINISHED,
    LIVE_COLUMNS,
    NEW_COLUMNS,
    finished_row,
    job_row,
    spec_of,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import micros, micros_or_none, overlap_text, text_or_none, to_json


class Unpacked(msgspec.Struct, frozen=True, gc=False):
    """A carton made ready outside the transaction, to keep that short.

    `row` is the job's own: for `finished` where `finished_at` is told, else for `jobs`.
    """

    carton: Carton
    id: JobId
    state: str
    finished_at: int | None
    schedule_id: ScheduleId | None
    after: tuple[JobId, ...]
    row: Row
    attempts: list[Row]
    steps: list[Row]


def unpacked(carton: Carton) -> Unpacked:
    job = arrived(carton).job
    records = {attempt.token: to_json(attempt) for attempt in carton.attempts}
    last = records.pop(job.token, None) if job.is_final else None
    return Unpacked(
        carton=carton,
        id=job.id,
        state=job.state.value,
        finished_at=micros_or_none(job.finished_at) if job.is_final else None,
        schedule_id=job.schedule_id,
        after=() if job.is_final else job.after,
        row=ended_row(job, last) if job.is_final else waiting_row(job),
        attempts=[(job.id, token, record) for token, record in records.items()],
        steps=[
            (job.id, micros(one.at), one.to, one.cause, one.attempt, one.worker)
            for one in carton.transitions
        ],
    )


INSERT_WAITING = f"""
    INSERT INTO jobs ({NEW_COLUMNS}, token, attempt, lost, released, started_at, reason,
                      cancel_reason, result, error, cursor_text, held)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
            %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON DUPLICATE KEY UPDATE id = id
"""  # noqa: S608  no value in it


def waiting_row(job: Job) -> Row:
    """What `INSERT_WAITING` takes but for `held`. Nobody runs it here, and nothing blocks it."""
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


async def restore_jobs(transaction: Transaction, cartons: Sequence[Unpacked]) -> int:
    """All are stored before those that ended free others, and before those that wait wait."""
    paused = await hold_schedules(
        transaction, {one.schedule_id for one in cartons if one.schedule_id}
    )
    here = await lock_here(transaction, [one.id for one in cartons])
    first = {one.id: one for one in reversed(cartons)}
    further = [one for id, one in first.items() if is_further(one.carton, here.get(id))]
    waiting = await put_waiting(
        transaction, [one for one in further if one.finished_at is None], here, paused
    )
    ended = [one for one in further if one.finished_at is not None]
    await put_ended(transaction, waiting, ended)
    await put_history(transaction, [*waiting, *ended], here)
    await free_others(transaction, ended)
    await wait_for_others(transaction, waiting)
    return len(waiting) + len(ended)


async def lock_here(transaction: Transaction, ids: Sequence[JobId]) -> dict[JobId, Carton]:
    if not ids:
        return {}
    live, ended = await transaction.tables(
        (
            f"""
            SELECT {LIVE_COLUMNS}, NULL
            FROM jobs FORCE INDEX (PRIMARY)
            WHERE id IN %(ids)s
            ORDER BY id
            FOR UPDATE
            """,  # noqa: S608  values are bound
            f"""
            SELECT {ENDED_COLUMNS}, last_attempt
            FROM finished FORCE INDEX (PRIMARY)
            WHERE id IN %(ids)s
            ORDER BY id
            FOR UPDATE
            """,  # noqa: S608  as above
        ),
        {"ids": tuple(ids)},
    )
    return {one.job.id: one for one in await cartons_of(transaction, (*live, *ended))}


async def put_waiting(
    transaction: Transaction,
    cartons: Sequence[Unpacked],
    here: Mapping[JobId, Carton],
    paused: Collection[ScheduleId],
) -> list[Unpacked]:
    """Answers with those that are stored: of others, another live job holds the unique key.

    What was live here has its key still, so that it goes in first.
    """
    ids = [one.id for one in cartons]
    await take_out(transaction, ids)
    ordered = sorted(cartons, key=lambda one: one.id not in here or here[one.id].job.is_final)
    rows = [(*one.row, one.schedule_id in paused) for one in ordered]
    if await transaction.insert(INSERT_WAITING, rows) == len(rows):
        stored = set(ids)
    else:
        stored = await lock_jobs(transaction, ids)
    if stored:
        transaction.hints.add(Hint.JOBS)
    return [one for one in cartons if one.id in stored]


async def take_out(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Of `jobs`, with what they wait for; who waits for them still does."""
    if ids:
        await leave(transaction, ids)
        await transaction.run("DELETE FROM waits WHERE job_id IN %s", (tuple(ids),))


async def put_ended(
    transaction: Transaction,
    waiting: Sequence[Unpacked],
    ended: Sequence[Unpacked],
) -> None:
    """Also those that wait now are ended no more."""
    await take_out(transaction, [one.id for one in ended])
    ids = tuple(one.id for one in (*waiting, *ended))
    if ids:
        sql = "DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s"
        await transaction.run(sql, (ids,))
    await transaction.insert(INSERT_FINISHED, [one.row for one in ended])
    if ended:
        transaction.hints.add(Hint.ENDED)


async def put_history(
    transaction: Transaction, cartons: Sequence[Unpacked], here: Mapping[JobId, Carton]
) -> None:
    """In the place of what was kept here."""
    known = tuple(one.id for one in cartons if one.id in here)
    if known:
        delete = "DELETE attempts FROM attempts FORCE INDEX (PRIMARY) WHERE job_id IN %s"
        await transaction.run(delete, (known,))
        await transaction.run("DELETE FROM transitions WHERE job_id IN %s", (known,))
    await keep_attempts(transaction, [row for one in cartons for row in one.attempts])
    await note(transaction, [row for one in cartons for row in one.steps])


async def free_others(transaction: Transaction, ended: Sequence[Unpacked]) -> None:
    """Each at the instant of its end; of most jobs nobody waits for the end."""
    if not ended:
        return
    sql = "SELECT DISTINCT awaits FROM waits FORCE INDEX (PRIMARY) WHERE awaits IN %s"
    awaited = set(await transaction.column(sql, (tuple(one.id for one in ended),)))
    for one in ended:
        if one.id in awaited and one.finished_at is not None:
            await free_waiting(transaction, {one.id: one.state}, one.finished_at)


async def wait_for_others(transaction: Transaction, waiting: Sequence[Unpacked]) -> None:
    pairs = [(one.id, other) for one in waiting for other in one.after]
    live = await lock_jobs(transaction, {other for _, other in pairs})
    await block(transaction, [pair for pair in pairs if pair[1] in live])
