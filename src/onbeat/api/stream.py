"""`GET /api/stream`: what happens, as server-sent events."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from onbeat.api.requests import NULL, check_address, unknown_parameter
from onbeat.api.responses import error_response
from onbeat.api.security import STREAM_PATH, Access, authenticate, principal_of
from onbeat.api.stream_hub import OpenStream, StreamHub
from onbeat.model.errors import Invalid, OnbeatError
from onbeat.model.principal import Scope as AccessScope
from onbeat.rules.access import check_scope
from onbeat.rules.stream_memory import KINDS, StreamFilter, unknown_kinds
from onbeat.wire.decode import convert, safe_text
from onbeat.wire.stream import (
    BYE,
    COMMENT,
    ID_CHARS_MAX,
    RETRY,
    StreamRequest,
    gap,
    read_kinds,
    read_label,
    read_place,
    read_stream_schedule,
    reset,
)

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Connection": "close"}
COMMENT_SECONDS: Final = 15.0
RIGHTS_SECONDS: Final = 30.0
PARAMETERS: Final = StreamRequest.__struct_fields__


def stream_routes(access: Access, hub: StreamHub) -> Iterator[Route]:
    async def stream(request: Request) -> Response:
        try:
            principal = principal_of(request)
            check_scope(principal, AccessScope.READ)
            params = read_parameters(request)
            chosen = filter_of(params)
            if request.method == "HEAD":
                return Response(headers=HEADERS, media_type=STREAM_TYPE)
            last = (request.headers.get("last-event-id") or params.after or "")[:ID_CHARS_MAX]
            after = read_place(last, hub.boot)
            reader = hub.admit(principal.name, chosen, after, is_back=bool(last))
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return error_response(error, request)
        return EventStream(request, access, hub, reader)

    yield Route(STREAM_PATH, stream, methods=["GET"])


def read_parameters(request: Request) -> StreamRequest:
    """Raises `Invalid` for an unknown, repeated, empty or wrong parameter."""
    check_address(request)
    given: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name not in PARAMETERS:
            raise unknown_parameter(name, PARAMETERS)
        if name in given:
            raise Invalid(f"{name} is given twice in the query", name)
        if not text or text.lower() == NULL:
            raise Invalid(f"{name} must not be empty; leave it out to ask without it", name)
        given[name] = text
    return convert(StreamRequest, given)


def filter_of(params: StreamRequest) -> StreamFilter:
    kinds = read_kinds(params.events)
    if unknown := unknown_kinds(kinds):
        raise Invalid(
            f"events: {safe_text(unknown[0])!r} is no kind of event; known are {', '.join(KINDS)}",
            "events",
        )
    return StreamFilter(
        kinds=kinds,
        state=None if params.state is None else params.state.value,
        queue=params.queue,
        task=params.task,
        schedule_id=read_stream_schedule(params.schedule_id),
        label=read_label(params.label),
    )


class EventStream(Response):
    """Sends one reader its events until it leaves, loses its rights, or the service stops.

    A reader that reads nothing for half a minute is cut off by the connection's own limits.
    """

    media_type = STREAM_TYPE

    def __init__(
        self, request: Request, access: Access, hub: StreamHub, reader: OpenStream
    ) -> None:
        super().__init__(headers=HEADERS)
        self.request = request
        self.access = access
        self.hub = hub
        self.reader = reader
        self.clock = hub.context.clock
        self.sent_at = self.clock.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self.notice_leave(receive))
        try:
            await self.begin(send)
            await self.send_events(send)
            if not self.reader.is_gone:
                await send({"type": "http.response.body", "body": BYE, "more_body": False})
        finally:
            self.hub.dismiss(self.reader)
            leaving.cancel()

    async def notice_leave(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.reader.leave()

    async def begin(self, send: Send) -> None:
        headers = [one for one in self.raw_headers if one[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        ring = self.reader.place.ring
        first = reset(f"{self.hub.boot}.{ring.last}") if self.reader.is_reset else b""
        await self.send_part(send, RETRY + first)

    async def send_part(self, send: Send, body: bytes) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self.sent_at = self.clock.monotonic()

    async def send_events(self, send: Send) -> None:
        checked_at = self.clock.monotonic()
        while not self.reader.is_gone and not self.hub.is_closing:
            if self.clock.monotonic() - checked_at >= RIGHTS_SECONDS:
                if not await self.may_read():
                    return
                checked_at = self.clock.monotonic()
            await self.send_next(send)

    async def send_next(self, send: Send) -> None:
        """One portion, or a comment when there was nothing for some time."""
        reader = self.reader
        portion = reader.place.take()
        body = (gap(portion.missed) if portion.missed else b"") + b"".join(portion.frames)
        if body:
            await self.send_part(send, body)
        elif self.clock.monotonic() - self.sent_at >= COMMENT_SECONDS:
            await self.send_part(send, COMMENT)
        if reader.place.is_at_end:
            reader.place.wait()
            await self.wait_for_more()

    async def wait_for_more(self) -> None:
        reader = self.reader
        if not self.hub.is_closing and not reader.is_gone:
            with contextlib.suppress(TimeoutError):
                left = self.sent_at + COMMENT_SECONDS - self.clock.monotonic()
                async with asyncio.timeout(max(0.0, left)):
                    await reader.woken.wait()
        reader.woken.clear()

    async def may_read(self) -> bool:
        """Whether the key or session still may, by the check that a new request would meet."""
        try:
            check_scope(await authenticate(self.request, self.access), AccessScope.READ)
        except OnbeatError:
            return False
        return True
