"""How everything leaves for another store, and comes in from one."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.ports.store import Carton, Disposition, Hint, Traced
from onbeat.stores.arriving import arrived, edited_of, is_further, newer_of
from onbeat.stores.sql.values import instant, micros, micros_or_none, text_or_none, to_json
from onbeat.stores.sqlite.ends import block, free_waiting
from onbeat.stores.sqlite.history import attempts_of, transitions_of
from onbeat.stores.sqlite.jobs import jobs_by_id
from onbeat.stores.sqlite.planning import add_dispositions
from onbeat.stores.sqlite.rows import read_schedules, spec_of
from onbeat.stores.sqlite.schedules import (
    bindings_of,
    follow,
    refuse_taken_key,
    schedules_by_id,
)
from onbeat.stores.sqlite.transaction import Row, Transaction, listed

EARLIEST = -(2**63)


def export_schedules(
    transaction: Transaction, asked: tuple[ScheduleId | None, int]
) -> Sequence[Schedule]:
    after, limit = asked
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (SELECT record FROM schedules WHERE id > ? ORDER BY id LIMIT ?)
    """
    return read_schedules(transaction.value(sql, (after or "", limit)))


def export_dispositions(
    transaction: Transaction, asked: tuple[tuple[ScheduleId, datetime] | None, int]
) -> list[Traced]:
    after, limit = asked
    id, first = ("", EARLIEST) if after is None else (after[0], micros(after[1]))
    sql = """
        SELECT json_group_array(json_array(schedule_id, first, last, job_id, reason))
        FROM (
          SELECT schedule_id, first, last, job_id, reason
          FROM dispositions
          WHERE (schedule_id, first) > (?, ?)
          ORDER BY schedule_id, first
          LIMIT ?
        )
    """
    return [
        Traced(
            id,
            Disposition(first=instant(first), last=instant(last), job_id=job_id, reason=reason),
        )
        for id, first, last, job_id, reason in transaction.values(sql, (id, first, limit))
    ]


def export_jobs(transaction: Transaction, asked: tuple[JobId | None, int]) -> list[Carton]:
    after, limit = asked
    sql = """
        SELECT json_group_array(id)
        FROM (
          SELECT * FROM (SELECT id FROM jobs WHERE id > :after ORDER BY id LIMIT :limit)
          UNION ALL
          SELECT * FROM (SELECT id FROM finished WHERE id > :after ORDER BY id LIMIT :limit)
          ORDER BY id
          LIMIT :limit
        )
    """
    return cartons_of(transaction, transaction.values(sql, {"after": after or "", "limit": limit}))


def cartons_of(transaction: Transaction, asked: Sequence[JobId]) -> list[Carton]:
    """Of those of the jobs that exist, in the order of what was asked."""
    jobs = jobs_by_id(transaction, asked)
    ids = [id for id in asked if id in jobs]
    attempts = attempts_of(transaction, ids)
    transitions = transitions_of(transaction, ids)
    return [
        Carton(
            job=jobs[id],
            attempts=tuple(attempts.get(id, ())),
            transitions=tuple(transitions.get(id, ())),
        )
        for id in ids
    ]


def restore_schedules(transaction: Transaction, schedules: Sequence[Schedule]) -> int:
    found = schedules_by_id(transaction, [one.id for one in schedules])
    here = {one.id: one for one in found}
    newer = newer_of(schedules, here)
    # Two may have changed keys with each other.
    transaction.run(
        "UPDATE schedules SET key = NULL WHERE id IN (SELECT value FROM json_each(?))",
        (listed(newer),),
    )
    for schedule in newer.values():
        refuse_taken_key(transaction, schedule)
        put_schedule(transaction, schedule)
    edited = edited_of(newer, here)
    forget_planned(transaction, [one.id for one in edited])
    for schedule in edited:
        follow(transaction, schedule)
    if newer:
        transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return len(newer)


def forget_planned(transaction: Transaction, schedules: Sequence[ScheduleId]) -> None:
    """What was planned by an older form, and never started, comes anew as far as it still holds."""
    if not schedules:
        return
    sql = """
        SELECT json_group_array(id)
        FROM jobs
        WHERE schedule_id IN (SELECT value FROM json_each(?))
          AND occurrence IS NOT NULL AND state = 'waiting' AND token = 0
          AND NOT EXISTS (SELECT 1 FROM waits WHERE awaits = jobs.id)
    """
    clear(transaction, transaction.values(sql, (listed(schedules),)))
    transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id IN (SELECT value FROM json_each(?))
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM finished WHERE id = job_id AND token > 0)
        """,
        (listed(schedules),),
    )


def put_schedule(transaction: Transaction, schedule: Schedule) -> None:
    transaction.run(
        """
        INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, spec)
        VALUES (:id, :key, :search, :status, :planned_through, :plan_at, :version, :spec)
        ON CONFLICT (id) DO UPDATE
        SET key = excluded.key, search = excluded.search, status = excluded.status,
            planned_through = excluded.planned_through, plan_at = excluded.plan_at,
            version = excluded.version, spec = excluded.spec
        """,
        bindings_of(schedule),
    )
    held = schedule.status is ScheduleStatus.PAUSED
    transaction.run(
        "UPDATE jobs SET held = ?1 WHERE schedule_id = ?2 AND held <> ?1", (held, schedule.id)
    )


def restore_dispositions(transaction: Transaction, traced: Sequence[Traced]) -> int:
    return add_dispositions(
        transaction,
        (
            (one.schedule_id, micros(told.first), micros(told.last), told.job_id, told.reason)
            for one in traced
            for told in (one.disposition,)
        ),
    )


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A carton made ready outside the transaction, to keep that short."""

    carton: Carton
    id: JobId
    is_final: bool
    unique: str | None
    after: tuple[JobId, ...]
    ended_at: int | None
    row: Row
    attempts: tuple[Row, ...]
    transitions: tuple[Row, ...]


def parcel(carton: Carton) -> Parcel:
    """The attempt that ended a job has its place in the job's own row."""
    job = arrived(carton).job
    ending = {one.token: to_json(one) for one in carton.attempts if job.is_final}.get(job.token)
    return Parcel(
        carton=carton,
        id=job.id,
        is_final=job.is_final,
        unique=job.unique,
        after=job.after,
        ended_at=micros_or_none(job.finished_at),
        row=restored_row(job, ending),
        attempts=tuple(
            (one.job_id, one.token, to_json(one))
            for one in carton.attempts
            if ending is None or one.token != job.token
        ),
        transitions=tuple((one.job_id, to_json(one)) for one in carton.transitions),
    )


def restored_row(job: Job, ending: str | None) -> Row:
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
    )


def restore_jobs(transaction: Transaction, parcels: Sequence[Parcel]) -> int:
    """First all are stored, then those that have ended free others, then those that wait wait."""
    further = find_further(transaction, parcels)
    ended = [one for one in further if one.is_final]
    clear(transaction, [one.id for one in ended])
    live = with_free_key(transaction, [one for one in further if not one.is_final])
    clear(transaction, [one.id for one in live])
    insert_ended(transaction, ended)
    insert_live(transaction, live)
    insert_histories(transaction, [*ended, *live])
    free_waiting(
        transaction,
        [one.id for one in ended],
        max((one.ended_at for one in ended if one.ended_at is not None), default=0),
    )
    block(transaction, [(one.id, other) for one in live for other in one.after])
    return len(ended) + len(live)


def find_further(transaction: Transaction, parcels: Sequence[Parcel]) -> list[Parcel]:
    """Those that are new here, or further on than the job here; of two of one job the first."""
    first: dict[JobId, Parcel] = {}
    for one in parcels:
        first.setdefault(one.id, one)
    here = {carton.job.id: carton for carton in cartons_of(transaction, list(first))}
    return [one for id, one in first.items() if is_further(one.carton, here.get(id))]


def with_free_key(transaction: Transaction, parcels: Sequence[Parcel]) -> list[Parcel]:
    sql = """
        SELECT json_group_array(json_array(unique_key, id))
        FROM jobs
        WHERE unique_key IN (SELECT value FROM json_each(?))
    """
    keys = listed(one.unique for one in parcels if one.unique is not None)
    holders: dict[str, JobId] = dict(transaction.values(sql, (keys,)))
    return [
        one
        for one in parcels
        if one.unique is None or holders.setdefault(one.unique, one.id) == one.id
    ]


def clear(transaction: Transaction, jobs: Sequence[JobId]) -> None:
    """What is here of the jobs makes room; those that wait for them still do."""
    ids = (listed(jobs),)
    for sql in (
        "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?))",
        "DELETE FROM finished WHERE id IN (SELECT value FROM json_each(?))",
        "DELETE FROM attempts WHERE job_id IN (SELECT value FROM json_each(?))",
        "DELETE FROM transitions WHERE job_id IN (SELECT value FROM json_each(?))",
        "DELETE FROM waits WHERE job_id IN (SELECT value FROM json_each(?))",
    ):
        transaction.run(sql, ids)


def insert_live(transaction: Transaction, parcels: Sequence[Parcel]) -> None:
    inserted = transaction.run_rows(
        """
        INSERT INTO jobs (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
          result, error, progress, spec, last_attempt, grp, cursor, held)
        SELECT *, column9 IS NOT NULL AND EXISTS (
                    SELECT 1 FROM schedules WHERE id = column9 AND status = 'paused')
        FROM :rows
        WHERE column1 IS NOT NULL
        """,
        [one.row for one in parcels],
    )
    if inserted:
        transaction.hints.add(Hint.JOBS)


def insert_ended(transaction: Transaction, parcels: Sequence[Parcel]) -> None:
    inserted = transaction.run_rows(
        """
        INSERT INTO finished (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
          result, error, progress, spec, last_attempt)
        SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9,
               column10, column11, column12, column13, column14, column15, column16, column17,
               column18, column19, column20, column21, column22, column23, column24
        FROM :rows
        WHERE column1 IS NOT NULL
        """,
        [one.row for one in parcels],
    )
    if inserted:
        transaction.hints.add(Hint.ENDED)


def insert_histories(transaction: Transaction, parcels: Sequence[Parcel]) -> None:
    transaction.run_rows(
        """
        INSERT OR IGNORE INTO attempts (job_id, token, record)
        SELECT * FROM :rows WHERE column1 IS NOT NULL
        """,
        [row for one in parcels for row in one.attempts],
    )
    transaction.run_rows(
        "INSERT INTO transitions (job_id, record) SELECT * FROM :rows WHERE column1 IS NOT NULL",
        [row for one in parcels for row in one.transitions],
    )
