"""HTTP/1.1 with limits that hold before a key is checked.

The parser itself has no limits: it buffers its input until the headers are complete.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onbeat.app.connections import FULL, Connections
from onbeat.model.limits import (
    LINGER_BYTES_MAX,
    REQUEST_HEAD_BYTES_MAX,
    REQUEST_HEADERS_MAX,
    REQUEST_URL_BYTES_MAX,
    REQUESTS_PIPELINED_MAX,
)
from onbeat.wire.errors import Problem, ProblemAnswer

# The progress that a slow reader must make within the deadline, to get another one.
STALL_BYTES_MIN: Final = 65_536

LINE_ENDS: Final = len("\r\n\r\n")  # of the request line, and of the headers
OF_REQUEST_LINE: Final = len("  HTTP/1.1")
OF_HEADER: Final = len(": \r\n")
WHOLE_URL_STARTS: Final = b"/*"


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is refused; `reason` is its name in the log and in metrics."""

    status: HTTPStatus
    code: str
    reason: str
    message: str


HEAD_TOO_LARGE: Final = Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "too_large",
    "head_too_large",
    f"The request line and headers may have at most {REQUEST_HEAD_BYTES_MAX} bytes",
)
TOO_MANY_HEADERS: Final = Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "too_large",
    "head_too_large",
    f"A request may have at most {REQUEST_HEADERS_MAX} headers",
)
URL_TOO_LONG: Final = Refusal(
    HTTPStatus.REQUEST_URI_TOO_LONG,
    "too_large",
    "url_too_long",
    f"The URL may have at most {REQUEST_URL_BYTES_MAX} bytes",
)
MALFORMED: Final = Refusal(
    HTTPStatus.BAD_REQUEST, "invalid_request", "malformed", "This is not a proper HTTP/1.1 request"
)
NOT_ONE_HOST: Final = Refusal(
    HTTPStatus.BAD_REQUEST,
    "invalid_request",
    "malformed",
    "A request must have one Host header, and only one",
)
ANOTHER_HOST: Final = Refusal(
    HTTPStatus.BAD_REQUEST,
    "invalid_request",
    "malformed",
    "The request line names another host than the Host header",
)
TOO_SLOW: Final = Refusal(
    HTTPStatus.REQUEST_TIMEOUT,
    "invalid_request",
    "head_timeout",
    "The headers did not arrive in time",
)
TOO_MANY_AT_ONCE: Final = Refusal(
    HTTPStatus.BAD_REQUEST,
    "invalid_request",
    "pipeline_too_long",
    f"At most {REQUESTS_PIPELINED_MAX} requests may wait on one connection",
)
FULL_HOUSE: Final = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", FULL, "Too many connections are open; try again"
)


class HeadRefused(Exception):
    """Carries a refusal out of the parser's callbacks."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on bytes, headers, requests, connections and time.

    A timer runs only while the headers are incomplete, a response is not read, or (uvicorn's own)
    the connection is idle: requests that arrive complete cost no timer.
    """

    def __init__(self, *args: Any, connections: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connections_open = connections
        self.is_refused = False
        self.is_head_whole = False
        self.has_head_timer = False
        self.data_bytes = 0  # size of the current input
        self.message_ended = self.has_body = False  # by the current input
        self.head_bytes = 0  # received so far of incomplete headers
        self.dropped_bytes = 0  # since the refusal
        self.framing_bytes = 0  # since the last part of a body
        self.url = b""
        self.headers = []
        self.guard_timer: asyncio.TimerHandle | None = None
        self.unsent = 0

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.connections_open.admit(self):
            self.start_head_timer()
        else:
            self.is_refused = True
            self.transport.write(self.response(FULL_HOUSE))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.stop_guard_timer()
        self.connections_open.remove(self)

    def evict(self) -> None:
        self.is_refused = True
        self.transport.abort()

    @property
    def is_answering(self) -> bool:
        # Later requests of the connection wait for earlier ones, so the last one is enough.
        last: Any = self.cycle  # None before the first request, despite its type
        return last is not None and not last.response_complete

    # Reading

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            self.drop(data)
            return
        was_whole = self.is_head_whole
        self.data_bytes = len(data)
        self.message_ended = self.has_body = False
        parser: Any = self.parser
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.ignore_upgrade()
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.refuse(cause.refusal if isinstance(cause, HeadRefused) else MALFORMED)
        else:
            if not self.is_head_whole:
                self.count_head()
            elif was_whole and not self.has_body:
                self.count_framing()

    def drop(self, data: bytes) -> None:
        """Read from a refused client up to a limit, so that it sees the response."""
        self.dropped_bytes += len(data)
        if self.dropped_bytes > LINGER_BYTES_MAX and not self.transport.is_closing():
            self.flow.pause_reading()

    def count_head(self) -> None:
        """Count incomplete headers; if they began in this input, only its complete lines count."""
        if self.message_ended:
            self.head_bytes = self.parsed_bytes()
        else:
            self.head_bytes += self.data_bytes
        if len(self.url) > REQUEST_URL_BYTES_MAX:
            self.refuse(URL_TOO_LONG)
        elif self.head_bytes > REQUEST_HEAD_BYTES_MAX:
            self.refuse(HEAD_TOO_LARGE)
        elif self.head_bytes and not self.has_head_timer and not self.is_answering:
            self.start_head_timer()

    def count_framing(self) -> None:
        """Count bytes between parts of a body: chunk sizes, chunk extensions, and trailers."""
        self.framing_bytes += self.data_bytes
        if self.framing_bytes > REQUEST_HEAD_BYTES_MAX:
            self.refuse(HEAD_TOO_LARGE)

    def parsed_bytes(self) -> int:
        """The parsed bytes of the request line and the headers."""
        fields = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.url) + fields + OF_HEADER * len(self.headers)

    def on_headers_complete(self) -> None:
        self.check_head()
        super().on_headers_complete()
        self.is_head_whole = True
        self.has_head_timer = False
        self.head_bytes = self.framing_bytes = 0
        # Trailers must not be taken for headers.
        self.headers = []
        self._unset_keepalive_if_required()
        self.connections_open.busy(self)

    def check_head(self) -> None:
        """Raises `HeadRefused`. Headers in one input are short enough to be parsed first."""
        parser: Any = self.parser
        if len(self.pipeline) >= REQUESTS_PIPELINED_MAX:
            raise HeadRefused(TOO_MANY_AT_ONCE)
        if len(self.url) > REQUEST_URL_BYTES_MAX:
            raise HeadRefused(URL_TOO_LONG)
        if len(self.headers) > REQUEST_HEADERS_MAX:
            raise HeadRefused(TOO_MANY_HEADERS)
        if self.head_bytes + self.data_bytes > REQUEST_HEAD_BYTES_MAX:
            around = len(parser.get_method()) + OF_REQUEST_LINE + LINE_ENDS
            if self.parsed_bytes() + around > REQUEST_HEAD_BYTES_MAX:
                raise HeadRefused(HEAD_TOO_LARGE)
        self.check_host(parser.get_http_version())

    def check_host(self, version: str) -> None:
        """Require exactly one host, the same in URL and header (RFC 9112, 3.2)."""
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) != 1 and (hosts or version == "1.1"):
            raise HeadRefused(NOT_ONE_HOST)
        if self.url[:1] in WHOLE_URL_STARTS:
            return
        if not hosts or authority_of(self.url) != with_port(hosts[0]):
            raise HeadRefused(ANOTHER_HOST)

    def on_body(self, body: bytes) -> None:
        self.has_body = True
        self.framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.is_head_whole = False
        self.message_ended = True

    def ignore_upgrade(self) -> None:
        """Answer the request without the upgrade, as any server may; ignore further input."""
        self.is_refused = True
        self.cycle.keep_alive = False
        self.connections_open.log("upgrade.ignored", peer=self.peer)

    # Answering

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self.watch_reader()
        elif not self.is_answering:
            # The client has little time for the rest of an unread body; uvicorn's timer runs.
            self.has_head_timer = False
            self.connections_open.idle(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stop_guard_timer()

    def refuse(self, refusal: Refusal) -> None:
        """Send the refusal unless another response is in progress, and ignore further input."""
        self.connections_open.note(refusal.reason, peer=self.peer, status=int(refusal.status))
        self.is_refused = True
        if self.is_head_whole:
            if self.pipeline or self.cycle.response_started:
                self.transport.close()
                return
            # The application still waits for this body.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        elif self.is_answering:
            self.cycle.keep_alive = False
            return
        self._unset_keepalive_if_required()
        self.transport.write(self.response(refusal))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.start_guard_timer(self.connections_open.times.linger, self.transport.abort)

    def response(self, refusal: Refusal) -> bytes:
        body = msgspec.json.encode(
            ProblemAnswer(Problem(code=refusal.code, message=refusal.message))
        )
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        if refusal is FULL_HOUSE:
            headers.append((b"retry-after", b"1"))
        status = f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}\r\n".encode()
        return b"".join([status, *(b"%b: %b\r\n" % header for header in headers), b"\r\n", body])

    @property
    def peer(self) -> str:
        return self.client[0] if self.client else "unknown"

    # Timers

    def start_head_timer(self) -> None:
        self._unset_keepalive_if_required()
        self.has_head_timer = True
        self.timeout_keep_alive_task = self.loop.call_later(
            self.connections_open.times.head, self.head_overdue
        )

    def head_overdue(self) -> None:
        if self.transport.is_closing():
            return
        if self.head_bytes:
            self.refuse(TOO_SLOW)
        else:
            self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.watch_reader()

    def watch_reader(self) -> None:
        """Wait for the reader of a response as long as it keeps reading."""
        self.unsent = self.transport.get_write_buffer_size()
        if self.unsent:
            self.start_guard_timer(self.connections_open.times.stall, self.check_reader)

    def check_reader(self) -> None:
        taken = self.unsent - self.transport.get_write_buffer_size()
        if taken < STALL_BYTES_MIN:
            self.connections_open.note("answer_not_read", peer=self.peer)
            self.transport.abort()
        else:
            self.watch_reader()

    def start_guard_timer(self, seconds: float, act: Any) -> None:
        self.stop_guard_timer()
        self.guard_timer = self.loop.call_later(seconds, act)

    def stop_guard_timer(self) -> None:
        if self.guard_timer is not None:
            self.guard_timer.cancel()
            self.guard_timer = None


def bounded_by(connections: Connections) -> type[asyncio.Protocol]:
    """A protocol class that shares `connections`; uvicorn makes an instance per connection."""

    class SharedProtocol(BoundedProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, connections=connections, **kwargs)

    return SharedProtocol


def authority_of(url: bytes) -> bytes:
    """The host and port of an absolute URL."""
    rest = url.partition(b"://")[2]
    for end in (b"/", b"?", b"#"):
        rest = rest.partition(end)[0]
    return with_port(rest)


def with_port(authority: bytes) -> bytes:
    """In lower case, without the default port."""
    return authority.strip().lower().removesuffix(b":80")
