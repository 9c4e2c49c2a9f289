"""What a caller does to jobs."""

from collections.abc import Mapping, Sequence
from typing import Final

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import RETURNING_MAX
from onbeat.ports.store import Hint
from onbeat.rules.dependents import (
    LEVEL_COST,
    Doom,
    causes_in,
    is_lost,
    stay_cancelled,
    with_cause,
)
from onbeat.rules.reschedule import as_tried_again
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros_or_none, to_json
from onbeat.stores.sql.verbs.dependents import (
    add_cascades,
    add_dependencies,
    cancel_waiting,
    lock_jobs,
    states_of_ended,
)
from onbeat.stores.sql.verbs.flows import wait_again_for_flows, wait_for_flows
from onbeat.stores.sql.verbs.held_keys import holders
from onbeat.stores.sql.verbs.history import add_attempts, attempts_of, note
from onbeat.stores.sql.verbs.jobs import delete_ended, jobs_by_id
from onbeat.stores.sql.verbs.overlap import ask_to_stop
from onbeat.stores.sql.verbs.schedules import hold_schedules

LOOKS_MAX: Final = 3
"""For jobs to cancel or retry; each but the first is for those that changed since the last one."""

AGAIN_COLUMNS: Final[Columns] = {
    "token": "integer",
    "started_at": "bigint",
    "fault": "bigint",
    "held": "boolean",
}


async def cancel(session: Session, ids: Sequence[JobId], reason: str, now: int) -> list[Job | None]:
    """All are locked first, so that none is claimed or released between the steps.

    A job that the end of another has cancelled gets the reason too: a retry of that one would
    bring it back.
    """
    jobs: Mapping[JobId, Job] = {}
    missed: Sequence[JobId] = ids
    for _ in range(LOOKS_MAX):
        live = (await lock_jobs(session, missed)).values()
        await ask_to_stop(session, [one.id for one in live if not one.is_waiting], reason, now)
        await cancel_waiting(session, {one.id: reason for one in live if one.is_waiting}, now)
        jobs = await jobs_by_id(session, ids)
        await confirm_cancelled(
            session, [one for one in jobs.values() if may_return(one)], reason, now
        )
        # A job that was retried after the first look would be shown as one that goes on.
        missed = [id for id in ids if id in jobs and may_go_on(jobs[id])]
        if not missed:
            break
    return [jobs.get(id) for id in ids]


def may_go_on(job: Job) -> bool:
    """Whether the job is live, or would be with another one, and nobody has asked it to stop."""
    return may_return(job) or (not job.is_final and job.cancel_reason is None)


def may_return(job: Job) -> bool:
    """Whether a retry of the job whose end cancelled this one would bring it back."""
    is_caused = job.state is JobState.CANCELLED and job.cause_id is not None
    return is_caused and job.cancel_reason is None


async def confirm_cancelled(
    session: Session, cancelled: Sequence[Job], reason: str, now: int
) -> None:
    """Note on jobs that another one's end has cancelled that somebody wants them to stay so."""
    if not cancelled:
        return
    locked = await lock_unsuccessful(session, [one.id for one in cancelled])
    chosen = [one for one in locked if may_return(one)]
    reasons = [(one.id, reason) for one in chosen]
    await session.update_rows("finished", {"id": "uuid"}, {"cancel_reason": "text"}, reasons)
    notes = [(one.id, reason, one.attempt, None) for one in chosen]
    await note(session, "cancel requested", now, notes)


async def cancel_overdue(session: Session, ids: Sequence[JobId], reason: str, now: int) -> int:
    reasons = dict.fromkeys(ids, reason)
    return len(await cancel_waiting(session, reasons, now, started_too=False))


async def retry(
    session: Session,
    ids: Sequence[JobId],
    now: int,
    *,
    dependents: bool = True,
    at_once: bool = True,
) -> list[Job | None]:
    jobs: Mapping[JobId, Job] = {}
    missed: Sequence[JobId] = ids
    for _ in range(LOOKS_MAX):
        chosen = await lock_unsuccessful(session, missed)
        if chosen:
            again = await cancelled_with(session, chosen) if dependents else []
            await try_again(session, chosen, again, now, at_once=at_once)
        jobs = await jobs_by_id(session, ids)
        # A job that ended after the first look would be shown as one that was not retried.
        missed = [id for id in ids if id in jobs and is_lost(jobs[id].state)]
        if not missed:
            break
    return [jobs.get(id) for id in ids]


async def refuse_held(session: Session, chosen: Sequence[Job], now: int) -> None:
    held = await holders(session, {job.unique for job in chosen if job.unique is not None}, now)
    for job in chosen:
        holder = held.get(job.unique or "", job.id)
        if holder != job.id:
            raise Conflict(f"job {holder} has ended and holds the unique key of {job.id}")


async def try_again(
    session: Session,
    chosen: Sequence[Job],
    dependents: Sequence[Job],
    now: int,
    *,
    at_once: bool = True,
) -> None:
    """Let these jobs wait again, and with them the dependents that were cancelled with them."""
    at = instant(now)
    first = [as_tried_again(one, at, at_once=at_once) for one in chosen]
    back = [as_tried_again(one, at, at_once=False) for one in dependents]
    again = [*first, *back]
    await refuse_held(session, again, now)
    notes = [(one.id, "by hand", one.attempt, None) for one in chosen]
    notes += [(one.id, with_cause(one), one.attempt, None) for one in dependents]
    await note(session, "retried", now, notes)
    await move_back(session, again)
    await add_dependencies(session, again)
    await wait_again_for_flows(session, first)
    await wait_for_flows(session, back)
    session.hints.add(Hint.JOBS)


async def cancelled_with(session: Session, causes: Sequence[Job]) -> list[Job]:
    """The jobs that were cancelled because of these, and because of those, locked.

    The end of a flow is the end of its members: it is live again with one of them.
    Left out are those that were cancelled by request as well, sensitive ones, whose payload is
    gone, and those that another ended job keeps from running: that one becomes their cause. Where
    there are very many, the rest comes later.
    """
    found: dict[JobId, Job] = {one.id: one for one in causes}
    level = causes_in(causes)
    room = RETURNING_MAX
    while level and room > 0:
        ids = await caused_by(session, level, room)
        room -= max(len(ids), LEVEL_COST)
        if room <= 0:
            await add_cascades(session, dict.fromkeys((*level, *ids), JobState.WAITING))
        locked = await lock_unsuccessful(session, ids)
        await forget_causes(session, [one.id for one in locked if one.sensitive])
        new = [one for one in locked if one.id not in found and may_return(one)]
        new = [one for one in new if not one.sensitive]
        found |= {one.id: one for one in new}
        level = causes_in(new)
    candidates = list(found.values())[len(causes) :]
    others = {other for one in candidates for other in one.after} - found.keys()
    stay = stay_cancelled(candidates, await states_of_ended(session, others))
    await change_causes(session, stay)
    return [one for one in candidates if one.id not in stay]


async def caused_by(session: Session, causes: Sequence[JobId], limit: int) -> list[JobId]:
    dialect = session.dialect
    rest = f"""
        FROM onbeat.finished {dialect.use_index("finished_by_cause")}
        WHERE {dialect.in_list("cause_id", "uuid")} AND cancel_reason IS NULL
        LIMIT ?
    """
    return [JobId(str(id)) for (id,) in await session.select("id", rest, tuple(causes), limit)]


async def forget_causes(session: Session, ids: Sequence[JobId]) -> None:
    """These stay cancelled whatever comes: nobody looks for them again."""
    await session.update_rows(
        "finished", {"id": "uuid"}, {"cause_id": "uuid"}, [(id, None) for id in ids]
    )


async def change_causes(session: Session, dooms: Mapping[JobId, Doom]) -> None:
    rows = [(id, doom.reason, doom.cause_id) for id, doom in sorted(dooms.items())]
    columns: Columns = {"reason": "text", "cause_id": "uuid"}
    await session.update_rows("finished", {"id": "uuid"}, columns, rows)


async def continue_retries(session: Session, causes: Sequence[JobId], now: int) -> None:
    """Bring back more of what was cancelled because of these jobs, which were tried again.

    One that has failed again meanwhile keeps its dependents cancelled.
    """
    jobs = (await jobs_by_id(session, causes)).values()
    if dependents := await cancelled_with(session, [one for one in jobs if not is_lost(one.state)]):
        await try_again(session, [], dependents, now)


async def lock_unsuccessful(session: Session, ids: Sequence[JobId]) -> list[Job]:
    form, dialect = session.forms.jobs, session.dialect
    rest = f"""
        FROM onbeat.{form.ended.view} {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND state IN ('failed', 'cancelled')
        ORDER BY id
        {dialect.for_update}
    """
    return list(map(form.read, await session.select(form.ended.columns, rest, tuple(ids))))


async def move_back(session: Session, chosen: Sequence[Job]) -> None:
    """Make ended jobs live again, as new but for the start, the fault and the rising token."""
    ids = [one.id for one in chosen]
    last = [attempts[-1] for attempts in (await attempts_of(session, ids)).values()]
    await add_attempts(session, [(one.job_id, one.token, to_json(one)) for one in last])
    await delete_ended(session, ids)
    dialect, forms = session.dialect, session.forms
    schedules = {one.schedule_id for one in chosen if one.schedule_id is not None}
    paused = await hold_schedules(session, schedules)
    rows = [row_again(session, one, held=one.schedule_id in paused) for one in chosen]
    columns: Columns = {**forms.jobs.new, **AGAIN_COLUMNS, **forms.wait_columns}
    if await session.insert_rows("jobs", columns, rows, dialect.unless_taken) < len(rows):
        raise Conflict("a live job has the same unique key; cancel it or let it end")


def row_again(session: Session, job: Job, *, held: bool) -> Row:
    """Others may still wait for the job."""
    row = session.forms.jobs.row(job)
    waits = {"blocked_by": 0, "awaited": True}
    return (
        *row,
        job.token,
        micros_or_none(job.started_at),
        job.fault,
        held,
        *(waits[name] for name in session.forms.wait_columns),
    )
