"""New jobs, also those that running jobs send: fan-out, fenced by the sender's lease."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Self

import msgspec

from onbeat.model.errors import Unavailable
from onbeat.model.event_wait import EventWait
from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Edge, Job
from onbeat.ports.store import Enqueued, SentJobs
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import micros, text_or_none, to_json


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job prepared outside the transaction, to keep that short.

    It is stored with `blockers` as its `blocked_by`, as if all that it comes after were live.
    """

    id: JobId
    row: Row
    created_at: int
    unique: str | None = None
    after: tuple[JobId, ...] = ()
    edges: dict[JobId, Edge] | None = None
    flow: JobId | None = None
    awaits_flow: JobId | None = None
    schedule_id: ScheduleId | None = None
    blockers: int = 0

    @classmethod
    def of(cls, job: Job, row: Row) -> Self:
        """`row` ends in the number of blockers."""
        return cls(
            job.id,
            row,
            micros(job.created_at),
            job.unique,
            job.after,
            job.edges,
            job.flow,
            job.awaits_flow,
            job.schedule_id,
            row[-1],
        )

    @property
    def needs_locks(self) -> bool:
        """Whether other rows must not change while this one is added."""
        return self.waits or self.schedule_id is not None

    @property
    def waits(self) -> bool:
        """Whether it comes after others."""
        return self.blockers > 0

    def edge_to(self, other: JobId) -> Edge:
        return (self.edges or {}).get(other, Edge.SUCCESS)


def blockers_of(job: Job) -> int:
    """How many other jobs and flows it comes after."""
    return len({*job.after}) + (job.awaits_flow is not None)


def in_key_order(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """In the order of unique keys, so that concurrent calls cannot deadlock."""
    if all(job.unique is None for job in jobs):
        return jobs
    return sorted(jobs, key=lambda job: job.unique or "")


def holders_of(jobs: Sequence[NewJob], answers: Sequence[Enqueued | None]) -> dict[JobId, JobId]:
    """The holder of the unique key for each job that was not added for it.

    Raises `Unavailable` for a holder that ended before it could be read.
    """
    holders: dict[JobId, JobId] = {}
    for job, answer in zip(jobs, answers, strict=True):
        if answer is None:
            raise Unavailable("the holder of the unique key has ended; try again")
        if not answer.created:
            holders[job.id] = answer.id
    return holders


def awaited_unstored(jobs: Sequence[NewJob], created: Collection[JobId]) -> list[NewJob]:
    """The jobs that were not added for their unique keys, and that `created` ones come after.

    Those come after jobs that they name, and after the members of flows.
    """
    awaited = {other for job in jobs if job.id in created for other in job.after}
    flows = {job.awaits_flow for job in jobs if job.id in created} - {None}
    return [
        job
        for job in jobs
        if job.unique is not None
        and job.id not in created
        and (job.id in awaited or job.flow in flows)
    ]


async def until_stored(
    add: Callable[[], Awaitable[Sequence[Enqueued | None]]], tries_max: int
) -> list[Enqueued]:
    """Repeat `add` while a unique key is held by a job that ends before it can be read.

    Repeating is harmless for the jobs stored already.
    """
    for _ in range(tries_max):
        answers = await add()
        stored = [answer for answer in answers if answer is not None]
        if len(stored) == len(answers):
            return stored
    raise Unavailable("the unique key changes hands too often; try again")


# Fan-out

Lease = tuple[JobId, Token]
Place = tuple[str | None, str | None]
"""The cursor and the progress of a sender."""


class FanOutBatch(msgspec.Struct, frozen=True, gc=False):
    """The jobs that one job sends, prepared outside the transaction, to keep that short."""

    lease: Lease
    jobs: Sequence[NewJob]
    place: Place
    wait: EventWait | None


def prepare_batch(sent: SentJobs, new_job: Callable[[Job], NewJob]) -> FanOutBatch:
    progress = None if sent.progress is None else to_json(sent.progress)
    return FanOutBatch(
        lease=(sent.sender, sent.token),
        jobs=list(map(new_job, sent.jobs)),
        place=(text_or_none(sent.cursor), progress),
        wait=sent.wait,
    )


def waits_of(sendings: Sequence[FanOutBatch], valid: Collection[Lease]) -> list[EventWait]:
    """The new waits of holders of these leases."""
    return [one.wait for one in sendings if one.wait is not None and one.lease in valid]


def jobs_of(sendings: Sequence[FanOutBatch], valid: Collection[Lease]) -> list[NewJob]:
    """The jobs that holders of these leases send; of several with one id the first."""
    first: dict[JobId, NewJob] = {}
    for sending in sendings:
        if sending.lease in valid:
            for job in sending.jobs:
                first.setdefault(job.id, job)
    return list(first.values())


def last_places(sendings: Sequence[FanOutBatch]) -> dict[Lease, Place]:
    """The last cursor and the last progress of each sender."""
    places: dict[Lease, Place] = {}
    for sending in sendings:
        before = places.get(sending.lease, (None, None))
        places[sending.lease] = later_place(before, sending.place)
    return places


def later_place(before: Place, after: Place) -> Place:
    return after[0] or before[0], after[1] or before[1]


async def keep_places(session: Session, sendings: Sequence[FanOutBatch]) -> set[Lease]:
    """Store where the senders are; returns the valid leases.

    They stay valid until the commit: no sender is settled or claimed again before.
    """
    places = last_places(sendings)
    here = await lock_senders(session, {id for id, _ in places})
    valid = places.keys() & here.keys()
    changes = [
        (lease[0], *later_place(here[lease], places[lease]))
        for lease in sorted(valid)
        if places[lease] != (None, None)
    ]
    columns: Columns = {session.forms.jobs.cursor: "text", "progress": "text"}
    await session.update_rows("jobs", {"id": "uuid"}, columns, changes)
    return valid


async def lock_senders(session: Session, ids: Collection[JobId]) -> dict[Lease, Place]:
    """The leases and places of those that run."""
    if not ids:
        return {}
    dialect, cursor = session.dialect, session.forms.jobs.cursor
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_running}
        ORDER BY id
        {dialect.for_update}
    """
    rows = await session.select(f"id, token, {cursor}, progress", rest, tuple(ids))
    return {(JobId(str(id)), Token(token)): (at, progress) for id, token, at, progress in rows}
