"""Jobs, flows and queues over several cells."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from onbeat.model.attempt import Attempt
from onbeat.model.bulk import Bulk, BulkId
from onbeat.model.event import StoredEvent
from onbeat.model.flow import FlowLook
from onbeat.model.held_key import HeldKey
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.log_line import JobLogLine
from onbeat.model.page import Counted, JobFilter, Page
from onbeat.model.pulse import Gauges
from onbeat.model.queue import GroupDepths, Limits, Pause, Queue
from onbeat.model.transition import Transition
from onbeat.ports.store import Enqueued, FlowCounts, Store
from onbeat.rules.cell_merges import (
    merge_counted,
    merge_flow_counts,
    merge_flow_looks,
    merge_group_depths,
    merge_job_pages,
    merge_queues,
    newest,
    with_sample,
)
from onbeat.rules.cells import UNIQUE, slot_of_id, slot_of_key
from onbeat.stores.cells.enqueue import enqueue
from onbeat.stores.cells.fleet import Ask, Fleet

Answer = TypeVar("Answer")
Change = Callable[[Store, Sequence[JobId]], Awaitable[Sequence[Job | None]]]


class JobCells:
    """See `onbeat.ports.store.OperationsStore`; what is said here is what differs."""

    fleet: Fleet

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        """The jobs of each cell are one transaction; those that name nothing are all in one cell.

        The ids of the answer have the slots of the jobs, those of the arguments need not.
        """
        return await enqueue(self.fleet, jobs, keyed)

    async def job(self, id: JobId) -> Job | None:
        return await self.of_job(id, lambda store: store.job(id))

    async def of_job(self, id: JobId, ask: Ask[Answer]) -> Answer:
        """What the cell says that has something of this job."""
        _, answer = await self.fleet.find(slot_of_id(id), ask, bool)
        return answer

    async def rows_of_job(self, id: JobId, ask: Ask[Sequence[Answer]]) -> Sequence[Answer]:
        """The rows of a job, which may be none: then only a cell that does not know it says so."""
        rows = await self.fleet.ask(self.fleet.of_id(id), ask)
        if rows:
            return rows
        cell, _ = await self.fleet.find(slot_of_id(id), lambda store: store.job(id), bool)
        return rows if cell is self.fleet.of_id(id) else await self.fleet.ask(cell, ask)

    async def jobs_by_id(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return await self.fleet.find_each(ids, lambda store, own: store.jobs_by_id(own))

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        pages = await self.fleet.ask_all(lambda store: store.jobs(filter))
        return merge_job_pages(pages, filter.limit)

    async def count_jobs(self, filter: JobFilter, most: int, *, look: int | None = None) -> Counted:
        counts = await self.fleet.ask_all(lambda store: store.count_jobs(filter, most, look=look))
        return merge_counted(counts, most)

    async def held_key(self, key: str, now: datetime) -> HeldKey | None:
        slot = slot_of_key(UNIQUE, key)
        _, held = await self.fleet.find(slot, lambda store: store.held_key(key, now), bool)
        return held

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        return await self.rows_of_job(id, lambda store: store.attempts(id))

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        return await self.rows_of_job(id, lambda store: store.transitions(id))

    async def events_of_job(self, id: JobId) -> Sequence[StoredEvent]:
        return await self.rows_of_job(id, lambda store: store.events_of_job(id))

    async def log_lines(
        self, job: JobId, after: int, limit: int, attempt: int | None = None
    ) -> Sequence[JobLogLine]:
        return await self.rows_of_job(
            job, lambda store: store.log_lines(job, after, limit, attempt)
        )

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        """What one cell cancels is one transaction."""
        return await self.change(ids, lambda store, own: store.cancel(own, reason, now))

    async def change(self, ids: Sequence[JobId], change: Change) -> Sequence[Job | None]:
        async def changed(store: Store, own: Sequence[JobId]) -> Mapping[JobId, Job]:
            jobs = await change(store, own)
            return {job.id: job for job in jobs if job is not None}

        found = await self.fleet.find_each(ids, changed)
        return [found.get(id) for id in ids]

    async def reschedule(self, id: JobId, due_at: datetime, now: datetime) -> Job | None:
        return await self.of_job(id, lambda store: store.reschedule(id, due_at, now))

    async def retry(
        self,
        ids: Sequence[JobId],
        now: datetime,
        keyed: KeyedRequest | None = None,
        *,
        dependents: bool = True,
        at_once: bool = True,
    ) -> Sequence[Job | None]:
        """What one cell retries is one transaction. With a key there is one job."""
        if keyed is None:
            return await self.change(
                ids,
                lambda store, own: store.retry(own, now, dependents=dependents, at_once=at_once),
            )
        (id,) = ids
        cell, _ = await self.fleet.find(slot_of_id(id), lambda store: store.job(id), bool)
        return await self.fleet.ask(
            cell,
            lambda store: store.retry(ids, now, keyed, dependents=dependents, at_once=at_once),
        )

    # Bulks: those that cells have, each of its own jobs

    async def bulk(self, id: BulkId) -> Bulk | None:
        return (await self.fleet.find(slot_of_id(id), lambda store: store.bulk(id), bool))[1]

    async def bulks(self, before: BulkId | None, limit: int) -> Sequence[Bulk]:
        found = await self.fleet.ask_all(lambda store: store.bulks(before, limit))
        return newest(found, attrgetter("id"), limit)

    async def stop_bulk(self, id: BulkId, now: datetime) -> Bulk | None:
        slot = slot_of_id(id)
        return (await self.fleet.find(slot, lambda store: store.stop_bulk(id, now), bool))[1]

    async def newest_flows(self, before: JobId | None, limit: int, look: int) -> Sequence[FlowLook]:
        looks = await self.fleet.ask_all(lambda store: store.newest_flows(before, limit, look))
        return merge_flow_looks(looks, limit)

    async def flow_counts(self, ids: Collection[JobId]) -> FlowCounts:
        return merge_flow_counts(await self.fleet.ask_all(lambda store: store.flow_counts(ids)))

    # Queues: one of each name in every cell

    async def queues(self, now: datetime, sampled: Gauges | None = None) -> Sequence[Queue]:
        """Limits and pauses are of each cell alone; a queue that one has paused is told as such."""
        sample = None if sampled is None else Gauges(at=sampled.at)
        found = await self.fleet.ask_all(lambda store: store.queues(now, sample))
        merged = merge_queues(found)
        return merged if sampled is None else with_sample(merged, sampled)

    async def queue_names(self) -> Sequence[str]:
        found = await self.fleet.ask_all(lambda store: store.queue_names())
        return sorted({name for names in found for name in names})

    async def name_queues(self, names: Collection[str]) -> None:
        await self.fleet.change_all(lambda store: store.name_queues(names))

    async def pause_queue(self, name: str, *, paused: bool, pause: Pause | None = None) -> None:
        """In every cell. Where one is away the others have done it, and a repeat completes it."""
        await self.fleet.change_all(
            lambda store: store.pause_queue(name, paused=paused, pause=pause)
        )

    async def group_depths(self, name: str, look: int) -> GroupDepths:
        return merge_group_depths(
            await self.fleet.ask_all(lambda store: store.group_depths(name, look))
        )

    async def limit_queue(self, name: str, limits: Limits) -> None:
        """In every cell, each of which has these limits for itself; as `pause_queue`."""
        await self.fleet.change_all(lambda store: store.limit_queue(name, limits))
