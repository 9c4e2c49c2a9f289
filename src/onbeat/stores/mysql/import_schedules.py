"""Imports of schedules from another store."""

from collections.abc import Sequence

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint
from onbeat.rules.merge import edited_since, newer_schedules
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.verbs.edit_schedules import follow
from onbeat.stores.sql.verbs.import_jobs import delete_of_jobs
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.schedules import insert_schedules
from onbeat.stores.sql.verbs.schedules import lock_schedules as lock_whole_schedules


async def import_schedules(transaction: Transaction, schedules: Sequence[Schedule]) -> int:
    """The rows in their way are deleted first, so that two may swap their keys."""
    here = await lock_whole_schedules(transaction, [one.id for one in schedules])
    newer = newer_schedules(schedules, here)
    if not newer:
        return 0
    sql = "DELETE schedules FROM schedules FORCE INDEX (PRIMARY) WHERE id IN %s"
    await transaction.run(sql, (tuple(newer),))
    await refuse_taken_keys(transaction, [one.key for one in newer.values() if one.key is not None])
    await insert_schedules(transaction, newer.values())
    await transaction.run_each(
        "UPDATE jobs FORCE INDEX (jobs_of_schedule) SET held = %s WHERE schedule_id = %s",
        [(one.status is ScheduleStatus.PAUSED, one.id) for one in newer.values()],
    )
    edited = edited_since(newer, here)
    await forget_planned(transaction, [one.id for one in edited])
    for schedule in edited:
        await follow(transaction, schedule)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return len(newer)


async def forget_planned(transaction: Transaction, schedules: Sequence[ScheduleId]) -> None:
    """Delete jobs that an older version planned and that never started; they are planned again."""
    if not schedules:
        return
    request = (tuple(schedules),)
    planned = """
        SELECT id
        FROM jobs FORCE INDEX (jobs_of_schedule)
        WHERE schedule_id IN %s
          AND occurrence IS NOT NULL AND running = 0 AND token = 0
          AND NOT EXISTS (SELECT 1 FROM waits WHERE awaits = jobs.id)
        FOR UPDATE
    """
    gone: list[JobId] = await transaction.column(planned, request)
    await delete_live(transaction, gone)
    await delete_of_jobs(transaction, ["waits", "transitions"], gone)
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id IN %s
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.id = job_id AND token > 0)
        """,
        request,
    )


async def refuse_taken_keys(transaction: Transaction, keys: Sequence[str]) -> None:
    """The unique index refuses two imports with the same key."""
    sql = "SELECT name_key FROM schedules WHERE name_key IN %s"
    taken = await transaction.column(sql, (tuple(keys),)) if keys else ()
    if taken:
        raise Conflict(f"another schedule has the key {taken[0]!r}; update or delete that one")
