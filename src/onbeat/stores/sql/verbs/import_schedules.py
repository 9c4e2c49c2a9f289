"""Imports of schedules from another store."""

from collections import Counter
from collections.abc import Mapping, Sequence

from onbeat.model.errors import Conflict
from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint
from onbeat.rules.merge import edited_since, newer_schedules
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.edit_schedules import follow, hold_jobs
from onbeat.stores.sql.verbs.import_jobs import delete_of_jobs
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.schedules import lock_schedules, put_schedules


async def import_schedules(session: Session, schedules: Sequence[Schedule]) -> int:
    here = await lock_schedules(session, [one.id for one in schedules])
    newer = newer_schedules(schedules, here)
    if not newer:
        return 0
    await free_keys(session, newer)
    await put_schedules(session, newer.values())
    paused = {id for id, one in newer.items() if one.status is ScheduleStatus.PAUSED}
    await hold_jobs(session, paused, held=True)
    await hold_jobs(session, newer.keys() - paused, held=False)
    edited = edited_since(newer, here)
    await forget_planned(session, [one.id for one in edited])
    for schedule in edited:
        await follow(session, schedule)
    session.hints.update((Hint.SCHEDULES, Hint.JOBS))
    return len(newer)


async def free_keys(session: Session, newer: Mapping[ScheduleId, Schedule]) -> None:
    """Two of them may have swapped their keys; the key of another schedule is refused."""
    column = session.forms.schedule_key
    freed = [(id, None) for id in newer]
    await session.update_rows("schedules", {"id": "uuid"}, {column: "text"}, freed)
    keys = [one.key for one in newer.values() if one.key is not None]
    rest = f"FROM onbeat.schedules WHERE {session.dialect.in_list(column, 'text')}"
    taken = [key for (key,) in await session.select(column, rest, tuple(keys))]
    twice = [key for key, times in Counter(keys).items() if times > 1]
    for key in (*taken, *twice):
        raise Conflict(f"another schedule has the key {key!r}; update or delete that one")


async def forget_planned(session: Session, schedules: Sequence[ScheduleId]) -> None:
    """Delete jobs that an older version planned and that never started; they are planned again."""
    if not schedules:
        return
    dialect = session.dialect
    of_schedule = dialect.in_list("schedule_id", "uuid")
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("jobs_of_schedule")}
        WHERE {of_schedule} AND occurrence IS NOT NULL AND {dialect.is_waiting} AND token = 0
          AND NOT EXISTS (SELECT 1 FROM onbeat.waits WHERE awaits = onbeat.jobs.id)
        ORDER BY id
        {dialect.for_update}
    """  # noqa: S608  values are bound
    gone = [id for (id,) in await session.select("id", rest, tuple(schedules))]
    if gone:
        await delete_live(session, gone)
    await delete_of_jobs(session, ["waits", "transitions"], gone)
    sql = f"""
        DELETE FROM onbeat.dispositions
        WHERE {of_schedule}
          AND NOT EXISTS (SELECT 1 FROM onbeat.jobs
                          WHERE onbeat.jobs.id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM onbeat.finished
                          WHERE onbeat.finished.id = job_id AND token > 0)
    """  # noqa: S608  values are bound
    await session.execute(sql, tuple(schedules))
