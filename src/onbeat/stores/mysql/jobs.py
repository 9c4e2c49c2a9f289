"""Jobs one by one and in pages, and what a caller does to them."""

from collections.abc import Collection, Sequence

import msgspec
from asyncmy import errors
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.model.page import JobFilter, OccurrenceFilter, Page
from onbeat.ports.store import Hint
from onbeat.stores.mysql.ends import block, cancel_waiting, lock_jobs
from onbeat.stores.mysql.enqueue import hold_schedules
from onbeat.stores.mysql.faults import DUPLICATE, code_of
from onbeat.stores.mysql.history import keep_attempts, note
from onbeat.stores.mysql.overlap import ask_to_stop
from onbeat.stores.mysql.rows import (
    ENDED_COLUMNS,
    LIVE_COLUMNS,
    NEW_COLUMNS,
    job_row,
    read_job,
    read_jobs,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros_or_none

BY_ID = f"""
    SELECT {LIVE_COLUMNS} FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %(ids)s
    UNION ALL
    SELECT {ENDED_COLUMNS} FROM finished FORCE INDEX (PRIMARY) WHERE id IN %(ids)s
"""  # noqa: S608  no value in it


async def job(transaction: Transaction, id: JobId) -> Job | None:
    return (await jobs_by_id(transaction, [id])).get(id)


async def jobs_by_id(transaction: Transaction, ids: Collection[JobId]) -> dict[JobId, Job]:
    """In one statement: a job that ends meanwhile is seen in one place or the other."""
    if not ids:
        return {}
    found = read_jobs(await transaction.rows(BY_ID, {"ids": tuple(ids)}))
    return {one.id: one for one in found}


TABLES = {
    "jobs": (LIVE_COLUMNS, frozenset({JobState.WAITING, JobState.RUNNING})),
    "finished": (ENDED_COLUMNS, FINAL_STATES),
}

CONDITIONS = {
    "queue": "queue = %(queue)s",
    "task": "lane = %(task)s",
    "schedule_id": "schedule_id = %(schedule_id)s",
    "before": "id < %(before)s",
}

STATE_CONDITIONS = {
    JobState.WAITING: "running = 0",
    JobState.RUNNING: "running = 1",
    JobState.SUCCEEDED: "state = 'succeeded'",
    JobState.FAILED: "bad_state = 'failed'",
    JobState.CANCELLED: "bad_state = 'cancelled'",
}

INDEXES = {
    JobState.RUNNING: "jobs_running",
    JobState.FAILED: "finished_badly",
    JobState.CANCELLED: "finished_badly",
}


async def jobs(transaction: Transaction, filter: JobFilter) -> Page[Job]:
    """The total would be dear: it is not counted."""
    sql = " UNION ALL ".join(
        newest(table, columns, filter)
        for table, (columns, states) in TABLES.items()
        if filter.state is None or filter.state in states
    )
    values = {name: getattr(filter, name) for name in CONDITIONS}
    found = read_jobs(await transaction.rows(sql, {**values, "limit": filter.limit + 1}))
    found.sort(key=lambda one: one.id, reverse=True)
    items = tuple(found[: filter.limit])
    more = len(found) > filter.limit and items
    return Page(items=items, cursor=items[-1].id if more else None)


def newest(table: str, columns: str, filter: JobFilter) -> str:
    """By id where nothing better is known: most listings want the newest of all."""
    conditions = [text for name, text in CONDITIONS.items() if getattr(filter, name) is not None]
    if filter.state is not None:
        conditions.append(STATE_CONDITIONS[filter.state])
    if filter.schedule_id is not None:
        index = "jobs_of_schedule" if table == "jobs" else "finished_of_schedule"
    else:
        index = INDEXES.get(filter.state, "PRIMARY") if filter.state else "PRIMARY"
    if index == "jobs_running":
        conditions.append("worker IS NOT NULL")
    return f"""
        (SELECT {columns}
         FROM {table} FORCE INDEX ({index})
         WHERE {" AND ".join(conditions) or "TRUE"}
         ORDER BY id DESC
         LIMIT %(limit)s)
    """  # noqa: S608  values are bound


async def occurrence_jobs(transaction: Transaction, filter: OccurrenceFilter) -> Page[Job]:
    table, columns = ("finished", ENDED_COLUMNS) if filter.ended else ("jobs", LIVE_COLUMNS)
    sql = f"""
        SELECT {columns}
        FROM {table} FORCE INDEX ({table}_of_schedule)
        WHERE schedule_id = %s
        ORDER BY due_at DESC, id DESC
        LIMIT %s OFFSET %s
    """  # noqa: S608  values are bound
    count = f"SELECT count(*) FROM {table} WHERE schedule_id = %s"  # noqa: S608  no value in it
    items = await transaction.rows(sql, (filter.schedule_id, filter.limit, filter.offset))
    total = await transaction.value(count, (filter.schedule_id,))
    return Page(items=tuple(read_jobs(items)), total=total)


class Cancel(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    reason: str
    now: int


async def cancel(transaction: Transaction, request: Cancel) -> list[Job | None]:
    """All are locked first: none is claimed or handed back between the looks."""
    await lock_jobs(transaction, request.ids)
    await ask_to_stop(transaction, request.ids, request.reason, request.now)
    await cancel_waiting(transaction, dict.fromkeys(request.ids, request.reason), request.now)
    found = await jobs_by_id(transaction, request.ids)
    return [found.get(id) for id in request.ids]


class Retry(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    now: int


async def retry(transaction: Transaction, request: Retry) -> list[Job | None]:
    sql = f"""
        SELECT {ENDED_COLUMNS}, last_attempt
        FROM finished FORCE INDEX (PRIMARY)
        WHERE id IN %s AND state IN ('failed', 'cancelled')
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    chosen = await transaction.rows(sql, (tuple(request.ids),)) if request.ids else ()
    if chosen:
        again = [read_job(row[:-1]) for row in chosen]
        steps = [(one.id, request.now, "retried", "by hand", one.attempt, None) for one in again]
        await note(transaction, steps)
        await move_back(transaction, chosen, again, request.now)
        pairs = [(one.id, other) for one in again for other in one.after]
        live = await lock_jobs(transaction, {other for _, other in pairs})
        await block(transaction, [pair for pair in pairs if pair[1] in live])
        transaction.hints.add(Hint.JOBS)
    found = await jobs_by_id(transaction, request.ids)
    return [found.get(id) for id in request.ids]


async def move_back(
    transaction: Transaction, chosen: Sequence[Row], again: Sequence[Job], now: int
) -> None:
    """To `jobs`, as if new, but for the token, which never falls, and that they have started."""
    ids = (tuple(one.id for one in again),)
    await transaction.run("DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s", ids)
    kept = [(row[0], one.token, row[-1]) for one, row in zip(again, chosen, strict=True) if row[-1]]
    await keep_attempts(transaction, kept)
    paused = await hold_schedules(
        transaction, {one.schedule_id for one in again if one.schedule_id}
    )
    rows = [row_again(one, now, held=one.schedule_id in paused) for one in again]
    try:
        await transaction.insert(
            f"""
            INSERT INTO jobs ({NEW_COLUMNS}, token, started_at, held)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,  # noqa: S608  values are bound
            rows,
        )
    except errors.IntegrityError as error:
        if code_of(error) not in DUPLICATE:
            raise
        raise Conflict("a live job has the same unique key; cancel it or let it end") from error


def row_again(job: Job, now: int, *, held: bool) -> Row:
    fresh = replace(job, due_at=instant(now), start_by=None, expires_at=None)
    return (*job_row(fresh), job.token, micros_or_none(job.started_at), held)
