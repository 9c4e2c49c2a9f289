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
from onbeat.model.schedule import CatchUp, Overlap, Schedule, ScheduleStatus
from onbeat.model.target import Target, lane_of
from onbeat.ports.store import Hint
from onbeat.stores.mysql.ends import cancel_waiting
from onbeat.stores.mysql.overlap import ask_to_stop
from onbeat.stores.mysql.planning import lock_schedules, store_plans
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs, spec_of
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import (
    instant,
    instant_or_none,
    micros,
    micros_or_none,
    overlap_text,
    to_json,
)

CHANGED = "schedule changed"
DELETED = "schedule deleted"


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What no query needs of a schedule."""

    name: str
    recurrence: RecurrenceSpec
    target: Target
    created_at: datetime
    updated_at: datetime
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


SPEC = msgspec.json.Decoder(ScheduleSpec)
COLUMNS = "id, name_key, status, planned_through, plan_at, version, spec"


def read_schedules(rows: Sequence[Row]) -> list[Schedule]:
    return [
        Schedule(
            id=id,
            key=key,
            status=ScheduleStatus(status),
            planned_through=instant(planned_through),
            plan_at=instant_or_none(plan_at),
            version=version,
            **msgspec.structs.asdict(SPEC.decode(spec)),
        )
        for id, key, status, planned_through, plan_at, version, spec in rows
    ]


def bindings_of(schedule: Schedule) -> dict[str, Any]:
    spec = ScheduleSpec(
        **{name: getattr(schedule, name) for name in ScheduleSpec.__struct_fields__}
    )
    return {
        "id": schedule.id,
        "key": schedule.key,
        "search": search_text(schedule.name, schedule.key or ""),
        "status": schedule.status.value,
        "planned_through": micros(schedule.planned_through),
        "plan_at": micros_or_none(schedule.plan_at),
        "version": schedule.version,
        "spec": to_json(spec),
    }


def search_text(*parts: str) -> str:
    return "\n".join(parts).casefold()


INSERT_SCHEDULE = """
    INSERT INTO schedules (id, name_key, search, status, planned_through, plan_at, version, spec)
    VALUES (%(id)s, %(key)s, %(search)s, %(status)s, %(planned_through)s, %(plan_at)s, %(version)s,
            %(spec)s)
"""


async def add_schedule(transaction: Transaction, asked: tuple[Schedule, Plan]) -> None:
    """Adding the same schedule again, because the first answer was lost, changes nothing."""
    new, plan = asked
    if await transaction.value("SELECT 1 FROM schedules WHERE id = %s", (new.id,)):
        return
    await refuse_taken_key(transaction, new)
    await transaction.run(INSERT_SCHEDULE, bindings_of(new))
    await store_plans(transaction, [plan], paused_if(new))
    transaction.hints.add(Hint.SCHEDULES)


def paused_if(schedule: Schedule) -> Collection[ScheduleId]:
    return {schedule.id} if schedule.status is ScheduleStatus.PAUSED else ()


async def refuse_taken_key(transaction: Transaction, schedule: Schedule) -> None:
    """Two that take one key at once meet at the unique index."""
    sql = "SELECT 1 FROM schedules WHERE name_key = %s AND id <> %s"
    if schedule.key is not None and await transaction.value(sql, (schedule.key, schedule.id)):
        raise Conflict(f"another schedule has the key {schedule.key!r}; update that one")


async def update_schedule(
    transaction: Transaction, asked: tuple[Schedule, Plan | None, int]
) -> bool:
    edited, plan, now = asked
    stored, _ = (await lock_schedules(transaction, {edited.id})).get(edited.id, (None, None))
    if stored != edited.version - 1:
        return stored == edited.version and await is_stored(transaction, edited)
    await refuse_taken_key(transaction, edited)
    await transaction.run(
        """
        UPDATE schedules
        SET name_key = %(key)s, search = %(search)s, status = %(status)s, version = %(version)s,
            spec = %(spec)s
        WHERE id = %(id)s
        """,
        bindings_of(edited),
    )
    await transaction.run(
        "UPDATE jobs FORCE INDEX (jobs_of_schedule) SET held = %s WHERE schedule_id = %s",
        (edited.status is ScheduleStatus.PAUSED, edited.id),
    )
    if plan is not None:
        await forget_after(transaction, edited.id, now)
        await store_plans(transaction, [plan], paused_if(edited))
    await follow(transaction, edited)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return True


async def is_stored(transaction: Transaction, edited: Schedule) -> bool:
    """Whether this very edit was stored before, and its answer was lost."""
    sql = "SELECT 1 FROM schedules WHERE id = %(id)s AND spec = %(spec)s AND name_key <=> %(key)s"
    return bool(await transaction.value(sql, bindings_of(edited)))


async def follow(transaction: Transaction, edited: Schedule) -> None:
    """Let the schedule's waiting jobs follow its edit."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (jobs_of_schedule)
        WHERE schedule_id = %s AND running = 0
        FOR UPDATE
    """  # noqa: S608  values are bound
    waiting = read_jobs(await transaction.rows(sql, (edited.id,)))
    await transaction.run_each(
        """
        UPDATE jobs
        SET queue = %s, priority = %s, lane = %s, overlap = %s, spec = %s
        WHERE id = %s
        """,
        [following_row(job, edited) for job in waiting],
    )


def following_row(job: Job, edited: Schedule) -> Row:
    following = msgspec.structs.replace(
        job,
        target=edited.target,
        retry=edited.retry,
        timeout=edited.timeout,
        labels=edited.labels,
    )
    return (
        edited.queue,
        edited.priority,
        lane_of(edited.target),
        overlap_text(edited.overlap),
        spec_of(following),
        job.id,
    )


async def forget_after(transaction: Transaction, id: ScheduleId, now: int) -> None:
    """The rule changed: what was planned past this instant and never started is void."""
    sql = """
        SELECT id
        FROM jobs
        WHERE schedule_id = %s AND occurrence > %s AND running = 0
          AND (token = 0 OR start_by IS NOT NULL)
    """
    void: list[JobId] = await transaction.column(sql, (id, now))
    # One that a claim has taken since runs on, and keeps its disposition.
    gone = await cancel_waiting(transaction, dict.fromkeys(void, CHANGED), now, started_too=False)
    await forget_dispositions_after(transaction, id, now, gone)
    # Nothing is planned later than now any more, so the plan says how far it goes.
    await transaction.run(
        "UPDATE schedules SET planned_through = LEAST(planned_through, %s) WHERE id = %s", (now, id)
    )


async def forget_dispositions_after(
    transaction: Transaction, id: ScheduleId, now: int, void: Sequence[JobId] | None
) -> None:
    """Skips, and those of the jobs that are void; None stands for all jobs."""
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id = %(id)s
          AND first > %(now)s
          AND (job_id IS NULL OR %(all)s OR job_id IN %(void)s)
        """,
        {"id": id, "now": now, "all": void is None, "void": tuple(void or ()) or ("",)},
    )
    await transaction.run(
        """
        UPDATE dispositions SET last = %(now)s
        WHERE schedule_id = %(id)s AND first <= %(now)s AND last > %(now)s
        """,
        {"id": id, "now": now},
    )


async def delete_schedule(transaction: Transaction, asked: tuple[ScheduleId, int]) -> bool:
    id, now = asked
    if not await lock_schedules(transaction, {id}):
        return False
    await forget_dispositions_after(transaction, id, now, None)
    sql = "SELECT id FROM jobs WHERE schedule_id = %s FOR UPDATE"
    live: list[JobId] = await transaction.column(sql, (id,))
    await cancel_waiting(transaction, dict.fromkeys(live, DELETED), now)
    await ask_to_stop(transaction, live, DELETED, now)
    await transaction.run("DELETE FROM schedules WHERE id = %s", (id,))
    transaction.hints.add(Hint.SCHEDULES)
    return True


async def due_schedules(transaction: Transaction, asked: tuple[int, int]) -> list[Schedule]:
    sql = f"""
        SELECT {COLUMNS}
        FROM schedules FORCE INDEX (schedules_due)
        WHERE status = 'active' AND plan_at <= %s
        ORDER BY plan_at, id
        LIMIT %s
    """  # noqa: S608  values are bound
    return read_schedules(await transaction.rows(sql, asked))


async def next_plan_at(transaction: Transaction, _: None) -> int | None:
    sql = "SELECT MIN(plan_at) FROM schedules WHERE status = 'active'"
    found: int | None = await transaction.value(sql)
    return found


async def schedules_by_id(transaction: Transaction, ids: Collection[ScheduleId]) -> list[Schedule]:
    if not ids:
        return []
    sql = f"SELECT {COLUMNS} FROM schedules WHERE id IN %s"  # noqa: S608  values are bound
    return read_schedules(await transaction.rows(sql, (tuple(ids),)))


async def schedule_by_key(transaction: Transaction, key: str) -> Schedule | None:
    sql = f"SELECT {COLUMNS} FROM schedules WHERE name_key = %s"  # noqa: S608  values are bound
    return next(iter(read_schedules(await transaction.rows(sql, (key,)))), None)


async def schedules(transaction: Transaction, filter: ScheduleFilter) -> Page[Schedule]:
    asked: dict[str, Any] = {
        "status": None if filter.status is None else filter.status.value,
        "q": None if filter.q is None else filter.q.casefold(),
        "limit": filter.limit,
        "offset": filter.offset,
    }
    matching = """
        FROM schedules
        WHERE (%(status)s IS NULL OR status = %(status)s)
          AND (%(q)s IS NULL OR INSTR(search, %(q)s) > 0)
    """
    page = f"SELECT {COLUMNS} {matching} ORDER BY id DESC LIMIT %(limit)s OFFSET %(offset)s"
    count = f"SELECT COUNT(*) {matching}"
    return Page(
        items=tuple(read_schedules(await transaction.rows(page, asked))),
        total=await transaction.value(count, asked),
    )
