"""The effects of jobs that end: dependents are freed or cancelled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.ports.store import Hint
from onbeat.rules.dependents import Cascade, Doom, Wait
from onbeat.rules.held_keys import held_key
from onbeat.rules.payloads import without_payload
from onbeat.stores.memory.stored_events import announce_end
from onbeat.stores.memory.tables import Tables


def end(tables: Tables, ended: Job, at: datetime) -> None:
    """Store an ended job, hold its key, and free or cancel its dependents."""
    tables.unblock(ended.id)
    put_ended(tables, ended, at)
    cascade(tables, {ended.id: ended.state}, at)


def put_ended(tables: Tables, ended: Job, at: datetime) -> None:
    tables.put_job(without_payload(ended))
    announce_end(tables, ended, at)
    held = held_key(ended, ended.state, at)
    if held is not None:
        tables.ends.held_keys[held.key] = held


def cascade(tables: Tables, ended: Mapping[JobId, str], at: datetime) -> None:
    """Free or cancel the dependents of these jobs, and the dependents of those it cancels."""
    cascade_state = Cascade(ended)
    while cascade_state.level:
        waits = list(islice(waits_for(tables, cascade_state.level), cascade_state.room))
        cascade_state.take(waits, len(waits))
    free(tables, cascade_state.freed_waits())
    for id, doom in cascade_state.cancelled.items():
        tables.note(id, at, JobState.CANCELLED, doom.reason)
        tables.unblock(id)
        put_ended(tables, as_doomed(tables.jobs[id], doom, at), at)
    tables.ends.unfinished.update(cascade_state.unfinished)


def waits_for(tables: Tables, ended: Iterable[JobId]) -> Iterator[Wait]:
    """A job that waits by an overlap rule, and not by `after`, needs any end."""
    for awaited in ended:
        for id in tables.awaited_by.get(awaited, ()):
            job = tables.jobs[id]
            yield Wait(id, awaited, job.edge_to(awaited) if awaited in job.after else Edge.END)


def free(tables: Tables, waits: Sequence[Wait]) -> None:
    """Delete these waits and unblock their jobs."""
    for wait in waits:
        tables.end_wait(wait.job_id, wait.awaits)
    for id in dict.fromkeys(wait.job_id for wait in waits):
        job = tables.jobs[id]
        tables.put_job(replace(job, blocked_by=len(tables.awaits.get(id, ()))))


def as_doomed(job: Job, doom: Doom, at: datetime) -> Job:
    return replace(as_cancelled(job, doom.reason, at), cause_id=doom.cause_id)


def as_cancelled(job: Job, reason: str, at: datetime) -> Job:
    return replace(
        job,
        state=JobState.CANCELLED,
        reason=reason,
        finished_at=at,
        start_by=None,
        blocked_by=0,
        worker=None,
        lease_until=None,
        cursor=None,
    )


def cancel(tables: Tables, ids: Iterable[JobId], reason: str, at: datetime) -> None:
    """Cancel waiting jobs, request running ones to stop, and confirm what another end cancelled.

    A dependent that is cancelled together with its predecessor has no other cause.
    """
    waiting: dict[JobId, str] = {}
    for job in [tables.jobs[id] for id in dict.fromkeys(ids) if id in tables.jobs]:
        match job.state:
            case JobState.WAITING:
                tables.note(job.id, at, JobState.CANCELLED, reason)
                tables.unblock(job.id)
                put_ended(tables, as_cancelled(job, reason, at), at)
                waiting[job.id] = JobState.CANCELLED
            case JobState.RUNNING | JobState.CANCELLED:
                ask_to_stop(tables, job, reason, at)
            case _:
                continue
    cascade(tables, waiting, at)


def cancel_waiting(tables: Tables, job: Job, reason: str, at: datetime) -> None:
    tables.note(job.id, at, JobState.CANCELLED, reason)
    end(tables, as_cancelled(job, reason, at), at)


def ask_to_stop(tables: Tables, job: Job, reason: str, at: datetime) -> None:
    """The first reason is kept, since the attempt may already act on it.

    A cancelled job that nobody has asked to stop keeps the reason only if a retry of another job
    could bring it back.
    """
    if job.cancel_reason is not None or (job.is_final and job.cause_id is None):
        return
    tables.put_job(replace(job, cancel_reason=reason))
    tables.note(job.id, at, "cancel requested", reason)
    if not job.is_final:
        tables.hints.add(Hint.CANCELS)


def find_unstarted(tables: Tables, id: JobId) -> Job | None:
    """The job, if it never started; a released one may be unstarted and still have `start_by`."""
    job = tables.jobs.get(id)
    if job is None or job.state is not JobState.WAITING:
        return None
    return job if job.token == 0 or job.start_by is not None else None
