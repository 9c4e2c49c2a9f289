"""Schedules, and what became of their occurrences, that come in from another store."""

from collections.abc import Sequence

from onbeat.model.errors import Conflict
from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Hint, Traced
from onbeat.stores.arriving import edited_of, newer_of
from onbeat.stores.postgres.planning import DispositionRow, add_dispositions, covered
from onbeat.stores.postgres.rows import Row, columns
from onbeat.stores.postgres.schedules import (
    COLUMNS,
    follow,
    read_schedules,
    search_text,
    spec_text,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none


async def restore_schedules(transaction: Transaction, schedules: Sequence[Schedule]) -> int:
    here = await lock_schedules(transaction, [schedule.id for schedule in schedules])
    newer = newer_of(schedules, here)
    if not newer:
        return 0
    await free_keys(transaction, list(newer.values()))
    await transaction.run(
        """
        INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, spec)
        SELECT *
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                    $7::integer[], $8::text[])
        ON CONFLICT (id) DO UPDATE
        SET key = excluded.key, search = excluded.search, status = excluded.status,
            planned_through = excluded.planned_through, plan_at = excluded.plan_at,
            version = excluded.version, spec = excluded.spec
        """,
        *columns([schedule_row(schedule) for schedule in newer.values()]),
    )
    await transaction.run(
        """
        UPDATE jobs
        SET held = (status = 'paused')
        FROM schedules
        WHERE schedules.id = ANY($1::uuid[])
          AND jobs.schedule_id = schedules.id
          AND jobs.held <> (status = 'paused')
        """,
        list(newer),
    )
    edited = edited_of(newer, here)
    await forget_planned(transaction, [schedule.id for schedule in edited])
    for schedule in edited:
        await follow(transaction, schedule)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return len(newer)


async def lock_schedules(
    transaction: Transaction, ids: Sequence[ScheduleId]
) -> dict[ScheduleId, Schedule]:
    sql = f"""
        SELECT {COLUMNS} FROM schedules WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
    """  # noqa: S608  no value in it
    return {one.id: one for one in read_schedules(await transaction.rows(sql, ids))}


async def forget_planned(transaction: Transaction, schedules: Sequence[ScheduleId]) -> None:
    """What was planned by an older form, and never started, comes anew as far as it still holds."""
    if not schedules:
        return
    sql = """
        DELETE FROM jobs
        WHERE schedule_id = ANY($1::uuid[])
          AND occurrence IS NOT NULL AND NOT running AND token = 0
          AND NOT EXISTS (SELECT 1 FROM waits WHERE awaits = jobs.id)
        RETURNING id
    """
    gone = await transaction.column(sql, schedules)
    await transaction.run("DELETE FROM waits WHERE job_id = ANY($1::uuid[])", gone)
    await transaction.run("DELETE FROM transitions WHERE job_id = ANY($1::uuid[])", gone)
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id = ANY($1::uuid[])
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM finished WHERE id = job_id AND token > 0)
        """,
        schedules,
    )


async def free_keys(transaction: Transaction, newer: Sequence[Schedule]) -> None:
    """Two of them may have changed keys with each other; another's key is refused."""
    ids = [schedule.id for schedule in newer]
    keys = [schedule.key for schedule in newer if schedule.key is not None]
    await transaction.run("UPDATE schedules SET key = NULL WHERE id = ANY($1::uuid[])", ids)
    taken = await transaction.column("SELECT key FROM schedules WHERE key = ANY($1::text[])", keys)
    twice = [key for key in keys if keys.count(key) > 1]
    for key in (*taken, *twice):
        raise Conflict(f"another schedule has the key {key!r}; update or delete that one")


def schedule_row(schedule: Schedule) -> Row:
    return (
        schedule.id,
        schedule.key,
        search_text(schedule),
        schedule.status.value,
        micros(schedule.planned_through),
        micros_or_none(schedule.plan_at),
        schedule.version,
        spec_text(schedule),
    )


async def restore_dispositions(transaction: Transaction, traced: Sequence[Traced]) -> int:
    ids = list({one.schedule_id for one in traced})
    sql = "SELECT 1 FROM schedules WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE"
    await transaction.rows(sql, ids)
    first = {(one.schedule_id, micros(one.disposition.first)): one for one in reversed(traced)}
    if not first:
        return 0
    taken = await covered(transaction, list(first))
    fresh = [one for one, is_taken in zip(first.values(), taken, strict=True) if not is_taken]
    return await add_dispositions(transaction, [disposition_row(one) for one in fresh])


def disposition_row(traced: Traced) -> DispositionRow:
    one = traced.disposition
    return (traced.schedule_id, micros(one.first), micros(one.last), one.job_id, one.reason)
