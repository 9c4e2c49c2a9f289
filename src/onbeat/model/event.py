"""Events: facts from outside, or of Onbeat itself, that schedules react to (CloudEvents 1.0)."""

from datetime import datetime

import msgspec

from onbeat.model.ids import EventSeq, JobId, ScheduleId

OWN_SOURCE = "onbeat"
"""The source of Onbeat's own events."""

OWN_TYPES_PREFIX = f"{OWN_SOURCE}."
"""Types of events from outside never begin so."""

SENSITIVE = "sensitive"
"""The extension by which the sender of an event hides its data in answers."""

OWN_TYPES = (
    "onbeat.job.failed",
    "onbeat.job.cancelled",
    "onbeat.job.succeeded",
    "onbeat.schedule.misfired",
    "onbeat.schedule.orphaned",
    "onbeat.endpoint.down",
    "onbeat.queue.late",
    "onbeat.alert.raised",
    "onbeat.alert.resolved",
)
"""A pattern that fits a new one may be stored already: a migration adds its rows."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event with the attributes of CloudEvents 1.0.

    `id` is unique within its `source`. `data` is JSON; with `is_base64` a JSON text of base64, for
    data of another `datacontenttype`. `extensions` are further attributes, by name.
    """

    id: str
    source: str
    type: str
    time: datetime
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: msgspec.Raw | None = None
    is_base64: bool = False
    extensions: dict[str, str | int | bool] = {}

    @property
    def is_sensitive(self) -> bool:
        """Whether its data is never shown. In a header the extension is a text."""
        return self.extensions.get(SENSITIVE, False) not in {False, "false"}


class EventVerdict(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a schedule made of an event: `job_id`, or in `reason` why none."""

    schedule_id: ScheduleId
    job_id: JobId | None = None
    reason: str | None = None


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as stored. `seq` is its place in the order of arrival.

    `routed_at` is None until the router has decided, and again after a replay. `verdicts` are of
    schedules whose type and source matched.
    """

    seq: EventSeq
    event: Event
    received_at: datetime
    routed_at: datetime | None = None
    verdicts: tuple[EventVerdict, ...] = ()


class EventCause(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The event behind a job: its type, and how many of Onbeat's own events led to it.

    With `carried` the job was made for events that it may read; without, a job that was sent by
    such a job.
    """

    type: str
    depth: int = 0
    carried: bool = True
