"""The durable state of events. The rules of `onbeat.ports.store` apply."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from onbeat.model.event import Event, StoredEvent
from onbeat.model.event_wait import AwaitedKey, EventWait
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.route import (
    Carried,
    EventKey,
    EventSchedules,
    KeyedJob,
    Routing,
    Unrouted,
)


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first, with a seq below `before`. `type` and `source` may end in `*`."""

    limit: int
    before: EventSeq | None = None
    type: str | None = None
    source: str | None = None


class EventExport(msgspec.Struct, frozen=True, kw_only=True):
    """One event with the jobs that carry it, for import into another store."""

    event: StoredEvent
    carried: tuple[Carried, ...] = ()


class EventKeyExport(msgspec.Struct, frozen=True, kw_only=True):
    """A job by what its events are gathered, throttled and cancelled by, as in `KeyedJob`."""

    key: EventKey
    job_id: JobId
    opened_at: datetime
    gathered: int


class EventWaitExport(msgspec.Struct, frozen=True, kw_only=True):
    """A wait for import into another store, with the source and id of the event that ended it."""

    wait: EventWait
    event: tuple[str, str] | None = None


class RouterStore(Protocol):
    async def unrouted_events(self, limit: int) -> Unrouted:
        """The first events without a decision, by seq."""
        ...

    async def event_schedules(self, known: Mapping[ScheduleId, int]) -> EventSchedules:
        """The schedules with `on`, without those of `known` whose version is unchanged."""
        ...

    async def keyed_jobs(self, keys: Collection[EventKey]) -> Sequence[KeyedJob]:
        """Jobs that were made for events with these keys, by id; ended ones may be left out.

        The latest of each key is always among them, live or ended, while its record exists.
        """
        ...

    async def open_waits(self, keys: Collection[AwaitedKey], limit: int) -> Sequence[EventWait]:
        """Open waits of live jobs for events with these keys, by job and step; at most `limit`."""
        ...

    async def route(self, routing: Routing) -> bool:
        """Store a decision. False, and nothing is stored, where it is out of date."""
        ...

    async def publish(
        self, events: Sequence[Event], now: datetime, keyed: KeyedRequest | None = None
    ) -> Sequence[bool]:
        """Store events. False where one with this source and id is stored already."""
        ...


class EventStore(RouterStore, Protocol):
    async def events(self, filter: EventFilter) -> Sequence[StoredEvent]: ...

    async def events_by_id(self, id: str, source: str | None = None) -> Sequence[StoredEvent]:
        """The events with this id: one for each source, by seq; at most 10."""
        ...

    async def events_of_job(self, id: JobId) -> Sequence[StoredEvent]:
        """The events that the target of the job gets, by seq."""
        ...

    async def replay_event(self, seq: EventSeq) -> bool:
        """Let the router decide again; jobs that were made stay. False where it is unknown."""
        ...

    async def wanted_types(self) -> frozenset[str]:
        """Onbeat's own event types that some schedule asks for, in `on` or `cancel_on`."""
        ...

    async def prune_events(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` routed events received before `before`.

        Events of jobs that are still stored stay, and those that ended a wait of a live job; they
        are examined again an hour later. Waits of ended jobs go. Returns how many were examined.
        """
        ...

    async def export_events(self, after: EventSeq | None, limit: int) -> Sequence[EventExport]:
        """Events with a seq above `after`, by seq."""
        ...

    async def import_events(self, exports: Sequence[EventExport]) -> int:
        """Add events in this order, with new seqs; returns how many imports changed something.

        Where one with this source and id exists, the later decision wins.
        """
        ...

    async def export_event_keys(self, after: JobId | None, limit: int) -> Sequence[EventKeyExport]:
        """Keys of jobs with an id above `after`, by id."""
        ...

    async def import_event_keys(self, exports: Sequence[EventKeyExport]) -> int:
        """Add keys, or replace those of the same job; returns how many there are."""
        ...

    async def export_event_waits(
        self, after: tuple[JobId, str] | None, limit: int
    ) -> Sequence[EventWaitExport]:
        """Waits of live jobs with a job and step above `after`, in that order."""
        ...

    async def import_event_waits(self, exports: Sequence[EventWaitExport]) -> int:
        """Add waits of live jobs; one that has ended here stays. Returns how many changed."""
        ...
