"""Schedules and their edits."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.page import Page, ScheduleFilter
from onbeat.model.plan import Plan
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, Schedule
from onbeat.model.target import Target
from onbeat.ports.store import Hint
from onbeat.stores.sql.values import micros, micros_or_none, to_json
from onbeat.stores.sqlite.ends import cancel_waiting
from onbeat.stores.sqlite.overlap import ask_to_stop
from onbeat.stores.sqlite.planning import store_plans
from onbeat.stores.sqlite.rows import job_row, read_jobs, read_schedules
from onbeat.stores.sqlite.transaction import Row, Transaction, Value, listed

CHANGED = "schedule changed"
DELETED = "schedule deleted"


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What no query needs of a schedule."""

    id: ScheduleId
    name: str
    recurrence: RecurrenceSpec
    target: Target
    created_at: datetime
    updated_at: datetime
    key: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    catch_up: CatchUp = CatchUp.LATEST
    grace: timedelta | None = None
    overlap: Overlap = Overlap.ALLOW
    jitter: timedelta = timedelta()
    queue: str = "default"
    priority: int = 0
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_after: timedelta | None = None
    labels: dict[str, str] = {}
    zone_data: str = ""


def bindings_of(schedule: Schedule) -> dict[str, Value]:
    spec = ScheduleSpec(
        **{name: getattr(schedule, name) for name in ScheduleSpec.__struct_fields__}
    )
    return {
        "id": schedule.id,
        "key": schedule.key,
        "search": search_text(schedule.name, schedule.key or ""),
        "status": schedule.status,
        "planned_through": micros(schedule.planned_through),
        "plan_at": micros_or_none(schedule.plan_at),
        "version": schedule.version,
        "spec": to_json(spec),
    }


def search_text(*parts: str) -> str:
    return "\n".join(parts).casefold()


def add_schedule(transaction: Transaction, asked: tuple[Schedule, Plan]) -> None:
    """Adding the same schedule again, because the first answer was lost, changes nothing."""
    new, plan = asked
    if transaction.value("SELECT 1 FROM schedules WHERE id = ?", (new.id,)):
        return
    refuse_taken_key(transaction, new)
    transaction.run(
        """
        INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, spec)
        VALUES (:id, :key, :search, :status, :planned_through, :plan_at, :version, :spec)
        """,
        bindings_of(new),
    )
    store_plans(transaction, [plan])
    transaction.hints.add(Hint.SCHEDULES)


def refuse_taken_key(transaction: Transaction, schedule: Schedule) -> None:
    sql = "SELECT 1 FROM schedules WHERE key = ? AND id <> ?"
    if transaction.value(sql, (schedule.key, schedule.id)):
        raise Conflict(f"another schedule has the key {schedule.key!r}; update that one")


def update_schedule(transaction: Transaction, asked: tuple[Schedule, Plan | None, int]) -> bool:
    edited, plan, now = asked
    stored = transaction.value("SELECT version FROM schedules WHERE id = ?", (edited.id,))
    if stored != edited.version - 1:
        return stored == edited.version and is_stored(transaction, edited)
    refuse_taken_key(transaction, edited)
    transaction.run(
        """
        UPDATE schedules
        SET key = :key, search = :search, status = :status, version = :version, spec = :spec
        WHERE id = :id
        """,
        bindings_of(edited),
    )
    transaction.run(
        "UPDATE jobs SET held = ? WHERE schedule_id = ?", (edited.status == "paused", edited.id)
    )
    if plan is not None:
        forget_after(transaction, edited.id, now)
        store_plans(transaction, [plan])
    follow(transaction, edited)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return True


def is_stored(transaction: Transaction, edited: Schedule) -> bool:
    """Whether this very edit was stored before, and its answer was lost."""
    spec = bindings_of(edited)["spec"]
    sql = "SELECT 1 FROM schedules WHERE id = ? AND spec = ?"
    return bool(transaction.value(sql, (edited.id, spec)))


def follow(transaction: Transaction, edited: Schedule) -> None:
    """Let the schedule's waiting jobs follow its edit."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM live_jobs
        WHERE schedule_id = ? AND state = 'waiting'
    """
    rows: list[Row] = [
        job_row(following(job, edited)) for job in read_jobs(transaction.value(sql, (edited.id,)))
    ]
    if rows:
        transaction.run_rows(
            """
            UPDATE jobs
            SET queue = column2, priority = column3, lane = column4, overlap = column10,
                spec = column11
            FROM :rows
            WHERE id = column1
            """,
            rows,
        )


def following(job: Job, edited: Schedule) -> Job:
    return msgspec.structs.replace(
        job,
        target=edited.target,
        queue=edited.queue,
        priority=edited.priority,
        retry=edited.retry,
        timeout=edited.timeout,
        overlap=edited.overlap,
        labels=edited.labels,
    )


def forget_after(transaction: Transaction, id: ScheduleId, now: int) -> None:
    """The rule changed: what was planned past this instant and never started is void."""
    sql = """
        SELECT json_group_array(id)
        FROM jobs
        WHERE schedule_id = ? AND occurrence > ? AND state = 'waiting'
          AND (token = 0 OR start_by IS NOT NULL)
    """
    void: list[JobId] = transaction.values(sql, (id, now))
    cancel_waiting(transaction, dict.fromkeys(void, CHANGED), now, started_too=False)
    forget_dispositions_after(transaction, id, now, void)
    # Nothing is planned later than now any more, so the plan says how far it goes.
    transaction.run(
        "UPDATE schedules SET planned_through = min(planned_through, ?) WHERE id = ?", (now, id)
    )


def forget_dispositions_after(
    transaction: Transaction, id: ScheduleId, now: int, void: Sequence[JobId] | None
) -> None:
    """Skips, and those of the jobs that are void; None stands for all jobs."""
    transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id = :id
          AND first > :now
          AND (job_id IS NULL OR :void IS NULL
               OR job_id IN (SELECT value FROM json_each(:void)))
        """,
        {"id": id, "now": now, "void": None if void is None else listed(void)},
    )
    transaction.run(
        """
        UPDATE dispositions SET last = :now
        WHERE schedule_id = :id AND first <= :now AND last > :now
        """,
        {"id": id, "now": now},
    )


def delete_schedule(transaction: Transaction, asked: tuple[ScheduleId, int]) -> bool:
    id, now = asked
    if not transaction.run("DELETE FROM schedules WHERE id = ?", (id,)):
        return False
    forget_dispositions_after(transaction, id, now, None)
    sql = "SELECT json_group_array(id) FROM jobs WHERE schedule_id = ?"
    live: list[JobId] = transaction.values(sql, (id,))
    cancel_waiting(transaction, dict.fromkeys(live, DELETED), now)
    ask_to_stop(transaction, live, DELETED, now)
    transaction.hints.add(Hint.SCHEDULES)
    return True


def due_schedules(transaction: Transaction, asked: tuple[int, int]) -> Sequence[Schedule]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM schedules INDEXED BY schedules_due
          WHERE status = 'active' AND plan_at IS NOT NULL AND plan_at <= ?
          ORDER BY plan_at
          LIMIT ?
        )
    """
    return read_schedules(transaction.value(sql, asked))


def next_plan_at(transaction: Transaction, _: None) -> int | None:
    sql = """
        SELECT plan_at
        FROM schedules INDEXED BY schedules_due
        WHERE status = 'active' AND plan_at IS NOT NULL
        ORDER BY plan_at
        LIMIT 1
    """
    found: int | None = transaction.value(sql)
    return found


def schedules_by_id(transaction: Transaction, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM schedules
        WHERE id IN (SELECT value FROM json_each(?))
    """
    return read_schedules(transaction.value(sql, (listed(ids),)))


def schedule_by_key(transaction: Transaction, key: str) -> Schedule | None:
    sql = "SELECT '[' || record || ']' FROM schedules WHERE key = ?"
    return next(iter(read_schedules(transaction.value(sql, (key,)))), None)


def schedules(transaction: Transaction, filter: ScheduleFilter) -> Page[Schedule]:
    asked: dict[str, Any] = {
        "status": filter.status,
        "q": None if filter.q is None else filter.q.casefold(),
    }
    matching = """
        FROM schedules
        WHERE (:status IS NULL OR status = :status)
          AND (:q IS NULL OR instr(search, :q) > 0)
    """
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (SELECT record :matching ORDER BY id DESC LIMIT :limit OFFSET :offset)
    """.replace(":matching", matching)
    page = read_schedules(
        transaction.value(sql, {**asked, "limit": filter.limit, "offset": filter.offset})
    )
    return Page(
        items=tuple(page),
        total=transaction.value("SELECT count(*) :matching".replace(":matching", matching), asked),
    )
