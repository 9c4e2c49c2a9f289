"""New jobs: which cell takes which of a request, and their ids."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Store
from onbeat.rules.cells import (
    UNIQUE,
    own_slot,
    slot_of_digest,
    slot_of_id,
    slot_of_key,
    slots_of_jobs,
    stamped,
)
from onbeat.stores.cells.fleet import Fleet, OpenCell
from onbeat.stores.cells.parts import RequestPart, run_parts

KIND: Final = list[Enqueued]


class CellJobs(msgspec.Struct, frozen=True):
    """The jobs of a request that one cell takes, and their places in it."""

    cell: OpenCell
    jobs: list[Job] = msgspec.field(default_factory=list[Job])
    places: list[int] = msgspec.field(default_factory=list[int])


async def enqueue(
    fleet: Fleet, jobs: Sequence[Job], keyed: KeyedRequest | None
) -> Sequence[Enqueued]:
    """What became of each job, in order; what one cell takes is one transaction.

    Jobs that come after others, or are a flow, are all in one cell. Raises `Invalid` where they
    cannot be.
    """
    if not jobs:
        return []
    chance = slot_of_id(jobs[0].id) if keyed is None else slot_of_digest(keyed.digest)
    if any(job.after or job.flow or job.awaits_flow for job in jobs):
        slots = await slots_of_flow(fleet, jobs, chance)
    else:
        slots = slots_of_jobs(jobs, chance)
    shares = list(shared_out(fleet, jobs, slots).values())

    def in_order(results: Sequence[Sequence[Enqueued]]) -> list[Enqueued]:
        placed: dict[int, Enqueued] = {}
        for share, stored in zip(shares, results, strict=True):
            placed |= zip(share.places, stored, strict=True)
        return [placed[place] for place in range(len(jobs))]

    parts = [part_of(share) for share in shares]
    return in_order(await run_parts(fleet, parts, keyed, in_order, KIND))


def part_of(share: CellJobs) -> RequestPart[Sequence[Enqueued]]:
    async def run(store: Store, keyed: KeyedRequest | None) -> Sequence[Enqueued]:
        return await store.enqueue(share.jobs, keyed)

    return RequestPart(share.cell, run, [job.id for job in share.jobs])


def shared_out(fleet: Fleet, jobs: Sequence[Job], slots: Sequence[int]) -> Mapping[int, CellJobs]:
    """The jobs by the place of their cell, with their slots in their ids."""
    ids = {job.id: JobId(stamped(job.id, slot)) for job, slot in zip(jobs, slots, strict=True)}
    shares: dict[int, CellJobs] = {}
    for place, (job, slot) in enumerate(zip(jobs, slots, strict=True)):
        cell = fleet.of_slot(slot)
        share = shares.setdefault(cell.place, CellJobs(cell))
        share.jobs.append(renamed(job, ids))
        share.places.append(place)
    return shares


def renamed(job: Job, ids: Mapping[JobId, JobId]) -> Job:
    """The job under its new id, after the new ids of the others."""
    if ids[job.id] == job.id and not job.after:
        return job
    edges = job.edges and {ids.get(id, id): edge for id, edge in job.edges.items()}
    after = tuple(ids.get(id, id) for id in job.after)
    return replace(job, id=ids[job.id], after=after, edges=edges)


async def slots_of_flow(fleet: Fleet, jobs: Sequence[Job], chance: int) -> list[int]:
    """A slot for each job, all of one cell.

    That is the cell of the jobs outside that they come after, and that of their unique keys. Raises
    `Invalid` where these are several.
    """
    own = {job.id for job in jobs}
    outside = {id for job in jobs for id in job.after if id not in own}
    found = await places_of(fleet, outside)
    bound = {place: f"job {id}" for id, place in found.items()}
    for job in jobs:
        if job.unique is not None:
            place = fleet.of_slot(slot_of_key(UNIQUE, job.unique)).place
            bound.setdefault(place, f"unique key {job.unique!r}")
    if len(bound) > 1:
        where = " and ".join(
            f"{what} in cell {fleet.cells[place].name}" for place, what in sorted(bound.items())
        )
        raise Invalid(
            f"jobs that come after one another must be in one cell, and there is {where}; leave one"
            " of these out",
            "after",
        )
    (place,) = bound or (fleet.of_slot(first_slot(jobs, chance)).place,)
    cell = fleet.cells[place]
    return [cell.slot_near(slot) for slot in slots_of_jobs(jobs, chance)]


def first_slot(jobs: Sequence[Job], chance: int) -> int:
    """Where a flow goes that nothing binds: where its first job with a group does."""
    return next((slot for job in jobs if (slot := own_slot(job)) is not None), chance)


async def places_of(fleet: Fleet, ids: set[JobId]) -> dict[JobId, int]:
    """The cells of these jobs, without those that do not exist."""
    found: dict[JobId, int] = {}
    for id in sorted(ids):
        cell, job = await find_job(fleet, id)
        if job is not None:
            found[id] = cell.place
    return found


async def find_job(fleet: Fleet, id: JobId) -> tuple[OpenCell, Job | None]:
    return await fleet.find(slot_of_id(id), lambda store: store.job(id), bool)
