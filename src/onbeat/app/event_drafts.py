"""Events as a program gives them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.call import check_keywords
from onbeat.model.event import Event
from onbeat.model.limits import EVENT_BYTES_MAX
from onbeat.ports.running_cause import running_cause
from onbeat.rules.event_delivery import with_depth
from onbeat.targets.codec import encode_value
from onbeat.wire.cloud_events import DEFAULT_SOURCE, PublishBody, read_event, read_published


class EventAttributes(TypedDict, total=False):
    """Attributes of an event beside its type and its data. None stands for one not given."""

    id: str | None
    source: str | None
    subject: str | None
    time: datetime | None
    extensions: Mapping[str, str | int | bool] | None


def publish_body(type: str, data: Any, attributes: EventAttributes) -> PublishBody:
    """The event as in a request. Raises `Invalid`, and TypeError for an unknown attribute."""
    check_keywords("publish", attributes, EventAttributes.__annotations__)
    given = {name: value for name, value in attributes.items() if value is not None}
    if data is not None:
        given["data"] = encode_value(f"the data of event {type!r}", data, EVENT_BYTES_MAX)
    return read_published(msgspec.json.encode({"type": type, **given}), {})


def event_of(backend: Backend, type: str, data: Any, attributes: EventAttributes) -> Event:
    """The event as this program's own store keeps it."""
    body = publish_body(type, data, attributes)
    now = backend.clock.now()
    event = read_event(body, "", now, DEFAULT_SOURCE, lambda: backend.randomness.ids(1)[0])
    return with_depth(event, running_cause())
