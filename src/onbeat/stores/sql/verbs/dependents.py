"""The effects of jobs that end: they leave `jobs`; dependents are freed or cancelled.

A row of `waits` is written only while both its jobs are locked, and deleted only while the waiting
job is locked. So `blocked_by`, read under that lock, changes by the rows written or deleted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.ports.store import Hint
from onbeat.rules.dependents import (
    AddedJob,
    Cascade,
    Wait,
    cancelled_on_arrival,
    refuse_unknown,
)
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.history import note
from onbeat.stores.sql.verbs.jobs import delete_live

WAIT_KEY: Final[Columns] = {"awaits": "uuid", "job_id": "uuid"}
WAIT_COLUMNS: Final[Columns] = {**WAIT_KEY, "any_end": "boolean"}
CASCADE_COLUMNS: Final[Columns] = {"job_id": "uuid", "state": "text"}
ENDED_COLUMNS: Final[Columns] = {"state": "text", "finished_at": "bigint", "reason": "text"}


class LockedJob(msgspec.Struct):
    """A live job, locked until the end of the transaction; `awaited` is kept by PostgreSQL only."""

    id: JobId
    worker: str | None
    blocked_by: int
    awaited: bool = False

    @property
    def is_waiting(self) -> bool:
        return self.worker is None


async def lock_jobs(session: Session, ids: Collection[JobId]) -> dict[JobId, LockedJob]:
    """The live ones among the jobs, locked in the order of ids, so that calls cannot deadlock."""
    if not ids:
        return {}
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    columns = ", ".join(("id", "worker", *session.forms.wait_columns))
    rows = await session.select(columns, rest, tuple(ids))
    jobs = (LockedJob(JobId(str(id)), *values) for id, *values in rows)
    return {job.id: job for job in jobs}


async def rewrite_waits(session: Session, jobs: Iterable[LockedJob]) -> None:
    columns = session.forms.wait_columns
    rows: list[Row] = list(map(attrgetter("id", *columns), jobs))
    await session.update_rows("jobs", {"id": "uuid"}, columns, rows)


# Jobs that are cancelled


async def cancel_waiting(
    session: Session, reasons: Mapping[JobId, str], now: int, *, started_too: bool = True
) -> list[JobId]:
    """Cancel the waiting ones among the jobs, each with its reason; returns their ids.

    Without `started_too` only jobs that never started, including released ones that still have
    `start_by`.
    """
    ids = await move_cancelled(session, reasons, now, started_too=started_too)
    await cascade(session, dict.fromkeys(ids, JobState.CANCELLED), now)
    return ids


async def move_cancelled(
    session: Session, reasons: Mapping[JobId, str], now: int, *, started_too: bool = True
) -> list[JobId]:
    """Move the waiting ones among the jobs to `finished`; returns their ids."""
    rows = await lock_waiting(session, reasons, started_too=started_too) if reasons else ()
    if not rows:
        return []
    attempts: dict[JobId, int] = {JobId(str(id)): attempt for id, attempt, *_ in rows}
    columns: Columns = {**session.forms.jobs.shared, **ENDED_COLUMNS}
    ended = [(*row, "cancelled", now, reasons[id]) for id, row in zip(attempts, rows, strict=True)]
    await session.insert_rows("finished", columns, ended)
    await delete_live(session, attempts)
    await delete_waits(session, attempts)
    notes = [(id, reasons[id], attempt, None) for id, attempt in attempts.items()]
    await note(session, "cancelled", now, notes)
    session.hints.add(Hint.ENDED)
    return list(attempts)


async def delete_waits(session: Session, ids: Collection[JobId]) -> None:
    """These jobs wait for no others any more; their own dependents keep waiting."""
    if ids:
        dialect = session.dialect
        delete = dialect.delete_from("waits", "waits_of_job")
        of_job = dialect.in_list("job_id", "uuid")
        await session.execute(f"{delete} WHERE {of_job}", tuple(ids))


async def lock_waiting(
    session: Session, ids: Collection[JobId], *, started_too: bool
) -> Sequence[Sequence[Any]]:
    """The waiting ones among the jobs, with the columns that `finished` has too."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_waiting}
          {"" if started_too else "AND (token = 0 OR start_by IS NOT NULL)"}
        ORDER BY id
        {dialect.for_update}
    """
    return await session.select(", ".join(session.forms.jobs.shared), rest, tuple(ids))


# Dependents of jobs that have ended


async def cascade(session: Session, ended: Mapping[JobId, str], now: int) -> None:
    """Free or cancel the dependents of these jobs, and the dependents of those it cancels.

    The ended jobs are locked, so that no new job waits for them. Dependents are locked before their
    own dependents are read.
    """
    cascade_state = Cascade(ended)
    blocked: dict[JobId, LockedJob] = {}
    while cascade_state.level:
        waits = await waits_for(session, cascade_state.level, cascade_state.room)
        # Others ended meanwhile; transactions that ended them handle their dependents.
        blocked |= await lock_jobs(session, {wait.job_id for wait in waits})
        cascade_state.take((wait for wait in waits if wait.job_id in blocked), len(waits))
    await free(session, cascade_state.freed_waits(), blocked)
    await move_cancelled(session, cascade_state.cancelled, now)
    await session.insert_rows(
        "cascades",
        CASCADE_COLUMNS,
        list(cascade_state.unfinished.items()),
        session.dialect.or_change("job_id", ["state"]),
    )


async def waits_for(session: Session, ended: Collection[JobId], limit: int) -> list[Wait]:
    dialect = session.dialect
    rest = f"""
        FROM onbeat.waits {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("awaits", "uuid")}
        LIMIT ?
    """
    rows = await session.select("job_id, awaits, any_end", rest, tuple(ended), limit)
    return [Wait(JobId(str(id)), JobId(str(awaits)), bool(any_end)) for id, awaits, any_end in rows]


async def free(session: Session, waits: Sequence[Wait], blocked: Mapping[JobId, LockedJob]) -> None:
    """Delete these waits and unblock their jobs."""
    if not waits:
        return
    keys = [(wait.awaits, wait.job_id) for wait in waits]
    deleted = await session.delete_rows("waits", WAIT_KEY, keys)
    if 0 <= deleted < len(keys):  # it is negative where a caller's driver does not know
        # A dependent was cancelled and retried since its waits were read. The next try reads them
        # again.
        raise Unavailable("a dependent job changed meanwhile; try again")
    for wait in waits:
        blocked[wait.job_id].blocked_by -= 1
    await rewrite_waits(session, (blocked[id] for id in {wait.job_id for wait in waits}))
    session.hints.add(Hint.JOBS)


async def has_cascades(session: Session) -> bool:
    return bool(await session.select("job_id", "FROM onbeat.cascades LIMIT 1"))


async def continue_cascades(session: Session, now: int) -> int:
    """A job that was retried meanwhile is skipped: its dependents wait for it again."""
    begun = await take_cascades(session)
    if begun:
        live = await lock_ended(session, begun)
        ended = {id: state for id, state in begun.items() if id not in live}
        await cascade(session, ended, now)
    return len(begun)


async def take_cascades(session: Session) -> dict[JobId, str]:
    """Some jobs with more dependents, with their state; other processes take others."""
    dialect = session.dialect
    rest = f"FROM onbeat.cascades LIMIT ? {dialect.skip_locked}"
    rows = await session.select("job_id, state", rest, DEPENDENTS_MAX)
    begun: dict[JobId, str] = {JobId(str(id)): state for id, state in rows}
    if begun:
        of_job = dialect.in_list("job_id", "uuid")
        await session.execute(f"DELETE FROM onbeat.cascades WHERE {of_job}", tuple(begun))  # noqa: S608  values are bound
    return begun


async def lock_ended(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Lock the ended jobs against a retry, which then comes after this; returns the live ones."""
    dialect = session.dialect
    chosen = f"{dialect.use_index('PRIMARY')} WHERE {dialect.in_list('id', 'uuid')}"
    ended = f"FROM onbeat.finished {chosen} ORDER BY id {dialect.for_update}"
    await session.select("id", ended, tuple(ids))
    live = await session.select("id", f"FROM onbeat.jobs {chosen}", tuple(ids))
    return {JobId(str(id)) for (id,) in live}


# Jobs that wait for others


async def wait_for_others(
    session: Session, jobs: Sequence[AddedJob[int]], created: Collection[JobId]
) -> None:
    """A new job may wait for stored jobs, and for earlier jobs of the same call."""
    pairs = [(job.id, other) for job in jobs for other in job.after]
    live = await lock_jobs(session, {id for pair in pairs for id in pair})
    states = await states_of_ended(session, {other for _, other in pairs} - live.keys())
    refuse_unknown(jobs, live.keys() | states.keys())
    await add_waits(session, [pair for pair in pairs if pair[0] in created], live)
    for at, reasons in sorted(cancelled_on_arrival(jobs, created, states).items()):
        await cancel_waiting(session, reasons, at)


async def states_of_ended(session: Session, ids: Collection[JobId]) -> dict[JobId, str]:
    if not ids:
        return {}
    dialect = session.dialect
    index = dialect.use_index("PRIMARY")
    rest = f"FROM onbeat.finished {index} WHERE {dialect.in_list('id', 'uuid')}"
    rows = await session.select("id, state", rest, tuple(ids))
    return {JobId(str(id)): state for id, state in rows}


async def add_dependencies(session: Session, pairs: Sequence[tuple[JobId, JobId]]) -> None:
    """Let the first of each pair wait for the success of the second, if that has not ended."""
    await add_waits(session, pairs, await lock_jobs(session, {id for pair in pairs for id in pair}))


async def add_waits(
    session: Session,
    pairs: Sequence[tuple[JobId, JobId]],
    live: Mapping[JobId, LockedJob],
    *,
    any_end: bool = False,
) -> None:
    """Let the first of each pair wait for the second, if it waits and the second is live."""
    possible = [
        (job, other)
        for job, other in dict.fromkeys(pairs)
        if job in live and live[job].is_waiting and other in live
    ]
    known = await stored_waits(session, {job for job, _ in possible if live[job].blocked_by})
    new = [pair for pair in possible if pair not in known] if known else possible
    await session.insert_rows("waits", WAIT_COLUMNS, [(other, job, any_end) for job, other in new])
    marks_awaited = "awaited" in session.forms.wait_columns
    changed: dict[JobId, LockedJob] = {}
    for job, other in new:
        live[job].blocked_by += 1
        changed[job] = live[job]
        if marks_awaited:
            live[other].awaited = True
            changed[other] = live[other]
    await rewrite_waits(session, changed.values())


async def stored_waits(session: Session, ids: Collection[JobId]) -> set[tuple[JobId, JobId]]:
    """The waits of these jobs: of a job that is added once more after a lost answer."""
    if not ids:
        return set()
    dialect = session.dialect
    index = dialect.use_index("waits_of_job")
    rest = f"FROM onbeat.waits {index} WHERE {dialect.in_list('job_id', 'uuid')}"
    rows = await session.select("job_id, awaits", rest, tuple(ids))
    return {(JobId(str(id)), JobId(str(awaits))) for id, awaits in rows}
