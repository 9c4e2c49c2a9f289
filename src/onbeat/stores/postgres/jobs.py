"""Jobs one by one and in pages, and what a caller does to them."""

from collections.abc import Iterable, Sequence

import asyncpg
import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter, OccurrenceFilter, Page
from onbeat.ports.store import Hint
from onbeat.stores.postgres.ends import block, cancel_waiting, keep_alive
from onbeat.stores.postgres.enqueue import hold_schedules
from onbeat.stores.postgres.history import attempts_of, note
from onbeat.stores.postgres.overlap import ask_to_stop
from onbeat.stores.postgres.rows import (
    ENDED_COLUMNS,
    LIVE_COLUMNS,
    read_jobs,
    spec_of,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import to_json


async def job(transaction: Transaction, id: JobId) -> Job | None:
    return (await jobs_by_id(transaction, [id])).get(id)


BY_ID = f"""
    SELECT {LIVE_COLUMNS} FROM jobs WHERE id = ANY($1::uuid[])
    UNION ALL
    SELECT {ENDED_COLUMNS} FROM finished WHERE id = ANY($1::uuid[])
"""  # noqa: S608  no value in it


async def jobs_by_id(transaction: Transaction, ids: Iterable[JobId]) -> dict[JobId, Job]:
    """In one statement: a job that ends meanwhile is seen in one place or the other."""
    found = read_jobs(await transaction.rows(BY_ID, list(ids)))
    return {one.id: one for one in found}


async def jobs(transaction: Transaction, filter: JobFilter) -> Page[Job]:
    """The total would be dear: it is not counted."""
    live, ended, values = conditions(filter)
    sql = f"""
        (SELECT {LIVE_COLUMNS} FROM jobs WHERE {live} ORDER BY jobs.id DESC LIMIT $1)
        UNION ALL
        (SELECT {ENDED_COLUMNS} FROM finished WHERE {ended} ORDER BY finished.id DESC LIMIT $1)
    """  # noqa: S608  values are bound
    found = read_jobs(await transaction.rows(sql, filter.limit + 1, *values))
    found.sort(key=lambda one: one.id, reverse=True)
    items = tuple(found[: filter.limit])
    more = len(found) > filter.limit and items
    return Page(items=items, cursor=items[-1].id if more else None)


def conditions(filter: JobFilter) -> tuple[str, str, list[object]]:
    """For the two tables, and the values bound from $2 on."""
    asked: list[tuple[str, object]] = [
        ("id < {}", filter.before),
        ("queue = {}", filter.queue),
        ("lane = {}", filter.task),
        ("schedule_id = {}", filter.schedule_id),
    ]
    used = [(text, value) for text, value in asked if value is not None]
    both = [text.format(f"${place}") for place, (text, _) in enumerate(used, 2)]
    live, ended = [*both, "TRUE"], [*both, "TRUE"]
    values = [value for _, value in used]
    match filter.state:
        case None:
            pass
        case JobState.WAITING | JobState.RUNNING as state:
            live.append("running" if state is JobState.RUNNING else "NOT running")
            ended.append("FALSE")
        case state:
            live.append("FALSE")
            ended.append(f"state = '{state.value}'")
    return " AND ".join(live), " AND ".join(ended), values


async def occurrence_jobs(transaction: Transaction, filter: OccurrenceFilter) -> Page[Job]:
    table, names = ("finished", ENDED_COLUMNS) if filter.ended else ("jobs", LIVE_COLUMNS)
    sql = f"""
        SELECT {names}
        FROM {table}
        WHERE schedule_id = $1
        ORDER BY due_at DESC, {table}.id DESC
        LIMIT $2 OFFSET $3
    """  # noqa: S608  values are bound
    count = f"SELECT count(*) FROM {table} WHERE schedule_id = $1"  # noqa: S608  no value in it
    items = await transaction.rows(sql, filter.schedule_id, filter.limit, filter.offset)
    total = await transaction.value(count, filter.schedule_id)
    return Page(items=tuple(read_jobs(items)), total=total)


class Cancel(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    reason: str
    now: int


async def cancel(transaction: Transaction, request: Cancel) -> list[Job | None]:
    """Running ones first: a job that is handed back meanwhile is then met as a waiting one."""
    await ask_to_stop(transaction, request.ids, request.reason, request.now)
    await cancel_waiting(transaction, dict.fromkeys(request.ids, request.reason), request.now)
    # One that was claimed between the two.
    await ask_to_stop(transaction, request.ids, request.reason, request.now)
    found = await jobs_by_id(transaction, request.ids)
    return [found.get(id) for id in request.ids]


class Retry(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    now: int


async def retry(transaction: Transaction, request: Retry) -> list[Job | None]:
    sql = f"""
        SELECT {ENDED_COLUMNS}
        FROM finished
        WHERE id = ANY($1::uuid[])
          AND state IN ('failed', 'cancelled')
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  no value in it
    chosen = read_jobs(await transaction.rows(sql, list(request.ids)))
    if chosen:
        await hold_schedules(transaction, {one.schedule_id for one in chosen if one.schedule_id})
        by_hand = {one.id: "by hand" for one in chosen}
        await note(transaction, by_hand, request.now, "retried")
        await move_back(transaction, chosen, request.now)
        pairs = [(one.id, other) for one in chosen for other in one.after]
        live = await keep_alive(transaction, {other for _, other in pairs})
        await block(transaction, [pair for pair in pairs if pair[1] in live])
        transaction.hints.add(Hint.JOBS)
    found = await jobs_by_id(transaction, request.ids)
    return [found.get(id) for id in request.ids]


async def move_back(transaction: Transaction, chosen: Sequence[Job], now: int) -> None:
    """To `jobs`, as if new, but for the token, which never falls, and that they have started."""
    kept = await attempts_of(transaction, [one.id for one in chosen])
    last = [attempts[-1] for attempts in kept.values()]
    await transaction.run(
        """
        INSERT INTO attempts (job_id, token, record)
        SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[])
        ON CONFLICT DO NOTHING
        """,
        [one.job_id for one in last],
        [one.token for one in last],
        [to_json(one) for one in last],
    )
    try:
        await transaction.run(
            """
            WITH back AS (
              DELETE FROM finished
              USING unnest($1::uuid[], $2::text[], $4::text[]) AS again (id, spec, grp)
              WHERE finished.id = again.id
              RETURNING finished.id, queue, priority, lane, unique_key, schedule_id, occurrence,
                        overlap, token, started_at, again.grp, again.spec, created_at
            )
            INSERT INTO jobs (id, queue, priority, lane, due_at, unique_key, schedule_id,
                              occurrence, overlap, token, started_at, grp, spec, created_at,
                              held)
            SELECT id, queue, priority, lane, $3, unique_key, schedule_id,
                   occurrence, overlap, token, started_at, grp, spec, created_at,
                   EXISTS (SELECT 1 FROM schedules
                           WHERE schedules.id = schedule_id AND status = 'paused')
            FROM back
            """,
            [one.id for one in chosen],
            [spec_of(replace(one, expires_at=None)) for one in chosen],
            now,
            [one.group or None for one in chosen],
        )
    except asyncpg.UniqueViolationError as error:
        raise Conflict("a live job has the same unique key; cancel it or let it end") from error
