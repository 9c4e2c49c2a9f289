"""Retries by hand, with the jobs that were cancelled with those; and other due times."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import RETURNING_MAX
from onbeat.rules.dependents import (
    LEVEL_COST,
    causes_in,
    is_lost,
    stay_cancelled,
    with_cause,
)
from onbeat.rules.reschedule import as_tried_again, with_due_time
from onbeat.stores.memory.dependents import cascade
from onbeat.stores.memory.flows import is_live
from onbeat.stores.memory.held_keys import find_held_key
from onbeat.stores.memory.tables import Tables


def retry(
    tables: Tables,
    ids: Sequence[JobId],
    now: datetime,
    *,
    dependents: bool = True,
    at_once: bool = True,
) -> Sequence[Job | None]:
    known = (tables.jobs.get(id) for id in dict.fromkeys(ids))
    chosen = [job for job in known if job is not None and is_lost(job.state)]
    again = cancelled_with(tables, chosen) if dependents else []
    try_again(tables, chosen, again, now, at_once=at_once)
    return tuple(tables.jobs.get(id) for id in ids)


def reschedule(
    tables: Tables, id: JobId, due_at: datetime, now: datetime, cause: str = "by hand"
) -> Job | None:
    job = tables.jobs.get(id)
    if job is not None and job.state is JobState.WAITING:
        tables.put_job(with_due_time(job, due_at))
        tables.note(id, now, "rescheduled", cause)
    return tables.jobs.get(id)


def try_again(
    tables: Tables,
    chosen: Sequence[Job],
    dependents: Sequence[Job],
    now: datetime,
    *,
    at_once: bool = True,
) -> None:
    """Let these jobs wait again, and with them the dependents that were cancelled with them."""
    back = [as_tried_again(one, now, at_once=False) for one in dependents]
    again = [*(as_tried_again(one, now, at_once=at_once) for one in chosen), *back]
    returning = {job.id for job in dependents}
    refuse_taken_unique(tables, again, now)
    for job in chosen:
        tables.note(job.id, now, "retried", "by hand")
    for job in dependents:
        tables.note(job.id, now, "retried", with_cause(job))
    for job in again:
        tables.put_job(as_waiting_again(job))
    for job in again:
        waiting = tables.jobs[job.id]
        awaited = still_awaited(tables, job)
        if job.id in returning or (
            job.awaits_flow is not None and is_live(tables, job.awaits_flow)
        ):
            awaited |= tables.wait_for_flow(job)
        tables.put_job(tables.add_dependencies(waiting, awaited))


def cancelled_with(tables: Tables, causes: Sequence[Job]) -> list[Job]:
    """The jobs that were cancelled because of these, and because of those.

    The end of a flow is the end of its members: it is live again with one of them.
    Left out are those that were cancelled by request as well, sensitive ones, whose payload is
    gone, and those that another ended job keeps from running: that one becomes their cause. Where
    there are very many, the rest comes later.
    """
    found = {job.id: job for job in causes}
    level, room = causes_in(causes), RETURNING_MAX
    while level and room > 0:
        ids = list(islice(tables.ends.caused_by(level), room))
        room -= max(len(ids), LEVEL_COST)
        if room <= 0:
            tables.ends.unfinished.update(dict.fromkeys((*level, *ids), JobState.WAITING))
        for id in ids:
            if tables.jobs[id].sensitive:  # it stays cancelled: nobody looks for it again
                tables.put_job(replace(tables.jobs[id], cause_id=None))
        new = [id for id in ids if id not in found and not tables.jobs[id].sensitive]
        found |= {id: tables.jobs[id] for id in new}
        level = causes_in(found[id] for id in new)
    candidates = list(found.values())[len(causes) :]
    others = {other for job in candidates for other in job.after} - found.keys()
    ended = {id: job.state for id in others if (job := tables.jobs.get(id)) and job.is_final}
    stay = stay_cancelled(candidates, ended)
    for id, doom in stay.items():
        tables.put_job(replace(tables.jobs[id], reason=doom.reason, cause_id=doom.cause_id))
    return [job for job in candidates if job.id not in stay]


def continue_cascades(tables: Tables, now: datetime) -> int:
    """A job that was retried meanwhile is skipped: its dependents wait for it again."""
    begun, tables.ends.unfinished = tables.ends.unfinished, {}
    waiting = [id for id, state in begun.items() if state == JobState.WAITING]
    ended = {id: state for id, state in begun.items() if not tables.is_live(id)}
    cascade(tables, {id: ended[id] for id in ended if id not in waiting}, now)
    continue_retries(tables, waiting, now)
    return len(begun)


def continue_retries(tables: Tables, causes: Iterable[JobId], now: datetime) -> None:
    """Bring back more of what was cancelled because of these jobs, which were tried again.

    One that has failed again meanwhile keeps its dependents cancelled.
    """
    jobs = (tables.jobs.get(id) for id in causes)
    tried = [job for job in jobs if job is not None and not is_lost(job.state)]
    try_again(tables, [], cancelled_with(tables, tried), now)


def refuse_taken_unique(tables: Tables, chosen: Sequence[Job], now: datetime) -> None:
    taken = dict(tables.holders)
    for job in chosen:
        if job.unique is None:
            continue
        if job.unique in taken:
            raise Conflict(
                f"job {taken[job.unique]} is live and has the same unique key as {job.id}"
            )
        held = find_held_key(tables, job.unique, now)
        if held is not None and held.job_id != job.id:
            raise Conflict(f"job {held.job_id} has ended and holds the unique key of {job.id}")
        taken[job.unique] = job.id


def still_awaited(tables: Tables, job: Job) -> set[JobId]:
    """Predecessors that have not ended. A retry by hand does not wait for failed ones."""
    known = (tables.jobs.get(id) for id in job.after)
    return {other.id for other in known if other is not None and not other.is_final}


def as_waiting_again(job: Job) -> Job:
    """The job as waiting again, with a new budget of attempts; keeps its history and token."""
    return replace(
        job,
        state=JobState.WAITING,
        worker=None,
        attempt=0,
        lost=0,
        released=0,
        finished_at=None,
        result=None,
        error=None,
        progress=None,
        cursor=None,
        suspicion=None,
        reason=None,
        cancel_reason=None,
        cause_id=None,
    )
