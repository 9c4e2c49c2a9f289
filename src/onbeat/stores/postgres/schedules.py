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
from onbeat.stores.postgres.ends import cancel_waiting
from onbeat.stores.postgres.overlap import ask_to_stop
from onbeat.stores.postgres.planning import store_plans
from onbeat.stores.postgres.rows import LIVE_COLUMNS, read_jobs, spec_of
from onbeat.stores.postgres.transaction import Transaction
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
SPEC_FIELDS = ScheduleSpec.__struct_fields__
COLUMNS = "id, planned_through, plan_at, version, status, key, spec"


def read_schedules(rows: Sequence[Sequence[Any]]) -> list[Schedule]:
    return [read_schedule(row) for row in rows]


def read_schedule(row: Sequence[Any]) -> Schedule:
    id, planned_through, plan_at, version, status, key, text = row
    spec = SPEC.decode(text)
    return Schedule(
        id=ScheduleId(str(id)),
        planned_through=instant(planned_through),
        plan_at=instant_or_none(plan_at),
        version=version,
        status=ScheduleStatus(status),
        key=key,
        **{name: getattr(spec, name) for name in SPEC_FIELDS},
    )


def spec_text(schedule: Schedule) -> str:
    return to_json(ScheduleSpec(**{name: getattr(schedule, name) for name in SPEC_FIELDS}))


def search_text(schedule: Schedule) -> str:
    """NUL is the one character that PostgreSQL cannot keep; nobody searches for it."""
    return f"{schedule.name}\n{schedule.key or ''}".casefold().replace("\0", "")


async def add_schedule(transaction: Transaction, asked: tuple[Schedule, Plan]) -> None:
    """Adding the same schedule again, because the first answer was lost, changes nothing."""
    new, plan = asked
    if await transaction.value("SELECT 1 FROM schedules WHERE id = $1", new.id):
        return
    await refuse_taken_key(transaction, new)
    await transaction.run(
        """
        INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, spec)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        """,
        new.id,
        new.key,
        search_text(new),
        new.status.value,
        micros(new.planned_through),
        micros_or_none(new.plan_at),
        new.version,
        spec_text(new),
    )
    await store_plans(transaction, [plan])
    transaction.hints.add(Hint.SCHEDULES)


async def refuse_taken_key(transaction: Transaction, schedule: Schedule) -> None:
    """The unique index holds in any case; this says it in better words."""
    sql = "SELECT 1 FROM schedules WHERE key = $1 AND id <> $2"
    if schedule.key is not None and await transaction.value(sql, schedule.key, schedule.id):
        raise Conflict(f"another schedule has the key {schedule.key!r}; update that one")


class Edit(msgspec.Struct, frozen=True):
    schedule: Schedule
    plan: Plan | None
    now: int


async def update_schedule(transaction: Transaction, edit: Edit) -> bool:
    edited, plan, now = edit.schedule, edit.plan, edit.now
    sql = "SELECT version, spec FROM schedules WHERE id = $1 FOR UPDATE"
    stored = next(iter(await transaction.rows(sql, edited.id)), None)
    if stored is None:
        return False
    version, spec = stored
    if version != edited.version - 1:
        # This very edit may have been stored before, and its answer lost.
        return bool(version == edited.version and spec == spec_text(edited))
    await refuse_taken_key(transaction, edited)
    await transaction.run(
        """
        UPDATE schedules
        SET key = $2, search = $3, status = $4, version = $5, spec = $6
        WHERE id = $1
        """,
        edited.id,
        edited.key,
        search_text(edited),
        edited.status.value,
        edited.version,
        spec_text(edited),
    )
    await transaction.run(
        "UPDATE jobs SET held = $2 WHERE schedule_id = $1 AND held <> $2",
        edited.id,
        edited.status is ScheduleStatus.PAUSED,
    )
    if plan is not None:
        await forget_after(transaction, edited.id, now)
        await store_plans(transaction, [plan])
    await follow(transaction, edited)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return True


async def follow(transaction: Transaction, edited: Schedule) -> None:
    """Let the schedule's waiting jobs follow its edit."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs
        WHERE schedule_id = $1 AND NOT running
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  no value in it
    waiting = read_jobs(await transaction.rows(sql, edited.id))
    if waiting:
        await transaction.run(
            """
            UPDATE jobs
            SET queue = $2, priority = $3, lane = $4, overlap = $5, spec = followed.spec
            FROM unnest($1::uuid[], $6::text[]) AS followed (id, spec)
            WHERE jobs.id = followed.id
              AND NOT running
            """,
            [job.id for job in waiting],
            edited.queue,
            edited.priority,
            lane_of(edited.target),
            overlap_text(edited.overlap),
            [spec_of(following(job, edited)) for job in waiting],
        )


def following(job: Job, edited: Schedule) -> Job:
    return msgspec.structs.replace(
        job,
        target=edited.target,
        retry=edited.retry,
        timeout=edited.timeout,
        labels=edited.labels,
    )


async def forget_after(transaction: Transaction, id: ScheduleId, now: int) -> None:
    """The rule changed: what was planned past this instant and never started is void."""
    sql = """
        SELECT id FROM jobs
        WHERE schedule_id = $1 AND occurrence > $2 AND NOT running
          AND (token = 0 OR start_by IS NOT NULL)
    """
    found = [JobId(str(one)) for one in await transaction.column(sql, id, now)]
    reasons = dict.fromkeys(found, CHANGED)
    # One that was claimed meanwhile is not void.
    void = await cancel_waiting(transaction, reasons, now, started_too=False)
    await forget_dispositions_after(transaction, id, now, void)
    # Nothing is planned later than now any more, so the plan says how far it goes.
    await transaction.run(
        "UPDATE schedules SET planned_through = least(planned_through, $2) WHERE id = $1", id, now
    )


async def forget_dispositions_after(
    transaction: Transaction, id: ScheduleId, now: int, void: Sequence[JobId] | None
) -> None:
    """Skips, and those of the jobs that are void; None stands for all jobs."""
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id = $1
          AND first > $2
          AND (job_id IS NULL OR $3::uuid[] IS NULL OR job_id = ANY($3))
        """,
        id,
        now,
        None if void is None else list(void),
    )
    await transaction.run(
        "UPDATE dispositions SET last = $2 WHERE schedule_id = $1 AND first <= $2 AND last > $2",
        id,
        now,
    )


async def delete_schedule(transaction: Transaction, asked: tuple[ScheduleId, int]) -> bool:
    id, now = asked
    if not await transaction.run("DELETE FROM schedules WHERE id = $1", id):
        return False
    await forget_dispositions_after(transaction, id, now, None)
    sql = "SELECT id FROM jobs WHERE schedule_id = $1"
    live = [JobId(str(one)) for one in await transaction.column(sql, id)]
    await ask_to_stop(transaction, live, DELETED, now)
    await cancel_waiting(transaction, dict.fromkeys(live, DELETED), now)
    await ask_to_stop(transaction, live, DELETED, now)
    transaction.hints.add(Hint.SCHEDULES)
    return True


async def due_schedules(transaction: Transaction, asked: tuple[int, int]) -> Sequence[Schedule]:
    sql = f"""
        SELECT {COLUMNS}
        FROM schedules
        WHERE status = 'active' AND plan_at IS NOT NULL AND plan_at <= $1
        ORDER BY plan_at
        LIMIT $2
    """  # noqa: S608  no value in it
    return read_schedules(await transaction.rows(sql, *asked))


async def next_plan_at(transaction: Transaction, _: None) -> int | None:
    sql = "SELECT min(plan_at) FROM schedules WHERE status = 'active' AND plan_at IS NOT NULL"
    found: int | None = await transaction.value(sql)
    return found


async def schedules_by_id(
    transaction: Transaction, ids: Collection[ScheduleId]
) -> Sequence[Schedule]:
    sql = f"SELECT {COLUMNS} FROM schedules WHERE id = ANY($1::uuid[])"  # noqa: S608  no value in it
    return read_schedules(await transaction.rows(sql, list(ids)))


async def schedule_by_key(transaction: Transaction, key: str) -> Schedule | None:
    sql = f"SELECT {COLUMNS} FROM schedules WHERE key = $1"  # noqa: S608  no value in it
    return next(iter(read_schedules(await transaction.rows(sql, key))), None)


async def schedules(transaction: Transaction, filter: ScheduleFilter) -> Page[Schedule]:
    matching = """
        FROM schedules
        WHERE ($1::text IS NULL OR status = $1)
          AND ($2::text IS NULL OR strpos(search, $2) > 0)
    """
    status = None if filter.status is None else filter.status.value
    q = None if filter.q is None else filter.q.casefold()
    found = await transaction.rows(
        f"SELECT {COLUMNS} {matching} ORDER BY id DESC LIMIT $3 OFFSET $4",
        status,
        q,
        filter.limit,
        filter.offset,
    )
    total = await transaction.value(f"SELECT count(*) {matching}", status, q)
    return Page(items=tuple(read_schedules(found)), total=total)
