"""`beat.events`: events, which schedules react to."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from msgspec import UNSET

from onbeat.app.backend import Backend
from onbeat.app.call import check_keywords
from onbeat.app.event_drafts import EventAttributes, publish_body
from onbeat.app.pages import items_of_pages
from onbeat.operations.tables.events import EVENT_LIST, EVENT_PUBLISH, EVENT_REPLAY, EVENT_SHOW
from onbeat.wire.events import (
    EventById,
    EventInfo,
    FindEvents,
    PublishAnswer,
    PublishedEvent,
    PublishEvents,
)


class EventFilters(TypedDict, total=False):
    """Filters for listed events; a text may end in `*`."""

    type: str | None
    source: str | None


class Events:
    """Facts that schedules react to."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def publish(
        self, type: str, data: Any = None, **attributes: Unpack[EventAttributes]
    ) -> PublishedEvent:
        """Store an event once for its source and id, and return when it is durable.

        Without an `id` it gets a new one. Raises `Invalid`.
        """
        return self._backend.wait_for(self.apublish(type, data, **attributes))

    async def apublish(
        self, type: str, data: Any = None, **attributes: Unpack[EventAttributes]
    ) -> PublishedEvent:
        body = publish_body(type, data, attributes)
        return published(await self._backend.call(EVENT_PUBLISH, PublishEvents(body)))

    def list(self, *, limit: int = 100, **filters: Unpack[EventFilters]) -> Sequence[EventInfo]:
        """Events, newest first."""
        return self._backend.wait_for(self.alist(limit=limit, **filters))

    async def alist(
        self, *, limit: int = 100, **filters: Unpack[EventFilters]
    ) -> Sequence[EventInfo]:
        check_keywords("events.list", filters, EventFilters.__annotations__)

        async def ask(size: int, cursor: str | None) -> tuple[Sequence[EventInfo], str | None]:
            request = FindEvents(limit=size, cursor=cursor, **filters)
            page = await self._backend.call(EVENT_LIST, request)
            return page.events, page.cursor

        return await items_of_pages(limit, ask)

    def show(self, id: str, *, source: str | None = None) -> EventInfo:
        """The event, with the jobs that it made or why none.

        Raises `NotFound`, and `Conflict` where several sources have the id and none is named.
        """
        return self._backend.wait_for(self.ashow(id, source=source))

    async def ashow(self, id: str, *, source: str | None = None) -> EventInfo:
        return await self._backend.call(EVENT_SHOW, EventById(id=id, source=source))

    def replay(self, id: str, *, source: str | None = None) -> None:
        """Decide again what the event makes; jobs that it made stay. Raises as `show`."""
        self._backend.wait_for(self.areplay(id, source=source))

    async def areplay(self, id: str, *, source: str | None = None) -> None:
        await self._backend.call(EVENT_REPLAY, EventById(id=id, source=source))


def published(answer: PublishAnswer) -> PublishedEvent:
    assert answer.id is not UNSET, "the answer to one event has its id"
    assert answer.created is not UNSET, "and whether it is new"
    return PublishedEvent(id=answer.id, created=answer.created)
