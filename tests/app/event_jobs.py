"""Jobs that were made for events, as by the router."""

from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from conditions import eventually
from onbeat.model.event import Event, EventCause, EventVerdict
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.retry import RetryPolicy
from onbeat.model.route import Carried, Routing
from onbeat.model.target import HandlerTarget, Target
from onbeat.ports.store import Store
from onbeat.testing.build import an_id

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCHEDULE = ScheduleId("01900000-0000-7000-8000-0000000000aa")


SOURCES = count(1)


def an_event(id: str, data: object = None, **more: Any) -> Event:
    """Of a source of its own, as one store serves several tests."""
    raw = msgspec.json.encode({"order": int(id)} if data is None else data)
    given = {"data": msgspec.Raw(raw), **more}
    return Event(id=id, source=f"/shop/{next(SOURCES)}", type="paid", time=NOW, **given)


def task(name: str, *args: object, **kwargs: object) -> HandlerTarget:
    return HandlerTarget(
        name, msgspec.Raw(msgspec.json.encode(args)), msgspec.Raw(msgspec.json.encode(kwargs))
    )


async def made_for(store: Store, target: Target, *events: Event, at: datetime | None = None) -> Job:
    """A job for these events, which its target reads; `at` is when it is due, by default now."""
    now = at or datetime.now(UTC)
    await store.publish(events, now)
    seqs = [one.seq for one in (await store.unrouted_events(100)).events]
    job = Job(
        id=JobId(an_id()),
        target=target,
        created_at=now,
        due_at=now,
        retry=RetryPolicy(attempts_max=1),
        cause=EventCause("paid"),
    )
    carried = tuple(Carried(seq, job.id, SCHEDULE) for seq in seqs)
    verdicts: dict[EventSeq, tuple[EventVerdict, ...]] = dict.fromkeys(seqs, ())
    assert await store.route(Routing(verdicts=verdicts, at=now, jobs=(job,), carried=carried))
    return job


async def ended(store: Store, job: Job) -> Job:
    async def done() -> Job | None:
        found = await store.job(job.id)
        return found if found is not None and found.finished_at is not None else None

    found: Job = await eventually(done, "the job has ended")
    return found
