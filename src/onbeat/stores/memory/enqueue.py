"""New jobs."""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.ports.store import Enqueued
from onbeat.rules.dependents import (
    Holders,
    after_holders,
    cancelled_on_arrival,
    flows_of,
    freed,
    refuse_unknown,
)
from onbeat.stores.memory.dependents import as_doomed, put_ended
from onbeat.stores.memory.held_keys import find_held_key
from onbeat.stores.memory.tables import Tables


def enqueue(tables: Tables, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    return tuple(enqueue_one(tables, job) for job in resolve(tables, jobs))


def resolve(tables: Tables, jobs: Sequence[Job]) -> list[Job]:
    """The jobs, after holders of unique keys in place of those that will not be added for them.

    Raises `Invalid` if a job is to wait for one that is neither stored nor earlier in the call.
    """
    holders = find_holders(tables, jobs)
    coming = {job.id for job in jobs}
    awaited = {id for job in jobs for id in job.after}
    refuse_unknown(jobs, {id for id in awaited if id in tables.jobs or id in coming})
    found = Holders.among(flows_of(jobs), holders)
    gone = {id for id in holders.values() if id not in tables.jobs and id not in coming}
    return [put_after(job, found.without(gone)) for job in jobs]


def find_holders(tables: Tables, jobs: Sequence[Job]) -> dict[JobId, JobId]:
    """The holder of the unique key for each job that will not be added for it.

    A job that will be cancelled at once holds no key.
    """
    holders: dict[JobId, JobId] = {}
    taken: dict[str, JobId] = {}
    cancelled: set[JobId] = set()
    for job in jobs:
        if job.id in tables.jobs:
            continue
        holder = find_existing(tables, job) or taken.get(job.unique or "")
        if holder is not None:
            holders[job.id] = holder
        elif is_cancelled_at_once(tables, job, holders, cancelled):
            cancelled.add(job.id)
        elif job.unique is not None:
            taken[job.unique] = job.id
    return holders


def is_cancelled_at_once(
    tables: Tables, job: Job, holders: Mapping[JobId, JobId], cancelled: Collection[JobId]
) -> bool:
    awaited = {holders.get(other, other): job.edge_to(other) for other in job.after}
    stored = {id: tables.jobs[id].state for id in awaited if id in tables.jobs}
    states = {id: state for id, state in stored.items() if state in FINAL_STATES}
    states |= {id: JobState.CANCELLED for id in awaited if id in cancelled}
    return any(not freed(awaited[id], state) for id, state in states.items())


def put_after(job: Job, holders: Holders) -> Job:
    if not holders.concern(job):
        return job
    after, edges = after_holders(job, holders)
    return replace(job, after=after, edges=edges)


def enqueue_one(tables: Tables, job: Job) -> Enqueued:
    if job.id in tables.jobs:
        # A repeated call: the first one took effect, but its answer was lost.
        return Enqueued(job.id, created=True)
    holder = find_existing(tables, job)
    if holder is not None:
        return Enqueued(holder, created=False)
    add_new(tables, job)
    return Enqueued(job.id, created=True)


def find_existing(tables: Tables, job: Job) -> JobId | None:
    """The live job with the same unique key, or the ended one that holds it."""
    if job.unique is None:
        return None
    live = tables.holders.get(job.unique)
    if live is not None:
        return live
    held = find_held_key(tables, job.unique, job.created_at)
    return None if held is None else held.job_id


def add_new(tables: Tables, job: Job) -> None:
    awaited = [tables.jobs[id] for id in job.after]
    states = {other.id: other.state for other in awaited}
    ended = {id: state for id, state in states.items() if state in FINAL_STATES}
    for dooms in cancelled_on_arrival([job], {job.id}, ended).values():
        put_ended(tables, as_doomed(job, dooms[job.id], job.created_at), job.created_at)
        tables.note(job.id, job.created_at, JobState.CANCELLED, dooms[job.id].reason)
        return
    unended = {other.id for other in awaited if not other.is_final}
    tables.put_job(tables.add_dependencies(job, unended | tables.wait_for_flow(job)))
