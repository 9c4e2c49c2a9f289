"""Waits of running jobs for events: steps of a handler that an event ends."""

from datetime import datetime

import msgspec

from onbeat.model.event import StoredEvent
from onbeat.model.ids import EventSeq, JobId


class EventWait(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step of a job that waits for an event; (job, step) is its key.

    `type` is exact or has a `*` at the end; the subject of the event is `by`, unless that is None.
    `since` is the newest event at the first call, until it is certain that none that came after it
    was missed. `until` is when the wait ends without an event; None: never. A wait that is not open
    has ended, by the event `seq` or without one.
    """

    job_id: JobId
    step: str
    type: str
    by: str | None = None
    since: EventSeq | None = None
    until: datetime | None = None
    is_open: bool = True
    seq: EventSeq | None = None


class WaitResult(msgspec.Struct, frozen=True):
    """What has become of a wait: still open, or ended, with the event that ended it."""

    is_open: bool
    event: StoredEvent | None = None


class AwaitedKey(msgspec.Struct, frozen=True, array_like=True):
    """By what an event finds the waits for it: its type and its subject."""

    type: str
    subject: str | None = None


class FreedWait(msgspec.Struct, frozen=True, array_like=True):
    """An event that ends a wait."""

    job_id: JobId
    step: str
    seq: EventSeq
