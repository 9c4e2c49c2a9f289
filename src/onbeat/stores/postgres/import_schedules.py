"""Imports of schedules from another store."""

from collections import Counter
from collections.abc import Sequence

from onbeat.model.errors import Conflict
from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Hint
from onbeat.rules.merge import edited_since, newer_schedules
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.verbs.edit_schedules import follow
from onbeat.stores.sql.verbs.schedules import lock_schedules, put_schedules


async def import_schedules(transaction: Transaction, schedules: Sequence[Schedule]) -> int:
    here = await lock_schedules(transaction, [schedule.id for schedule in schedules])
    newer = newer_schedules(schedules, here)
    if not newer:
        return 0
    await free_keys(transaction, list(newer.values()))
    await put_schedules(transaction, newer.values())
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
    edited = edited_since(newer, here)
    await forget_planned(transaction, [schedule.id for schedule in edited])
    for schedule in edited:
        await follow(transaction, schedule)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return len(newer)


async def forget_planned(transaction: Transaction, schedules: Sequence[ScheduleId]) -> None:
    """Delete jobs that an older version planned and that never started; they are planned again."""
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
    """Two of them may have swapped their keys; the key of another schedule is refused."""
    ids = [schedule.id for schedule in newer]
    keys = [schedule.key for schedule in newer if schedule.key is not None]
    await transaction.run("UPDATE schedules SET key = NULL WHERE id = ANY($1::uuid[])", ids)
    taken = await transaction.column("SELECT key FROM schedules WHERE key = ANY($1::text[])", keys)
    twice = [key for key, times in Counter(keys).items() if times > 1]
    for key in (*taken, *twice):
        raise Conflict(f"another schedule has the key {key!r}; update or delete that one")
