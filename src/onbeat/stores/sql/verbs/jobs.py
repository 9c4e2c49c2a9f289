"""Reads jobs by id and in pages, and deletes live ones."""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Final

from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.model.page import JobFilter, OccurrenceFilter, Page
from onbeat.ports.store import JobExport
from onbeat.stores.sql.dialect import Argument
from onbeat.stores.sql.forms import JobForm, JobTable
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.history import exports_of

INDEXES: Final = {
    JobState.RUNNING: "jobs_running",
    JobState.FAILED: "finished_badly",
    JobState.CANCELLED: "finished_badly",
}
"""The index for jobs of a state. Other states are most of a table and are read by id."""


FINAL: Final = ("succeeded", "failed", "cancelled")


async def job(session: Session, id: JobId) -> Job | None:
    return (await jobs_by_id(session, [id])).get(id)


async def jobs_by_id(session: Session, ids: Collection[JobId]) -> dict[JobId, Job]:
    """One statement, so that a job that ends during the read is found in one of both tables."""
    form, dialect = session.forms.jobs, session.dialect
    chosen = f"{dialect.use_index('PRIMARY')} WHERE {dialect.in_list('id', 'uuid')}"
    rest = f"""
        FROM onbeat.{form.live.view} {chosen}
        UNION ALL
        SELECT {form.ended.columns} FROM onbeat.{form.ended.view} {chosen}
    """  # noqa: S608  values are bound
    rows = await session.select(form.live.columns, rest, tuple(ids), tuple(ids))
    return {one.id: one for one in map(form.read, rows)}


async def delete_live(session: Session, ids: Collection[JobId]) -> int:
    """Delete jobs that are in `finished` now, or are stored anew."""
    return await delete_by_id(session, "jobs", ids)


async def delete_ended(session: Session, ids: Collection[JobId]) -> int:
    """Delete jobs that are live again, are stored anew, or are pruned."""
    return await delete_by_id(session, "finished", ids)


async def delete_by_id(session: Session, table: str, ids: Collection[JobId]) -> int:
    dialect = session.dialect
    sql = f"{dialect.delete_from(table)} WHERE {dialect.in_list('id', 'uuid')}"
    return await session.execute(sql, tuple(ids)) if ids else 0


async def jobs(session: Session, filter: JobFilter) -> Page[Job]:
    """Those that an index knows. There is no total, as counting all jobs is expensive."""
    form, state = session.forms.jobs, filter.state
    request: dict[str, Argument] = {
        "id < ?": filter.before,
        "schedule_id = ?": filter.schedule_id,
        "flow = ?": filter.flow,
        "fault = ?": filter.fault,
    }
    bounds = {text: value for text, value in request.items() if value is not None}
    where = " AND ".join([*bounds, "TRUE" if state is None else form.states[state]])
    tables = [form.live, form.ended]
    if state is not None:
        tables = [form.ended if state in FINAL_STATES else form.live]
    listed = [
        (table, listing_index(table, filter), part)
        for table in tables
        for part in listing_parts(form, table, filter, where)
    ]
    values: tuple[Argument, ...] = (*bounds.values(), filter.limit + 1)
    found = await select_first(session, listed, "id DESC", values)
    found.sort(key=attrgetter("id"), reverse=True)
    items = tuple(found[: filter.limit])
    more = len(found) > filter.limit and items
    return Page(items=items, cursor=items[-1].id if more else None)


def listing_parts(form: JobForm, table: JobTable, filter: JobFilter, where: str) -> list[str]:
    """The conditions under which the table is read, each in the order of ids by its index.

    The indexes of faults and flows have the state of ended jobs before their ids.
    """
    if table.name == form.live.name:
        return [where]
    return [f"{where} AND {part}" for part in ended_parts(form, filter)] or [where]


def ended_parts(form: JobForm, filter: JobFilter) -> Sequence[str]:
    """The conditions by which the index of a fault or a flow is read; none for other indexes."""
    if filter.state is not None:
        return []
    if filter.fault is not None:  # a job that succeeded has none
        return [form.states[state] for state in (JobState.FAILED, JobState.CANCELLED)]
    # Other conditions of states are written so that an index of states alone is left aside.
    return [f"state = '{state}'" for state in FINAL] if filter.flow is not None else []


def listing_index(table: JobTable, filter: JobFilter) -> str:
    if filter.fault is not None:
        return f"{table.name}_of_fault"
    if filter.flow is not None:
        return f"{table.name}_of_flow"
    if filter.schedule_id is not None:
        return table.schedule_index
    return "PRIMARY" if filter.state is None else INDEXES.get(filter.state, "PRIMARY")


async def export_jobs(session: Session, after: JobId | None, limit: int) -> Sequence[JobExport]:
    """A job that ends during the export keeps its earlier state and attempts."""
    form = session.forms.jobs
    bounds: dict[str, Argument] = {} if after is None else {"id > ?": after}
    where = next(iter(bounds), "TRUE")
    tables = [(table, "PRIMARY", where) for table in (form.live, form.ended)]
    found = await select_first(session, tables, "id", (*bounds.values(), limit))
    return await exports_of(session, sorted(found, key=attrgetter("id"))[:limit])


async def select_first(
    session: Session,
    chosen: Sequence[tuple[JobTable, str, str]],
    order: str,
    values: tuple[Argument, ...],
) -> list[Job]:
    """The first jobs of each table by an index and a condition, in one statement.

    The values are the same for each; the last one is the limit.
    """
    form, use_index = session.forms.jobs, session.dialect.use_index
    first = (
        table.select_first.format(index=use_index(index), where=where, order=order)
        for table, index, where in chosen
    )
    parts = (f"SELECT * FROM ({text}) AS part{number}" for number, text in enumerate(first))  # noqa: S608  values are bound
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS chosen"
    rows = await session.select(form.all_columns, rest, *(values * len(chosen)))
    return list(map(form.read, rows))


async def occurrence_jobs(session: Session, filter: OccurrenceFilter) -> Page[Job]:
    """There is no total, as counting them all is expensive."""
    table = session.forms.jobs.ended if filter.ended else session.forms.jobs.live
    index = session.dialect.use_index(f"{table.name}_by_occurrence")
    # Two walks along one index: jobs without an occurrence come by their due time.
    walks = [
        f"""
        SELECT id, due_at, {at} AS run_time FROM (
          SELECT id, due_at, occurrence FROM onbeat.{table.name} {index}
          WHERE schedule_id = ? AND {which}
          ORDER BY {order}due_at DESC, id DESC
          LIMIT ?
        ) AS {name}
        """  # noqa: S608  values are bound
        for name, at, which, order in (
            ("planned", "occurrence", "occurrence IS NOT NULL", "occurrence DESC, "),
            ("others", "due_at", "occurrence IS NULL", session.dialect.of_null("occurrence")),
        )
    ]
    rest = f"""
        FROM ({" UNION ALL ".join(walks)}) AS chosen
        ORDER BY run_time DESC, due_at DESC, id DESC
        LIMIT ? OFFSET ?
    """
    walked = (filter.schedule_id, filter.offset + filter.limit)
    rows = await session.select("id", rest, *walked, *walked, filter.limit, filter.offset)
    ids = [JobId(str(id)) for (id,) in rows]
    found = await jobs_by_id(session, ids) if ids else {}
    listed = (found[id] for id in ids if id in found)
    return Page(items=tuple(job for job in listed if job.is_final == filter.ended))
