"""Schedules and dispositions that come in from another store."""

from collections.abc import Collection, Sequence

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint, Traced
from onbeat.stores.arriving import edited_of, newer_of
from onbeat.stores.mysql.dispositions import Stretch, add_dispositions, read_runs
from onbeat.stores.mysql.planning import lock_schedules
from onbeat.stores.mysql.schedules import (
    COLUMNS,
    INSERT_SCHEDULE,
    bindings_of,
    follow,
    read_schedules,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.mysql.unpacking import take_out
from onbeat.stores.sql.values import micros


async def restore_schedules(transaction: Transaction, schedules: Sequence[Schedule]) -> int:
    """The rows in their way are deleted first, so that two may swap their keys."""
    here = await lock_whole(transaction, [one.id for one in schedules])
    newer = newer_of(schedules, here)
    if not newer:
        return 0
    sql = "DELETE schedules FROM schedules FORCE INDEX (PRIMARY) WHERE id IN %s"
    await transaction.run(sql, (tuple(newer),))
    await refuse_taken_keys(transaction, [one.key for one in newer.values() if one.key is not None])
    await transaction.run_each(INSERT_SCHEDULE, map(bindings_of, newer.values()))
    await transaction.run_each(
        "UPDATE jobs FORCE INDEX (jobs_of_schedule) SET held = %s WHERE schedule_id = %s",
        [(one.status is ScheduleStatus.PAUSED, one.id) for one in newer.values()],
    )
    edited = edited_of(newer, here)
    await forget_planned(transaction, [one.id for one in edited])
    for schedule in edited:
        await follow(transaction, schedule)
    transaction.hints |= {Hint.SCHEDULES, Hint.JOBS}
    return len(newer)


async def lock_whole(
    transaction: Transaction, ids: Collection[ScheduleId]
) -> dict[ScheduleId, Schedule]:
    if not ids:
        return {}
    sql = f"""
        SELECT {COLUMNS}
        FROM schedules FORCE INDEX (PRIMARY)
        WHERE id IN %s
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    return {one.id: one for one in read_schedules(await transaction.rows(sql, (tuple(ids),)))}


async def forget_planned(transaction: Transaction, schedules: Sequence[ScheduleId]) -> None:
    """What was planned by an older form, and never started, comes anew as far as it still holds."""
    if not schedules:
        return
    asked = (tuple(schedules),)
    planned = """
        SELECT id
        FROM jobs FORCE INDEX (jobs_of_schedule)
        WHERE schedule_id IN %s
          AND occurrence IS NOT NULL AND running = 0 AND token = 0
          AND NOT EXISTS (SELECT 1 FROM waits WHERE awaits = jobs.id)
        FOR UPDATE
    """
    gone: list[JobId] = await transaction.column(planned, asked)
    await take_out(transaction, gone)
    if gone:
        await transaction.run("DELETE FROM transitions WHERE job_id IN %s", (tuple(gone),))
    await transaction.run(
        """
        DELETE FROM dispositions
        WHERE schedule_id IN %s
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.id = job_id AND token > 0)
        """,
        asked,
    )


async def refuse_taken_keys(transaction: Transaction, keys: Sequence[str]) -> None:
    """Two that come with one key meet at the unique index."""
    sql = "SELECT name_key FROM schedules WHERE name_key IN %s"
    taken = await transaction.column(sql, (tuple(keys),)) if keys else ()
    if taken:
        raise Conflict(f"another schedule has the key {taken[0]!r}; update or delete that one")


async def restore_dispositions(transaction: Transaction, traced: Sequence[Traced]) -> int:
    await lock_schedules(transaction, {one.schedule_id for one in traced})
    rows = [
        (
            one.schedule_id,
            micros(one.disposition.first),
            micros(one.disposition.last),
            one.disposition.job_id,
            one.disposition.reason,
        )
        for one in traced
    ]
    runs = await read_runs(transaction, stretches_of(rows))
    for row in rows:
        runs.take(row)
    await add_dispositions(transaction, runs.new)
    return len(runs.new)


def stretches_of(rows: Sequence[Row]) -> list[Stretch]:
    """One for each schedule, around all that comes for it."""
    found: dict[ScheduleId, Stretch] = {}
    for id, first, last, *_ in rows:
        _, low, high = found.get(id, (id, first, last))
        found[id] = (id, min(low, first), max(high, last))
    return list(found.values())
