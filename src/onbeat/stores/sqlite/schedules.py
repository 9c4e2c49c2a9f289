"""Schedules and their updates."""

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Hint
from onbeat.rules.plans import follow_schedule
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.dispositions import forget_dispositions_after
from onbeat.stores.sql.verbs.overlap import ask_to_stop
from onbeat.stores.sql.verbs.plans import store_plan
from onbeat.stores.sql.verbs.schedules import insert_schedules, refuse_taken_key, rewrite_schedule
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.rows import job_row, read_jobs, schedule_spec
from onbeat.stores.sqlite.transaction import Row, Transaction

CHANGED = "schedule changed"
DELETED = "schedule deleted"


def add_schedule(transaction: Transaction, new: Schedule, plan: Plan) -> None:
    """Adding the same schedule again after a lost answer changes nothing."""
    if transaction.value("SELECT 1 FROM onbeat_schedules WHERE id = ?", (new.id,)):
        return
    finish(refuse_taken_key(transaction, new))
    finish(insert_schedules(transaction, [new]))
    finish(store_plan(transaction, plan))
    transaction.hints.add(Hint.SCHEDULES)


def update_schedule(
    transaction: Transaction, edited: Schedule, plan: Plan | None, now: int
) -> bool:
    stored = transaction.value("SELECT version FROM onbeat_schedules WHERE id = ?", (edited.id,))
    if stored != edited.version - 1:
        return stored == edited.version and is_stored(transaction, edited)
    finish(refuse_taken_key(transaction, edited))
    finish(rewrite_schedule(transaction, edited))
    transaction.run(
        "UPDATE onbeat_jobs SET held = ? WHERE schedule_id = ?",
        (edited.status == "paused", edited.id),
    )
    if plan is not None:
        forget_after(transaction, edited.id, now)
        finish(store_plan(transaction, plan))
    follow(transaction, edited)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return True


def is_stored(transaction: Transaction, edited: Schedule) -> bool:
    """Whether this very edit was stored before, and its answer was lost."""
    sql = "SELECT 1 FROM onbeat_schedules WHERE id = ? AND spec = ?"
    return bool(transaction.value(sql, (edited.id, schedule_spec(edited))))


def follow(transaction: Transaction, edited: Schedule) -> None:
    """Apply the edit to the schedule's waiting jobs."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM onbeat_live_jobs
        WHERE schedule_id = ? AND state = 'waiting'
    """
    rows: list[Row] = [
        job_row(follow_schedule(job, edited))
        for job in read_jobs(transaction.value(sql, (edited.id,)))
    ]
    if rows:
        transaction.run_rows(
            """
            UPDATE onbeat_jobs
            SET queue = column2, priority = column3, lane = column4, overlap = column10,
                spec = column12
            FROM :rows
            WHERE id = column1
            """,
            rows,
        )


def forget_after(transaction: Transaction, id: ScheduleId, now: int) -> None:
    """After a changed rule, cancel jobs planned for later than `now` that never started."""
    sql = """
        SELECT json_group_array(id)
        FROM onbeat_jobs
        WHERE schedule_id = ? AND occurrence > ? AND state = 'waiting'
          AND (token = 0 OR start_by IS NOT NULL)
    """
    void: list[JobId] = transaction.values(sql, (id, now))
    finish(cancel_waiting(transaction, dict.fromkeys(void, CHANGED), now, started_too=False))
    finish(forget_dispositions_after(transaction, id, now, void))
    # Nothing is planned later than now any more, so the plan says how far it goes.
    transaction.run(
        "UPDATE onbeat_schedules SET planned_through = min(planned_through, ?) WHERE id = ?",
        (now, id),
    )


def delete_schedule(transaction: Transaction, id: ScheduleId, now: int) -> bool:
    if not transaction.run("DELETE FROM onbeat_schedules WHERE id = ?", (id,)):
        return False
    finish(forget_dispositions_after(transaction, id, now, None))
    sql = "SELECT json_group_array(id) FROM onbeat_jobs WHERE schedule_id = ?"
    live: list[JobId] = transaction.values(sql, (id,))
    finish(cancel_waiting(transaction, dict.fromkeys(live, DELETED), now))
    finish(ask_to_stop(transaction, live, DELETED, now))
    transaction.hints.add(Hint.SCHEDULES)
    return True
