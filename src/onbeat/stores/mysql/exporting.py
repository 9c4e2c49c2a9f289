"""What leaves for another store, in the order of ids, each call on a view of its own."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from onbeat.model.attempt import Attempt
from onbeat.model.event import Transition
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Carton, Disposition, Traced
from onbeat.stores.mysql.history import ATTEMPT, transition_of
from onbeat.stores.mysql.rows import ENDED_COLUMNS, LIVE_COLUMNS, read_job
from onbeat.stores.mysql.schedules import COLUMNS, read_schedules
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros


async def export_schedules(
    transaction: Transaction, asked: tuple[ScheduleId | None, int]
) -> list[Schedule]:
    after, limit = asked
    sql = f"SELECT {COLUMNS} FROM schedules WHERE id > %s ORDER BY id LIMIT %s"  # noqa: S608
    return read_schedules(await transaction.rows(sql, (after or "", limit)))


async def export_dispositions(
    transaction: Transaction, asked: tuple[tuple[ScheduleId, datetime] | None, int]
) -> list[Traced]:
    """Runs of one schedule do not touch, so that the order of their ends is that of their starts.

    One range for each part of the condition: over both, the servers read the index from its start.
    """
    after, limit = asked
    id, first = (ScheduleId(""), 0) if after is None else (after[0], micros(after[1]))
    sql = """
        (SELECT schedule_id, last, first, job_id, reason
         FROM dispositions FORCE INDEX (PRIMARY)
         WHERE schedule_id = %(id)s AND last > %(first)s AND first > %(first)s
         ORDER BY last
         LIMIT %(limit)s)
        UNION ALL
        (SELECT schedule_id, last, first, job_id, reason
         FROM dispositions FORCE INDEX (PRIMARY)
         WHERE schedule_id > %(id)s
         ORDER BY schedule_id, last
         LIMIT %(limit)s)
        ORDER BY schedule_id, last
        LIMIT %(limit)s
    """
    rows = await transaction.rows(sql, {"id": id, "first": first, "limit": limit})
    return [
        Traced(
            schedule_id,
            Disposition(first=instant(first), last=instant(last), job_id=job_id, reason=reason),
        )
        for schedule_id, last, first, job_id, reason in rows
    ]


JOBS = f"""
    (SELECT {LIVE_COLUMNS}, NULL AS last_attempt
     FROM jobs FORCE INDEX (PRIMARY)
     WHERE id > %(after)s
     ORDER BY id
     LIMIT %(limit)s)
    UNION ALL
    (SELECT {ENDED_COLUMNS}, last_attempt
     FROM finished FORCE INDEX (PRIMARY)
     WHERE id > %(after)s
     ORDER BY id
     LIMIT %(limit)s)
    ORDER BY id
    LIMIT %(limit)s
"""  # noqa: S608  values are bound


async def export_jobs(transaction: Transaction, asked: tuple[JobId | None, int]) -> list[Carton]:
    after, limit = asked
    rows = await transaction.rows(JOBS, {"after": after or "", "limit": limit})
    return await cartons_of(transaction, rows)


async def cartons_of(transaction: Transaction, rows: Sequence[Row]) -> list[Carton]:
    """Of the rows of jobs, each with the attempt that ended it, if there is one."""
    jobs = [read_job(row[:-1]) for row in rows]
    ids = [job.id for job in jobs]
    attempts = await attempts_of(transaction, ids)
    for job, row in zip(jobs, rows, strict=True):
        if row[-1] is not None:
            attempts[job.id].append(ATTEMPT.decode(row[-1]))
    transitions = await transitions_of(transaction, ids)
    return [
        Carton(job=job, attempts=tuple(attempts[job.id]), transitions=tuple(transitions[job.id]))
        for job in jobs
    ]


async def attempts_of(
    transaction: Transaction, ids: Sequence[JobId]
) -> defaultdict[JobId, list[Attempt]]:
    """But for the one that ended a job, which is its newest."""
    found: defaultdict[JobId, list[Attempt]] = defaultdict(list)
    sql = "SELECT job_id, record FROM attempts WHERE job_id IN %s ORDER BY job_id, token"
    for id, record in await transaction.rows(sql, (tuple(ids),)) if ids else ():
        found[id].append(ATTEMPT.decode(record))
    return found


async def transitions_of(
    transaction: Transaction, ids: Sequence[JobId]
) -> defaultdict[JobId, list[Transition]]:
    found: defaultdict[JobId, list[Transition]] = defaultdict(list)
    sql = """
        SELECT job_id, at, went, cause, attempt, worker
        FROM transitions
        WHERE job_id IN %s
        ORDER BY job_id, seq
    """
    for row in await transaction.rows(sql, (tuple(ids),)) if ids else ():
        found[row[0]].append(transition_of(row))
    return found
