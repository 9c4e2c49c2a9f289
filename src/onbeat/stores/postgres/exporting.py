"""Everything in order of ids, on its way into another store."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Carton, Traced
from onbeat.stores.postgres.history import attempts_of, transitions_of
from onbeat.stores.postgres.planning import read_disposition
from onbeat.stores.postgres.rows import ENDED_COLUMNS, LIVE_COLUMNS, read_jobs
from onbeat.stores.postgres.schedules import COLUMNS, read_schedules
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros

FIRST_ID = "00000000-0000-0000-0000-000000000000"  # below every id


class JobsAfter(msgspec.Struct, frozen=True):
    after: JobId | None
    limit: int


async def export_jobs(transaction: Transaction, asked: JobsAfter) -> list[Carton]:
    """In one snapshot: a job that ends meanwhile is told as it was, with its attempts so far."""
    await transaction.db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    sql = f"""
        (SELECT {LIVE_COLUMNS} FROM jobs WHERE id > $1 ORDER BY jobs.id LIMIT $2)
        UNION ALL
        (SELECT {ENDED_COLUMNS} FROM finished WHERE id > $1 ORDER BY finished.id LIMIT $2)
    """  # noqa: S608  no value in it
    found = read_jobs(await transaction.rows(sql, asked.after or FIRST_ID, asked.limit))
    return await cartons_of(transaction, sorted(found, key=attrgetter("id"))[: asked.limit])


async def cartons_of(transaction: Transaction, jobs: Sequence[Job]) -> list[Carton]:
    ids = [job.id for job in jobs]
    attempts = await attempts_of(transaction, ids)
    transitions = await transitions_of(transaction, ids)
    return [
        Carton(
            job=job,
            attempts=tuple(attempts.get(job.id, ())),
            transitions=tuple(transitions.get(job.id, ())),
        )
        for job in jobs
    ]


class SchedulesAfter(msgspec.Struct, frozen=True):
    after: ScheduleId | None
    limit: int


async def export_schedules(transaction: Transaction, asked: SchedulesAfter) -> list[Schedule]:
    sql = f"SELECT {COLUMNS} FROM schedules WHERE id > $1 ORDER BY id LIMIT $2"  # noqa: S608  no value in it
    return read_schedules(await transaction.rows(sql, asked.after or FIRST_ID, asked.limit))


class DispositionsAfter(msgspec.Struct, frozen=True):
    after: tuple[ScheduleId, datetime] | None
    limit: int


async def export_dispositions(transaction: Transaction, asked: DispositionsAfter) -> list[Traced]:
    sql = """
        SELECT schedule_id, first, last, job_id, reason
        FROM dispositions
        WHERE (schedule_id, first) > ($1, $2)
        ORDER BY schedule_id, first
        LIMIT $3
    """
    id, first = (FIRST_ID, 0) if asked.after is None else (asked.after[0], micros(asked.after[1]))
    return [
        Traced(ScheduleId(str(row[0])), read_disposition(row[1:]))
        for row in await transaction.rows(sql, id, first, asked.limit)
    ]
