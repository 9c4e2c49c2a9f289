"""Events that came in."""

from typing import Any, Final

from onbeat.model.limits import BULK_REQUEST_BYTES_MAX
from onbeat.model.principal import Scope
from onbeat.operations import events
from onbeat.operations.tables.operation import Operation
from onbeat.wire.cloud_events import EVENT_BODY
from onbeat.wire.events import (
    EventById,
    EventInfo,
    EventListAnswer,
    FindEvents,
    PublishAnswer,
    PublishEvents,
)
from onbeat.wire.requests import Message

EVENT_PUBLISH: Final = Operation(
    name="event.publish",
    id="publishEvents",
    summary="Store an event, or many in one write; each is stored once for its source and id",
    function=events.publish,
    request=PublishEvents,
    answer=PublishAnswer,
    method="POST",
    path="/api/events",
    status=202,
    body="event",
    body_bytes_max=BULK_REQUEST_BYTES_MAX,
    reader=EVENT_BODY,
    scope=Scope.SUBMIT,
    takes_key=True,
)

EVENT_LIST: Final = Operation(
    name="event.list",
    id="listEvents",
    summary="List events, newest first",
    function=events.list_events,
    request=FindEvents,
    answer=EventListAnswer,
    method="GET",
    path="/api/events",
    scope=Scope.READ,
)

EVENT_SHOW: Final = Operation(
    name="event.show",
    id="getEvent",
    summary="Show an event, and the jobs that it made or why none",
    function=events.show,
    request=EventById,
    answer=EventInfo,
    method="GET",
    path="/api/events/{id}",
    scope=Scope.READ,
)

EVENT_REPLAY: Final = Operation(
    name="event.replay",
    id="replayEvent",
    summary="Decide again what an event makes; jobs that it made stay",
    function=events.replay,
    request=EventById,
    answer=Message,
    method="POST",
    path="/api/events/{id}/replay",
    status=202,
    scope=Scope.OPERATE,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    EVENT_PUBLISH,
    EVENT_LIST,
    EVENT_SHOW,
    EVENT_REPLAY,
)
