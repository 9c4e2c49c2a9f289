"""Another due time for waiting jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.rules.reschedule import with_due_time
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.history import note
from onbeat.stores.sql.verbs.jobs import job

CHANGED: Final = ("due_at", "start_by")


async def reschedule(session: Session, id: JobId, due_at: int, now: int) -> Job | None:
    form, dialect = session.forms.jobs, session.dialect
    rest = f"""
        FROM onbeat.{form.live.view} {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_waiting}
        {dialect.for_update}
    """
    waiting = [form.read(row) for row in await session.select(form.live.columns, rest, (id,))]
    await give_due_times(session, [(one, instant(due_at)) for one in waiting], "by hand", now)
    return await job(session, id)


async def give_due_times(
    session: Session, jobs: Sequence[tuple[Job, datetime]], cause: str, now: int
) -> None:
    """Give waiting jobs, which the transaction has locked, other due times."""
    if not jobs:
        return
    new = session.forms.jobs.new
    columns: Columns = {**{name: new[name] for name in CHANGED}, "lapsed": "boolean"}
    rows = [row_of(session, one, due_at) for one, due_at in jobs]
    await session.update_rows("jobs", {"id": "uuid"}, columns, rows)
    notes = [(one.id, cause, one.attempt, None) for one, _ in jobs]
    await note(session, "rescheduled", now, notes)
    session.hints.add(Hint.JOBS)


def row_of(session: Session, job: Job, due_at: datetime) -> Row:
    form = session.forms.jobs
    values = dict(zip(form.new, form.row(with_due_time(job, due_at)), strict=True))
    return (job.id, *(values[name] for name in CHANGED), False)
