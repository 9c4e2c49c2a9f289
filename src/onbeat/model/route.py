"""The router's reading and its decision."""

from datetime import datetime

import msgspec

from onbeat.model.event import EventVerdict, StoredEvent
from onbeat.model.event_wait import FreedWait
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.schedule import Schedule


class EventKey(msgspec.Struct, frozen=True, array_like=True):
    """What the events of one schedule are gathered, throttled and cancelled by."""

    schedule_id: ScheduleId
    by: str


class KeyedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was made for events with one key.

    `opened_at` is when its first event arrived, `gathered` how many events it has or, in a
    throttle, counts; 0 where a throttle was cancelled, so that the next event is a first one again.
    `is_waiting`: it waits and never started, so that more events may join it, or end it.
    """

    key: EventKey
    job_id: JobId
    opened_at: datetime
    due_at: datetime
    gathered: int = 1
    is_waiting: bool = True


class Unrouted(msgspec.Struct, frozen=True, kw_only=True):
    """Events without a decision, in order. `made` has the jobs of those that are replayed."""

    events: tuple[StoredEvent, ...]
    made: dict[EventSeq, tuple[EventVerdict, ...]] = {}


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """The job was made for this event, or gathers it. With `reads` its target gets the event."""

    seq: EventSeq
    job_id: JobId
    schedule_id: ScheduleId
    reads: bool = True


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Stored whole or not at all.

    It is refused where one of the events has been routed meanwhile, a schedule of `versions` has
    another version or is gone, one of the `joined` jobs no longer waits, or one of the `freed`
    waits is no longer open. `jobs` become waiting jobs unless they exist, live or ended. The
    targets of `unread` jobs get none of the events that were `carried` before. `keyed` rows are
    added or replaced; `postponed` jobs are due at another time; `cancelled` jobs, also new ones,
    end if they still wait. Jobs whose waits are `freed` are due at once, if they were put off until
    an event.
    """

    verdicts: dict[EventSeq, tuple[EventVerdict, ...]]
    at: datetime
    versions: dict[ScheduleId, int] = {}
    jobs: tuple[Job, ...] = ()
    carried: tuple[Carried, ...] = ()
    unread: tuple[JobId, ...] = ()
    joined: tuple[JobId, ...] = ()
    keyed: tuple[KeyedJob, ...] = ()
    postponed: dict[JobId, datetime] = {}
    cancelled: dict[JobId, str] = {}
    freed: tuple[FreedWait, ...] = ()


class EventSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules with `on`: ids with versions of all, and those whose version was not known."""

    versions: dict[ScheduleId, int]
    changed: tuple[Schedule, ...] = ()
