"""Onbeat's own events about occurrences that came too late to run."""

from datetime import datetime

import msgspec

from onbeat.model.event import OWN_SOURCE, Event
from onbeat.model.ids import JobId
from onbeat.model.schedule import Schedule
from onbeat.model.target import lane_of
from onbeat.rules.job_events import DEPTH, EPOCH, MICROSECOND

TYPE = "onbeat.schedule.misfired"


class Misfire(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event: occurrences from `first` to `last`, both included.

    `job` is that of the one occurrence which was planned in time.
    """

    schedule_id: str
    key: str | None
    name: str
    target: str
    first: datetime
    last: datetime
    job: str | None


def misfire_event(
    schedule: Schedule, first: datetime, last: datetime, now: datetime, job: JobId | None = None
) -> Event:
    """The event, whose id says which occurrences it is about, so that they have one event."""
    data = Misfire(
        schedule_id=schedule.id,
        key=schedule.key,
        name=schedule.name,
        target=lane_of(schedule.target),
        first=first,
        last=last,
        job=job,
    )
    return Event(
        id=f"{schedule.id}/{(last - EPOCH) // MICROSECOND}",
        source=OWN_SOURCE,
        type=TYPE,
        time=now,
        subject=schedule.id,
        data=msgspec.Raw(msgspec.json.encode(data)),
        extensions={DEPTH: 1},
    )
