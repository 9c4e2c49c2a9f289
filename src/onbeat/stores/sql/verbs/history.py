"""A job's history: its attempts, and its transitions by operators or policies."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeVar

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.transition import Transition
from onbeat.ports.store import JobExport
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant

Kept = TypeVar("Kept", Attempt, Transition)

ATTEMPT_COLUMNS: Final[Columns] = {"job_id": "uuid", "token": "integer", "record": "text"}
HISTORIES: Final = (
    ("attempts", "PRIMARY"),
    ("transitions", "transitions_of_job"),
    ("job_logs", "PRIMARY"),
)
"""Tables with rows of a job, and the index that finds these."""


async def add_attempts(session: Session, rows: Sequence[Row]) -> None:
    """Rows of job id, token and record; existing rows are kept."""
    ending = session.dialect.unless_there("job_id", "token")
    await session.insert_rows("attempts", ATTEMPT_COLUMNS, rows, ending)


async def add_transitions(session: Session, rows: Sequence[Row]) -> None:
    """Rows in the column order of this database's form of transitions."""
    await session.insert_rows("transitions", session.forms.transitions.columns, rows)


async def note(
    session: Session,
    went: str,
    at: int,
    notes: Iterable[tuple[JobId, str, int, WorkerId | None]],
) -> None:
    """Record that jobs went to a state: for each its cause, attempt and worker."""
    steps = (
        Transition(job_id=id, at=instant(at), to=went, cause=cause, attempt=attempt, worker=worker)
        for id, cause, attempt, worker in notes
    )
    await add_transitions(session, list(map(session.forms.transitions.row, steps)))


async def delete_histories(session: Session, ids: Collection[JobId]) -> None:
    """Delete the attempts, transitions and log lines of the jobs."""
    if not ids:
        return
    dialect = session.dialect
    of_job = dialect.in_list("job_id", "uuid")
    for table, index in HISTORIES:
        sql = f"{dialect.delete_from(table, index)} WHERE {of_job}"
        await session.execute(sql, tuple(ids))


async def attempts(session: Session, id: JobId) -> Sequence[Attempt]:
    return (await attempts_of(session, [id])).get(id, [])


async def attempts_of(session: Session, ids: Collection[JobId]) -> dict[JobId, list[Attempt]]:
    """In the order of their start. The last attempt may be stored in the job's row."""
    form, dialect = session.forms.attempts, session.dialect
    by_key = dialect.use_index("PRIMARY")
    rest = f"""
        FROM (SELECT {form.kept} FROM onbeat.attempts {by_key}
              WHERE {dialect.in_list("job_id", "uuid")}
              UNION ALL
              SELECT {form.ending} FROM onbeat.finished {by_key}
              WHERE {dialect.in_list("id", "uuid")} AND {form.has_ending}) AS all_attempts
        ORDER BY job_id, token
    """  # noqa: S608  values are bound
    rows = await session.select(form.columns, rest, tuple(ids), tuple(ids))
    return by_job(map(form.read, rows))


async def transitions(session: Session, id: JobId) -> Sequence[Transition]:
    return (await transitions_of(session, [id])).get(id, [])


async def transitions_of(session: Session, ids: Collection[JobId]) -> dict[JobId, list[Transition]]:
    """In the order in which they were stored."""
    form, chosen = session.forms.transitions, session.dialect.in_list("job_id", "uuid")
    rest = f"FROM onbeat.transitions WHERE {chosen} ORDER BY job_id, seq"
    return by_job(map(form.read, await session.select(form.names, rest, tuple(ids))))


def by_job(records: Iterable[Kept]) -> dict[JobId, list[Kept]]:
    result: dict[JobId, list[Kept]] = {}
    for record in records:
        result.setdefault(record.job_id, []).append(record)
    return result


async def exports_of(session: Session, jobs: Sequence[Job]) -> list[JobExport]:
    """The jobs, each with its attempts and transitions."""
    ids = [job.id for job in jobs]
    attempts = await attempts_of(session, ids)
    transitions = await transitions_of(session, ids)
    return [
        JobExport(
            job=job,
            attempts=tuple(attempts.get(job.id, ())),
            transitions=tuple(transitions.get(job.id, ())),
        )
        for job in jobs
    ]
