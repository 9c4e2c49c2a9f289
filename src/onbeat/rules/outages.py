"""Onbeat's own events about endpoints that seem to be down."""

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from onbeat.model.event import OWN_SOURCE, Event, EventCause
from onbeat.model.limits import REASON_CHARS_MAX
from onbeat.rules.job_events import DEPTH, EPOCH, depth_of

TYPE: Final = "onbeat.endpoint.down"

SPAN: Final = timedelta(minutes=1)
"""Processes that find the same endpoint down within this span write one event together."""

DIGEST_BYTES: Final = 16


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint whose circuit breaker opened at `since`.

    `failures` of the last `calls` failed, the latest with `error`. `depth` is that of its event.
    """

    endpoint: str
    since: datetime
    calls: int
    failures: int
    error: str
    depth: int


OnOutage = Callable[[Outage], None]


class OutageData(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event."""

    endpoint: str
    since: datetime
    calls: int
    failures: int
    error: str


def depth_after(cause: EventCause | None) -> int:
    """The depth of an event that a job with this cause leads to."""
    return depth_of(cause) + 1


def outage_event(outage: Outage) -> Event:
    """The event, whose id says which endpoint went down in which minute."""
    return Event(
        id=event_id(outage.endpoint, outage.since),
        source=OWN_SOURCE,
        type=TYPE,
        time=outage.since,
        subject=outage.endpoint,
        data=msgspec.Raw(
            msgspec.json.encode(
                OutageData(
                    endpoint=outage.endpoint,
                    since=outage.since,
                    calls=outage.calls,
                    failures=outage.failures,
                    error=outage.error[:REASON_CHARS_MAX],
                )
            )
        ),
        extensions={DEPTH: outage.depth},
    )


def event_id(endpoint: str, at: datetime) -> str:
    """The endpoint as a hash: ids are bounded, and names of hosts are long."""
    digest = blake2b(endpoint.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{digest}/{(at - EPOCH) // SPAN}"


def id_before(outage: Outage) -> str:
    """The id that another process gave the same outage, if it saw it just before a full minute."""
    return event_id(outage.endpoint, outage.since - SPAN)


def is_same(outage: Outage, earlier: Event) -> bool:
    """Whether the earlier event is about the same outage."""
    return outage.since - earlier.time < SPAN
