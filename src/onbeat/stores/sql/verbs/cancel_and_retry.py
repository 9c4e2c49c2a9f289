"""What a caller does to jobs."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros_or_none, to_json
from onbeat.stores.sql.verbs.dependents import (
    add_dependencies,
    cancel_waiting,
    lock_jobs,
)
from onbeat.stores.sql.verbs.history import add_attempts, attempts_of, note
from onbeat.stores.sql.verbs.jobs import delete_ended, jobs_by_id
from onbeat.stores.sql.verbs.overlap import ask_to_stop
from onbeat.stores.sql.verbs.schedules import hold_schedules

AGAIN_COLUMNS: Final[Columns] = {"token": "integer", "started_at": "bigint", "held": "boolean"}


async def cancel(session: Session, ids: Sequence[JobId], reason: str, now: int) -> list[Job | None]:
    """All are locked first, so that none is claimed or released between the steps."""
    live = (await lock_jobs(session, ids)).values()
    await ask_to_stop(session, [one.id for one in live if not one.is_waiting], reason, now)
    await cancel_waiting(session, {one.id: reason for one in live if one.is_waiting}, now)
    jobs = await jobs_by_id(session, ids)
    return [jobs.get(id) for id in ids]


async def cancel_overdue(session: Session, ids: Sequence[JobId], reason: str, now: int) -> int:
    reasons = dict.fromkeys(ids, reason)
    return len(await cancel_waiting(session, reasons, now, started_too=False))


async def retry(session: Session, ids: Sequence[JobId], now: int) -> list[Job | None]:
    chosen = await lock_unsuccessful(session, ids)
    if chosen:
        notes = [(one.id, "by hand", one.attempt, None) for one in chosen]
        await note(session, "retried", now, notes)
        await move_back(session, chosen, now)
        await add_dependencies(session, [(one.id, other) for one in chosen for other in one.after])
        session.hints.add(Hint.JOBS)
    jobs = await jobs_by_id(session, ids)
    return [jobs.get(id) for id in ids]


async def lock_unsuccessful(session: Session, ids: Sequence[JobId]) -> list[Job]:
    form, dialect = session.forms.jobs, session.dialect
    rest = f"""
        FROM onbeat.{form.ended.view} {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND state IN ('failed', 'cancelled')
        ORDER BY id
        {dialect.for_update}
    """
    return list(map(form.read, await session.select(form.ended.columns, rest, tuple(ids))))


async def move_back(session: Session, chosen: Sequence[Job], now: int) -> None:
    """Make ended jobs live again, as new but for `started_at` and the token, which never falls."""
    ids = [one.id for one in chosen]
    last = [attempts[-1] for attempts in (await attempts_of(session, ids)).values()]
    await add_attempts(session, [(one.job_id, one.token, to_json(one)) for one in last])
    await delete_ended(session, ids)
    dialect, forms = session.dialect, session.forms
    schedules = {one.schedule_id for one in chosen if one.schedule_id is not None}
    paused = await hold_schedules(session, schedules)
    rows = [row_again(session, one, now, held=one.schedule_id in paused) for one in chosen]
    columns: Columns = {**forms.jobs.new, **AGAIN_COLUMNS, **forms.wait_columns}
    if await session.insert_rows("jobs", columns, rows, dialect.unless_taken) < len(rows):
        raise Conflict("a live job has the same unique key; cancel it or let it end")


def row_again(session: Session, job: Job, now: int, *, held: bool) -> Row:
    """Others may still wait for the job."""
    fresh = replace(job, due_at=instant(now), start_by=None, expires_at=None)
    row = session.forms.jobs.row(fresh)
    waits = {"blocked_by": 0, "awaited": True}
    return (
        *row,
        job.token,
        micros_or_none(job.started_at),
        held,
        *(waits[name] for name in session.forms.wait_columns),
    )
