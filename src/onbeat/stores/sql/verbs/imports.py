"""Imports of schedules, and of jobs with their history, from another store."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Hint, JobExport
from onbeat.rules.merge import as_imported, edited_since, is_further, newer_schedules
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.forms import Forms, JobForm
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import micros, micros_or_none, text_or_none, to_json
from onbeat.stores.sql.verbs.dependents import (
    add_dependencies,
    awaited_among,
    cascade,
    delete_waits,
    lock_jobs,
    rewrite_waits,
)
from onbeat.stores.sql.verbs.edit_schedules import follow, hold_jobs
from onbeat.stores.sql.verbs.flows import wait_for_flows
from onbeat.stores.sql.verbs.history import (
    add_attempts,
    add_transitions,
    delete_histories,
    exports_of,
)
from onbeat.stores.sql.verbs.jobs import delete_ended, delete_live
from onbeat.stores.sql.verbs.schedules import hold_schedules, lock_schedules, put_schedules

# Schedules


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
    await delete_live(session, gone)
    await delete_waits(session, gone)
    await delete_histories(session, gone)
    sql = f"""
        DELETE FROM onbeat.dispositions
        WHERE {of_schedule}
          AND NOT EXISTS (SELECT 1 FROM onbeat.jobs
                          WHERE onbeat.jobs.id = job_id AND token > 0)
          AND NOT EXISTS (SELECT 1 FROM onbeat.finished
                          WHERE onbeat.finished.id = job_id AND token > 0)
    """  # noqa: S608  values are bound
    await session.execute(sql, tuple(schedules))


# Jobs


GAINED: Final[Columns] = {
    "token": "integer",
    "attempt": "integer",
    "lost": "smallint",
    "released": "smallint",
    "started_at": "bigint",
    "reason": "text",
    "cancel_reason": "text",
    "result": "text",
    "error": "text",
    "fault": "bigint",
    "progress": "text",
}
"""What a job has gained since it was new, live or ended."""


def gained_row(job: Job) -> Row:
    return (
        job.token,
        job.attempt,
        job.lost,
        job.released,
        micros_or_none(job.started_at),
        job.reason,
        job.cancel_reason,
        text_or_none(job.result),
        job.error,
        job.fault,
        None if job.progress is None else to_json(job.progress),
    )


async def import_jobs(session: Session, exports: Sequence[JobExport]) -> int:
    """Store all jobs first, then free the dependents of ended ones, then add dependencies."""
    first = {export.job.id: export for export in reversed(exports)}
    coming = [first[id] for id in sorted(first)]
    if not coming:
        return 0
    schedules = {one.job.schedule_id for one in coming if one.job.schedule_id is not None}
    paused = await hold_schedules(session, schedules)
    here = await lock_exports(session, list(first))
    further = [
        msgspec.structs.replace(one, job=as_imported(one.job))
        for one in coming
        if is_further(one, here.get(one.job.id))
    ]
    stored = await replace_jobs(session, further, here, paused)
    await replace_histories(session, stored, here)
    await connect_dependents(session, [one.job for one in stored])
    if stored:
        session.hints.update((Hint.JOBS, Hint.ENDED))
    return len(stored)


async def lock_exports(session: Session, ids: Sequence[JobId]) -> dict[JobId, JobExport]:
    """What is stored of the jobs, locked until the commit.

    Ended jobs are read last: a job that ends during the read of live ones is found among them.
    """
    dialect, form = session.dialect, session.forms.jobs
    jobs: list[Job] = []
    for table in (form.live, form.ended):
        rest = f"""
            FROM onbeat.{table.view} {dialect.use_index("PRIMARY")}
            WHERE {dialect.in_list("id", "uuid")}
            ORDER BY id
            {dialect.for_update}
        """
        jobs += map(form.read, await session.select(table.columns, rest, tuple(ids)))
    return {export.job.id: export for export in await exports_of(session, jobs)}


async def replace_jobs(
    session: Session,
    exports: Sequence[JobExport],
    here: Mapping[JobId, JobExport],
    paused: Collection[ScheduleId],
) -> list[JobExport]:
    """Returns the exports that were stored.

    A live job whose unique key another live job holds is left out; its ended row here stays.
    """
    live_here = [one.job.id for one in exports if is_live(here, one.job.id)]
    await delete_live(session, live_here)
    await delete_waits(session, live_here)
    # Those that were live here keep their unique keys, so they come first.
    live = sorted(
        (one.job for one in exports if not one.job.is_final),
        key=lambda job: not is_live(here, job.id),
    )
    added = await insert_live(session, live, paused)
    stored = [one for one in exports if one.job.is_final or one.job.id in added]
    await delete_ended(session, [one.job.id for one in stored if one.job.id in here])
    await insert_ended(session, [one for one in stored if one.job.is_final])
    return stored


def is_live(here: Mapping[JobId, JobExport], id: JobId) -> bool:
    return id in here and not here[id].job.is_final


async def insert_live(
    session: Session, jobs: Sequence[Job], paused: Collection[ScheduleId]
) -> Collection[JobId]:
    """Returns the ids of the jobs that were added."""
    form = session.forms.jobs
    rest: Columns = {form.cursor: "text", "suspicion": "text", "held": "boolean"}
    rows = [live_row(form, job, held=job.schedule_id in paused) for job in jobs]
    added = await session.insert_rows(
        "jobs", {**form.new, **GAINED, **rest}, rows, session.dialect.unless_taken
    )
    ids = [job.id for job in jobs]
    return ids if added == len(rows) else (await lock_jobs(session, ids)).keys()


def live_row(form: JobForm, job: Job, *, held: bool) -> Row:
    suspicion = None if job.suspicion is None else to_json(job.suspicion)
    return (*form.row(job), *gained_row(job), text_or_none(job.cursor), suspicion, held)


async def insert_ended(session: Session, exports: Sequence[JobExport]) -> None:
    """An ended job has no group any more."""
    forms = session.forms
    new: Columns = {name: kind for name, kind in forms.jobs.new.items() if name != "grp"}
    end: Columns = {
        "state": "text",
        "finished_at": "bigint",
        "cause_id": "uuid",
        **forms.attempts.end_columns,
    }
    rows = [ended_row(forms, export) for export in exports]
    await session.insert_rows("finished", {**new, **GAINED, **end}, rows)


def ended_row(forms: Forms, export: JobExport) -> Row:
    """The attempt that ended the job is stored with it."""
    job = export.job
    named = zip(forms.jobs.new, forms.jobs.row(job), strict=True)
    new = (value for name, value in named if name != "grp")
    end = (job.state.value, micros_or_none(job.finished_at), job.cause_id)
    return (*new, *gained_row(job), *end, *forms.attempts.end_row(job, last_attempt(export)))


def last_attempt(export: JobExport) -> Attempt | None:
    """The attempt that ended the job."""
    if not export.job.is_final:
        return None
    mine = (one for one in reversed(export.attempts) if one.token == export.job.token)
    return next(mine, None)


async def replace_histories(
    session: Session, exports: Sequence[JobExport], here: Mapping[JobId, JobExport]
) -> None:
    known = [one.job.id for one in exports if one.job.id in here]
    await delete_histories(session, known)
    attempts = [attempt for export in exports for attempt in earlier_attempts(export)]
    await add_attempts(session, [(one.job_id, one.token, to_json(one)) for one in attempts])
    step_row = session.forms.transitions.row
    await add_transitions(session, [step_row(step) for one in exports for step in one.transitions])


def earlier_attempts(export: JobExport) -> list[Attempt]:
    """Those that did not end the job."""
    last = last_attempt(export)
    return [attempt for attempt in export.attempts if attempt is not last]


async def connect_dependents(session: Session, jobs: Sequence[Job]) -> None:
    """Free or cancel the dependents of ended jobs, at the instant of that end.

    Live jobs are marked if others wait for them here, and wait for those that they come after.
    """
    awaited = await awaited_among(session, [job.id for job in jobs])
    for job in jobs:
        if job.id in awaited and job.finished_at is not None:
            await cascade(session, {job.id: job.state}, micros(job.finished_at))
    waiting = [job for job in jobs if not job.is_final]
    marked = await lock_jobs(session, {job.id for job in waiting} & awaited)
    for one in marked.values():
        one.awaited = True
    await rewrite_waits(session, marked.values())
    await add_dependencies(session, waiting)
    await wait_for_flows(session, waiting)
