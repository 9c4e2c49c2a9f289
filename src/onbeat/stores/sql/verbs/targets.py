"""Replaces stored targets when encryption keys change."""

from collections.abc import Callable, Sequence

from onbeat.ports.access import TargetChange
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.targets import by_id, with_target

Change = Callable[[str, TargetChange], str | None]


async def replace_job_targets(session: Session, changes: Sequence[TargetChange]) -> int:
    change = session.forms.with_job_target
    live = await replace_targets(session, "jobs", changes, change)
    return live + await replace_targets(session, "finished", changes, change)


async def replace_schedule_targets(session: Session, changes: Sequence[TargetChange]) -> int:
    return await replace_targets(session, "schedules", changes, with_target)


async def replace_targets(
    session: Session, table: str, changes: Sequence[TargetChange], change: Change
) -> int:
    wanted, dialect = by_id(changes), session.dialect
    rest = f"""
        FROM onbeat.{table} WHERE {dialect.in_list("id", "uuid")} ORDER BY id {dialect.for_update}
    """
    rows = await session.select("id, spec", rest, tuple(wanted))
    specs = [(id, change(spec, wanted[str(id)])) for id, spec in rows]
    changed = [(id, spec) for id, spec in specs if spec is not None]
    await session.update_rows(table, {"id": "uuid"}, {"spec": "text"}, changed)
    return len(changed)
