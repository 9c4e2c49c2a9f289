"""Dispositions: a job or a skip for each occurrence, stored as runs of instants."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Skip
from onbeat.ports.store import Disposition, DispositionExport
from onbeat.rules.dispositions import Runs
from onbeat.stores.sql.dialect import Argument, Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sql.verbs.schedules import lock_watermarks

DispositionRow = tuple[ScheduleId, int, int, JobId | None, str | None]
"""Schedule, first and last instant of the run, its job, and the reason of a skip."""

DISPOSITION_COLUMNS: Final[Columns] = {
    "schedule_id": "uuid",
    "first": "bigint",
    "last": "bigint",
    "job_id": "uuid",
    "reason": "text",
}


def occurrence_of(job: Job) -> int:
    assert job.occurrence is not None, "a planned job has an occurrence"
    return micros(job.occurrence)


def row_of_job(job: Job) -> DispositionRow:
    assert job.schedule_id is not None, "a planned job has a schedule"
    at = occurrence_of(job)
    return (job.schedule_id, at, at, job.id, None)


def row_of_skip(id: ScheduleId, skip: Skip) -> DispositionRow:
    return (id, micros(skip.first), micros(skip.last), None, skip.reason)


def row_of_export(export: DispositionExport) -> DispositionRow:
    one = export.disposition
    return (export.schedule_id, micros(one.first), micros(one.last), one.job_id, one.reason)


async def add_dispositions(
    session: Session, rows: Sequence[DispositionRow]
) -> list[DispositionRow]:
    """Add the parts of these runs that have no disposition yet, and return them."""
    form = session.forms.dispositions
    spans: Columns = {"schedule_id": "uuid", "first": "bigint", "last": "bigint"}
    rest = f"FROM onbeat.dispositions WHERE schedule_id = params.schedule_id AND {form.within}"
    runs = Runs()
    columns = "schedule_id, first, last"
    for id, first, last in await session.select_each(columns, rest, spans, time_ranges(rows)):
        runs.add_stored(ScheduleId(str(id)), first, last)
    added = [
        (id, *part, job_id, reason)
        for id, first, last, job_id, reason in rows
        for part in runs.take(id, first, last)
    ]
    await insert_dispositions(session, added)
    return added


async def insert_dispositions(session: Session, rows: Sequence[DispositionRow]) -> None:
    """The caller knows that no other run begins at the same instants."""
    ending = session.dialect.unless_there(*session.forms.dispositions.key)
    await session.insert_rows("dispositions", DISPOSITION_COLUMNS, rows, ending)


def time_ranges(rows: Sequence[DispositionRow]) -> list[tuple[ScheduleId, int, int]]:
    """For each schedule the first and last instant of its rows."""
    result: dict[ScheduleId, tuple[ScheduleId, int, int]] = {}
    for id, first, last, *_ in rows:
        _, low, high = result.get(id, (id, first, last))
        result[id] = (id, min(low, first), max(high, last))
    return list(result.values())


async def select_dispositions(
    session: Session, rest: str, *values: Argument
) -> list[DispositionExport]:
    rows = await session.select(", ".join(DISPOSITION_COLUMNS), rest, *values)
    return [read_disposition(row) for row in rows]


def read_disposition(row: Sequence[Any]) -> DispositionExport:
    id, first, last, job_id, reason = row
    disposition = Disposition(
        first=instant(first),
        last=instant(last),
        job_id=None if job_id is None else JobId(str(job_id)),
        reason=reason,
    )
    return DispositionExport(ScheduleId(str(id)), disposition)


async def dispositions(
    session: Session, id: ScheduleId, first: int, last: int
) -> Sequence[Disposition]:
    form = session.forms.dispositions
    since, values = form.since(id, first)
    rest = f"""
        FROM onbeat.dispositions
        WHERE schedule_id = ? AND {since} AND first <= ?
        ORDER BY {form.end}
    """
    rows = await select_dispositions(session, rest, id, *values, last)
    return [row.disposition for row in rows]


async def latest_dispositions(
    session: Session, id: ScheduleId, before: int, limit: int
) -> Sequence[Disposition]:
    end = session.forms.dispositions.end
    rest = f"""
        FROM onbeat.dispositions {session.dialect.use_index("PRIMARY")}
        WHERE schedule_id = ? AND {end} < ? AND last < ?
        ORDER BY {end} DESC
        LIMIT ?
    """
    rows = await select_dispositions(session, rest, id, before, before, limit)
    return [row.disposition for row in rows]


async def export_dispositions(
    session: Session, after: tuple[ScheduleId, datetime] | None, limit: int
) -> Sequence[DispositionExport]:
    """Reads one range of the index for the rest of a schedule, and one for the other schedules."""
    end = session.forms.dispositions.end
    table = f"onbeat.dispositions {session.dialect.use_index('PRIMARY')}"
    rest: list[DispositionExport] = []
    others: tuple[str, tuple[Argument, ...]] = "TRUE", ()
    if after is not None:
        id, first = after[0], micros(after[1])
        condition = f"schedule_id = ? AND {end} > ? AND first > ?"
        rest = await select_dispositions(
            session,
            f"FROM {table} WHERE {condition} ORDER BY {end} LIMIT ?",
            *(id, first, first, limit),
        )
        others = "schedule_id > ?", (id,)
    return [
        *rest,
        *await select_dispositions(
            session,
            f"FROM {table} WHERE {others[0]} ORDER BY schedule_id, {end} LIMIT ?",
            *(*others[1], limit - len(rest)),
        ),
    ]


async def free_instant(session: Session, id: ScheduleId, at: int) -> bool:
    """Whether the instant has no job yet; splits a run of skips around it."""
    form = session.forms.dispositions
    rest = f"FROM onbeat.dispositions WHERE schedule_id = ? AND {form.nearest} LIMIT 1"
    columns = "first, last, job_id, reason"
    for first, last, job_id, reason in await session.select(columns, rest, id, at):
        if not first <= at <= last:
            continue
        if job_id is not None:
            return False
        end = first if form.end == "first" else last
        await session.delete_rows("dispositions", form.key, [(id, end)])
        parts = ((first, at - 1), (at + 1, last))
        rows = [(id, low, high, None, reason) for low, high in parts if low <= high]
        await insert_dispositions(session, rows)
    return True


async def replace_skips(session: Session, id: ScheduleId, skip: Skip) -> None:
    """Store this skip in place of those that it overlaps."""
    row = row_of_skip(id, skip)
    _, first, last, *_ = row
    await session.execute(
        """
        DELETE FROM onbeat.dispositions
        WHERE schedule_id = ? AND job_id IS NULL AND first <= ? AND last >= ?
        """,
        *(id, last, first),
    )
    await add_dispositions(session, [row])


async def import_dispositions(session: Session, exports: Sequence[DispositionExport]) -> int:
    await lock_watermarks(session, {one.schedule_id for one in exports})
    return len(await add_dispositions(session, list(map(row_of_export, exports))))


async def forget_dispositions_after(
    session: Session, id: ScheduleId, now: int, void: Collection[JobId] | None
) -> None:
    """Forget skips, and the dispositions of the void jobs; None stands for all jobs."""
    is_void = "TRUE"
    values: tuple[Argument, ...] = ()
    if void is not None:
        is_void = f"(job_id IS NULL OR {session.dialect.in_list('job_id', 'uuid')})"
        values = (tuple(void),)
    sql = f"DELETE FROM onbeat.dispositions WHERE schedule_id = ? AND first > ? AND {is_void}"  # noqa: S608  values are bound
    await session.execute(sql, id, now, *values)
    sql = """
        UPDATE onbeat.dispositions SET last = ? WHERE schedule_id = ? AND first <= ? AND last > ?
    """
    await session.execute(sql, now, id, now, now)
