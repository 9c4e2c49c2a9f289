"""The operations of events: publish, list, show and replay."""

from collections.abc import Callable, Sequence
from itertools import count
from urllib.parse import quote

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.errors import Conflict, Malformed, NotFound
from onbeat.model.event import Event, StoredEvent
from onbeat.model.ids import EventSeq
from onbeat.model.limits import INTEGER_MAX
from onbeat.model.principal import UNNAMED
from onbeat.operations.context import OperationContext
from onbeat.ports.events import EventFilter
from onbeat.ports.running_cause import running_cause
from onbeat.rules.event_delivery import with_depth
from onbeat.wire.cloud_events import DEFAULT_SOURCE, PublishBody, read_event
from onbeat.wire.events import (
    EventById,
    EventInfo,
    EventListAnswer,
    FindEvents,
    PublishAnswer,
    PublishedEvent,
    PublishEvents,
    event_answer,
)
from onbeat.wire.requests import Message

REPLAYED = Message("The event will be routed again; jobs that it made stay.")


async def publish(context: OperationContext, request: PublishEvents) -> PublishAnswer:
    """Store events, each once for its source and id; all or none."""
    if context.key is None or not context.store.has_slots or has_ids(request.event):
        return await publish_body(context, request.event, context.fresh_id)
    # Cells that an earlier try has reached have the event already, under the id of that try.
    at = await context.store.begun_at(context.key.digest)
    key, places = replace(context.key, at=at or context.key.at), count()
    return await publish_body(
        replace(context, key=key), request.event, lambda: key.id_at(next(places))
    )


def has_ids(body: PublishBody) -> bool:
    """Whether the sender has given each event an id."""
    return all(one.id is not UNSET for one in ((body,) if body.events is UNSET else body.events))


async def publish_body(
    context: OperationContext, body: PublishBody, fresh_id: Callable[[], str]
) -> PublishAnswer:
    """The same; `fresh_id` gives ids to events without one."""
    await context.check_capacity()
    is_batch = body.events is not UNSET
    events = events_of(context, body, fresh_id)

    def answer(created: Sequence[bool]) -> PublishAnswer:
        return publish_answer(events, created, is_batch=is_batch)

    keyed = context.keyed_request(answer)
    return answer(await context.store.publish(events, context.clock.now(), keyed))


def events_of(
    context: OperationContext, body: PublishBody, fresh_id: Callable[[], str]
) -> list[Event]:
    """Raises `Invalid` that names the field."""
    now, source, cause = context.clock.now(), source_of(context), running_cause()
    if body.events is UNSET:
        return [with_depth(read_event(body, "", now, source, fresh_id), cause)]
    return [
        with_depth(read_event(one, f"events[{place}].", now, source, fresh_id), cause)
        for place, one in enumerate(body.events)
    ]


def source_of(context: OperationContext) -> str:
    """The source of events that name none: the name of the caller's key, if it has one."""
    name = context.principal.name
    return DEFAULT_SOURCE if context.principal in UNNAMED else quote(name, safe="/:@")


def publish_answer(
    events: Sequence[Event], created: Sequence[bool], *, is_batch: bool
) -> PublishAnswer:
    published = [
        PublishedEvent(id=event.id, created=is_new)
        for event, is_new in zip(events, created, strict=True)
    ]
    if is_batch:
        return PublishAnswer(events=tuple(published))
    return PublishAnswer(id=published[0].id, created=published[0].created)


async def list_events(context: OperationContext, request: FindEvents) -> EventListAnswer:
    """Newest first."""
    stored = await context.store.events(
        EventFilter(
            limit=request.limit,
            before=read_cursor(request.cursor),
            type=request.type or None,
            source=request.source or None,
        )
    )
    return EventListAnswer(
        events=tuple(map(event_answer, stored)),
        limit=request.limit,
        cursor=str(stored[-1].seq) if len(stored) == request.limit else None,
    )


def read_cursor(text: str | None) -> EventSeq | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= INTEGER_MAX):
        raise Malformed("cursor must be the one of the page before", "cursor")
    return EventSeq(int(text))


async def show(context: OperationContext, request: EventById) -> EventInfo:
    return event_answer(await get_event(context, request))


async def replay(context: OperationContext, request: EventById) -> Message:
    """Let the router decide about the event again."""
    stored = await get_event(context, request)
    if not await context.store.replay_event(stored.seq):
        raise NotFound(absent(request))
    return REPLAYED


async def get_event(context: OperationContext, request: EventById) -> StoredEvent:
    """Raises `NotFound`, and `Conflict` where several sources have this id."""
    found = await context.store.events_by_id(request.id, request.source)
    if not found:
        raise NotFound(absent(request))
    if len(found) > 1:
        sources = ", ".join(one.event.source for one in found)
        raise Conflict(f"Several sources have an event with this id: {sources}; name the source")
    return found[0]


def absent(request: EventById) -> str:
    return "Event not found" if request.source is None else "Event not found in this source"
