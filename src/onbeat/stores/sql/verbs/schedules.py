"""Reads, locks and writes the rows of schedules."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.errors import Conflict
from onbeat.model.ids import ScheduleId
from onbeat.model.page import Page, ScheduleFilter
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.rules.own_events import wanted_types
from onbeat.stores.sql.dialect import Argument, Columns
from onbeat.stores.sql.schedules import read_schedule, search_text
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import micros, micros_or_none


async def select_schedules(session: Session, rest: str, *values: Argument) -> list[Schedule]:
    key = session.forms.schedule_key
    columns = f"id, {key}, status, planned_through, plan_at, version, spec"
    return [read_schedule(row) for row in await session.select(columns, rest, *values)]


async def due_schedules(session: Session, now: int, limit: int) -> Sequence[Schedule]:
    rest = f"""
        FROM onbeat.schedules {session.dialect.use_index("schedules_due")}
        WHERE status = 'active' AND plan_at IS NOT NULL AND plan_at <= ?
        ORDER BY plan_at
        LIMIT ?
    """
    return await select_schedules(session, rest, now, limit)


async def next_plan_at(session: Session) -> int | None:
    rest = f"""
        FROM onbeat.schedules {session.dialect.use_index("schedules_due")}
        WHERE status = 'active' AND plan_at IS NOT NULL
        ORDER BY plan_at
        LIMIT 1
    """
    return next((at for (at,) in await session.select("plan_at", rest)), None)


async def schedules_by_id(session: Session, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
    rest = f"FROM onbeat.schedules WHERE {session.dialect.in_list('id', 'uuid')}"
    return await select_schedules(session, rest, tuple(ids))


async def lock_schedules(
    session: Session, ids: Collection[ScheduleId]
) -> dict[ScheduleId, Schedule]:
    """Lock the schedules: no other process plans, edits or admits jobs of them until the commit."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.schedules {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    return {one.id: one for one in await select_schedules(session, rest, tuple(ids))}


async def hold_schedules(session: Session, ids: Collection[ScheduleId]) -> set[ScheduleId]:
    """Block pauses of the schedules until the commit, or a new job would miss one.

    Returns the paused schedules.
    """
    statuses = await hold_statuses(session, ids)
    return {id for id, status in statuses.items() if status == ScheduleStatus.PAUSED}


async def hold_statuses(session: Session, ids: Collection[ScheduleId]) -> dict[ScheduleId, str]:
    """The statuses of those of the schedules that exist; they keep them until the commit."""
    if not ids:
        return {}
    dialect = session.dialect
    rest = f"""
        FROM onbeat.schedules {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_share}
    """
    rows = await session.select("id, status", rest, tuple(ids))
    return {ScheduleId(str(id)): status for id, status in rows}


class Watermark(msgspec.Struct, frozen=True):
    """How far a schedule is planned."""

    version: int
    status: str
    planned_through: int
    plan_at: int | None


async def lock_watermarks(
    session: Session, ids: Collection[ScheduleId]
) -> dict[ScheduleId, Watermark]:
    """Lock the schedules as `lock_schedules` does, without reading their texts."""
    if not ids:
        return {}
    dialect = session.dialect
    rest = f"""
        FROM onbeat.schedules {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    rows = await session.select("id, version, status, planned_through, plan_at", rest, tuple(ids))
    return {ScheduleId(str(id)): Watermark(*row) for id, *row in rows}


async def schedule_by_key(session: Session, key: str) -> Schedule | None:
    rest = f"FROM onbeat.schedules WHERE {session.forms.schedule_key} = ?"
    return next(iter(await select_schedules(session, rest, key)), None)


async def schedules_of_owner(session: Session, owner: str) -> Sequence[Schedule]:
    index = session.dialect.use_index("schedules_of_owner")
    rest = f"FROM onbeat.schedules {index} WHERE owner = ? ORDER BY id"
    return await select_schedules(session, rest, owner)


async def schedules(session: Session, filter: ScheduleFilter) -> Page[Schedule]:
    request = {
        "status = ?": None if filter.status is None else filter.status.value,
        session.dialect.contains("search"): None if filter.q is None else search_text(filter.q),
    }
    used = {text: value for text, value in request.items() if value is not None}
    matching = f"""
        FROM onbeat.schedules {session.dialect.use_index("PRIMARY")}
        WHERE {" AND ".join(["TRUE", *used])}
    """
    page = f"{matching} ORDER BY id DESC LIMIT ? OFFSET ?"
    items = await select_schedules(session, page, *used.values(), filter.limit, filter.offset)
    count = f"FROM (SELECT count(*) AS total {matching}) AS counted"
    ((total,),) = await session.select("total", count, *used.values())
    return Page(items=tuple(items), total=total)


async def export_schedules(
    session: Session, after: ScheduleId | None, limit: int
) -> Sequence[Schedule]:
    condition, values = ("TRUE", ()) if after is None else ("id > ?", (after,))
    rest = f"FROM onbeat.schedules WHERE {condition} ORDER BY id LIMIT ?"
    return await select_schedules(session, rest, *values, limit)


async def insert_schedules(
    session: Session, schedules: Collection[Schedule], ending: str = ""
) -> None:
    forms = session.forms
    columns: Columns = {
        "id": "uuid",
        forms.schedule_key: "text",
        "search": "text",
        "status": "text",
        "planned_through": "bigint",
        "plan_at": "bigint",
        "version": "integer",
        "on_event": "boolean",
        "owner": "text",
        "spec": "text",
    }
    rows = [
        (
            one.id,
            one.key,
            search_text(one.name, one.key or ""),
            one.status.value,
            micros(one.planned_through),
            micros_or_none(one.plan_at),
            one.version,
            bool(one.on),
            one.owner,
            forms.schedule_spec(one),
        )
        for one in schedules
    ]
    await session.insert_rows("schedules", columns, rows, ending)
    await insert_own_types(session, schedules)


async def put_schedules(session: Session, schedules: Collection[Schedule]) -> None:
    """Insert the schedules; existing ones with the same ids are replaced."""
    await delete_own_types(session, [one.id for one in schedules])
    columns = (session.forms.schedule_key, "search", "status", "planned_through", "plan_at")
    ending = session.dialect.or_change("id", [*columns, "version", "on_event", "owner", "spec"])
    await insert_schedules(session, schedules, ending)


async def rewrite_schedule(session: Session, edited: Schedule) -> None:
    """Update everything but how far the schedule is planned."""
    sql = f"""
        UPDATE onbeat.schedules
        SET {session.forms.schedule_key} = ?, search = ?, status = ?, version = ?, on_event = ?,
            owner = ?, spec = ?
        WHERE id = ?
    """  # noqa: S608  values are bound
    await session.execute(
        sql,
        edited.key,
        search_text(edited.name, edited.key or ""),
        edited.status.value,
        edited.version,
        bool(edited.on),
        edited.owner,
        session.forms.schedule_spec(edited),
        edited.id,
    )
    await delete_own_types(session, [edited.id])
    await insert_own_types(session, [edited])


async def insert_own_types(session: Session, schedules: Collection[Schedule]) -> None:
    """Record which of Onbeat's own events the schedules ask for."""
    columns: Columns = {"type": "text", "schedule_id": "uuid"}
    rows = [(type, one.id) for one in schedules for type in sorted(wanted_types(one))]
    await session.insert_rows("own_event_types", columns, rows)


async def delete_own_types(session: Session, ids: Collection[ScheduleId]) -> None:
    dialect = session.dialect
    delete = dialect.delete_from("own_event_types", "own_event_types_of_schedule")
    await session.execute(f"{delete} WHERE {dialect.in_list('schedule_id', 'uuid')}", tuple(ids))


async def refuse_taken_key(session: Session, schedule: Schedule) -> None:
    """Raises `Conflict` for a key in use; the unique index catches concurrent writers."""
    if schedule.key is None:
        return
    rest = f"FROM onbeat.schedules WHERE {session.forms.schedule_key} = ? AND id <> ?"
    if await session.select("id", rest, schedule.key, schedule.id):
        raise Conflict(f"another schedule has the key {schedule.key!r}; update that one")
