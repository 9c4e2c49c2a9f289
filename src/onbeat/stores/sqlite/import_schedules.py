"""Imports of schedules from another store."""

from collections.abc import Sequence

from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint
from onbeat.rules.merge import edited_since, newer_schedules
from onbeat.stores.sql.verbs.edit_schedules import follow
from onbeat.stores.sql.verbs.import_jobs import delete_of_jobs
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.schedules import lock_schedules, put_schedules, refuse_taken_key
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.transaction import Transaction, json_array


def import_schedules(transaction: Transaction, schedules: Sequence[Schedule]) -> int:
    here = finish(lock_schedules(transaction, [one.id for one in schedules]))
    newer = newer_schedules(schedules, here)
    # Two schedules may have swapped their keys.
    transaction.run(
        "UPDATE onbeat_schedules SET key = NULL WHERE id IN (SELECT value FROM json_each(?))",
        (json_array(newer),),
    )
    for schedule in newer.values():
        finish(refuse_taken_key(transaction, schedule))
        put_schedule(transaction, schedule)
    edited = edited_since(newer, here)
    forget_planned(transaction, [one.id for one in edited])
    for schedule in edited:
        finish(follow(transaction, schedule))
    if newer:
        transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return len(newer)


def forget_planned(transaction: Transaction, schedules: Sequence[ScheduleId]) -> None:
    """Delete jobs that an older version planned and that never started; they are planned again."""
    if not schedules:
        return
    sql = """
        SELECT json_group_array(id)
        FROM onbeat_jobs
        WHERE schedule_id IN (SELECT value FROM json_each(?))
          AND occurrence IS NOT NULL AND state = 'waiting' AND token = 0
          AND NOT EXISTS (SELECT 1 FROM onbeat_waits WHERE awaits = onbeat_jobs.id)
    """
    gone = transaction.values(sql, (json_array(schedules),))
    finish(delete_live(transaction, gone))
    finish(delete_of_jobs(transaction, ["waits", "transitions"], gone))
    transaction.run(
        """
        DELETE FROM onbeat_dispositions
        WHERE schedule_id IN (SELECT value FROM json_each(?))
          AND NOT EXISTS (SELECT 1 FROM onbeat_jobs WHERE id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM onbeat_finished WHERE id = job_id AND token > 0)
        """,
        (json_array(schedules),),
    )


def put_schedule(transaction: Transaction, schedule: Schedule) -> None:
    finish(put_schedules(transaction, [schedule]))
    held = schedule.status is ScheduleStatus.PAUSED
    transaction.run(
        "UPDATE onbeat_jobs SET held = ?1 WHERE schedule_id = ?2 AND held <> ?1",
        (held, schedule.id),
    )
