"""What reaches the API's port before a key is looked at, over real sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from conditions import PATIENCE, eventually
from onbeat.app.connections import Connections, Times
from onbeat.app.protocol import BoundedProtocol
from onbeat.model.limits import (
    HEAD_SECONDS_MAX,
    KEEP_ALIVE_SECONDS_MAX,
    LINGER_BYTES_MAX,
    REQUEST_HEAD_BYTES_MAX,
    REQUEST_HEADERS_MAX,
    REQUEST_URL_BYTES_MAX,
    REQUESTS_PIPELINED_MAX,
    STALL_SECONDS_MAX,
)

SHORT = 0.2
KEEP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 8_000_000


class Port:
    """An application behind the protocol: what arrived, and what a client got back."""

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.protocols: list[BoundedProtocol] = []
        self.lines: list[RawConnection] = []

    async def start(self, limit: int, times: Times, keep_alive: float) -> None:
        self.connections = Connections(limit, times=times)
        config = uvicorn.Config(
            self.answer,
            interface="asgi3",
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=keep_alive,  # type: ignore[arg-type]  # shorter than a second too
        )
        state = ServerState()

        def made() -> BoundedProtocol:
            protocol = BoundedProtocol(config, state, {}, connections=self.connections)
            self.protocols.append(protocol)
            return protocol

        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(made, "127.0.0.1", 0)
        self.address = self.server.sockets[0].getsockname()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests.append(scope)
        if scope["path"] == "/early":
            await respond(send, b"no")
            return
        if scope["path"] == "/large":
            await respond(send, b"a" * LARGE)
            return
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part["body"]
            if not part["more_body"]:
                break
        await self.let_go.wait()
        await respond(send, body or b"ok")

    async def connect(self, *parts: bytes, small: bool = False) -> "RawConnection":
        sock = socket.socket()
        if small:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self.address)
        line = RawConnection(*await asyncio.open_connection(sock=sock))
        self.lines.append(line)
        for part in parts:
            await line.send(part)
        return line

    async def ask(self, *parts: bytes) -> bytes:
        """All that comes back until the connection is closed."""
        line = await self.connect(*parts)
        return await line.rest()

    @property
    def refused(self) -> Any:
        return self.connections.counts.refused


async def respond(send: Any, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class RawConnection:
    """A client's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, part: bytes) -> None:
        self.writer.write(part)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def drip(self) -> None:
        """A byte now and then, until the connection is closed or reset."""
        while not self.reader.at_eof() and self.reader.exception() is None:
            await self.send(b"a")
            await asyncio.sleep(SHORT / 10)

    async def response(self) -> bytes:
        """One response, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = [
            line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        ]
        return head + await self.reader.readexactly(int(length.split(b":")[1]))

    async def rest(self) -> bytes:
        async with asyncio.timeout(10):
            result = b""
            with contextlib.suppress(ConnectionError):
                while part := await self.reader.read(65_536):
                    result += part
            return result

    async def close(self) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@pytest.fixture
async def opened() -> AsyncIterator[Any]:
    ports: list[Port] = []

    async def start(
        limit: int = 100, *, keep_alive: Any = KEEP_ALIVE_SECONDS_MAX, **times: Any
    ) -> Port:
        port = Port()
        await port.start(limit, Times(**times), keep_alive)
        ports.append(port)
        return port

    yield start
    for port in ports:
        port.server.close()
        for line in port.lines:
            await line.close()
        for protocol in port.protocols:
            if protocol.transport is not None:
                protocol.transport.abort()

        def all_gone(port: Port = port) -> bool:
            return port.connections.counts.open == 0

        await eventually(all_gone, "all are gone")


def head_of(size: int, line: bytes = b"GET / HTTP/1.1") -> bytes:
    """A head of exactly so many bytes."""
    begun = line + b"\r\nHost: x\r\nConnection: close\r\nX: "
    return begun + b"a" * (size - len(begun) - 4) + b"\r\n\r\n"


def split(data: bytes, size: int = 4_000) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


PIECES = {"at once": lambda data: [data], "in pieces": split}


@pytest.mark.parametrize("cut", PIECES.values(), ids=PIECES.keys())
async def test_a_head_of_the_largest_size_passes_and_one_byte_more_does_not(
    opened: Any, cut: Callable[..., Any]
) -> None:
    port = await opened()
    passed = await port.ask(*cut(head_of(REQUEST_HEAD_BYTES_MAX)))
    assert passed.startswith(b"HTTP/1.1 200 ")
    refused = await port.ask(*cut(head_of(REQUEST_HEAD_BYTES_MAX + 1)))
    assert refused.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b'{"error":{"code":"too_large","message":"The request line and headers' in refused
    assert len(port.requests) == 1
    assert port.refused == {"head_too_large": 1}


@pytest.mark.parametrize("cut", PIECES.values(), ids=PIECES.keys())
async def test_so_many_headers_pass_and_one_more_does_not(
    opened: Any, cut: Callable[..., Any]
) -> None:
    port = await opened()
    head = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    more = REQUEST_HEADERS_MAX - 2
    passed = await port.ask(*cut(head + b"X: a\r\n" * more + b"\r\n"))
    assert passed.startswith(b"HTTP/1.1 200 ")
    refused = await port.ask(*cut(head + b"X: a\r\n" * (more + 1) + b"\r\n"))
    assert refused.startswith(b"HTTP/1.1 431 ")
    assert b"100 headers" in refused


@pytest.mark.parametrize("cut", PIECES.values(), ids=PIECES.keys())
async def test_a_url_of_the_largest_size_passes_and_one_byte_more_does_not(
    opened: Any, cut: Callable[..., Any]
) -> None:
    port = await opened()
    rest = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    url = b"/" + b"a" * (REQUEST_URL_BYTES_MAX - 1)
    passed = await port.ask(*cut(b"GET " + url + rest))
    assert passed.startswith(b"HTTP/1.1 200 ")
    refused = await port.ask(*cut(b"GET " + url + b"a" + rest))
    assert refused.startswith(b"HTTP/1.1 414 ")
    assert str(REQUEST_URL_BYTES_MAX).encode() in refused
    assert port.refused == {"url_too_long": 1}


ENDLESS = {
    "a header": (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"a" * 65_536, b"431"),
    "a header's name": (b"GET / HTTP/1.1\r\nHost: x\r\n", b"a" * 65_536, b"431"),
    "headers": (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: a\r\n" * 10_000, b"431"),
    "a URL": (b"GET /", b"a" * 65_536, b"414"),
    "a query": (b"GET /?", b"a" * 65_536, b"414"),
    "empty lines": (b"", b"\r\n" * 32_768, b"431"),
    "a method": (b"", b"A" * 65_536, b"400"),
}


@pytest.mark.parametrize(("begun", "more", "status"), ENDLESS.values(), ids=ENDLESS.keys())
async def test_a_head_without_end_is_refused_while_its_sender_goes_on(
    opened: Any, begun: bytes, more: bytes, status: bytes
) -> None:
    port = await opened()
    line = await port.connect(begun)
    answer = asyncio.create_task(line.response())
    while not answer.done():
        await asyncio.wait_for(line.send(more), PATIENCE)
    assert (await answer).startswith(b"HTTP/1.1 " + status)
    (protocol,) = port.protocols
    # Of what still comes, a little is read, and then nothing.
    flood = asyncio.create_task(line.send(more * 1_000))
    await eventually(lambda: protocol.flow.read_paused, "no more is read")
    assert protocol.dropped_bytes <= LINGER_BYTES_MAX + (1 << 20)
    await line.close()
    await flood
    assert port.requests == []


async def test_a_mebibyte_of_headers_leaves_no_more_than_one_reading_behind(opened: Any) -> None:
    port = await opened()
    line = await port.connect()
    (protocol,) = port.protocols
    held = 0
    for part in split(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * (1 << 20), 8_192):
        await line.send(part)
        held = max(held, protocol.head_bytes)
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")
    assert held <= REQUEST_HEAD_BYTES_MAX


async def test_a_small_head_behind_a_large_body_in_one_reading_passes(opened: Any) -> None:
    port = await opened()
    body = b"b" * 60_000
    first = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    line = await port.connect(first + body + b"GET /second HT")
    assert (await line.response()).endswith(body)
    await line.send(b"TP/1.1\r\nHost: x\r\n\r\n")
    assert (await line.response()).endswith(b"ok")
    await line.close()
    assert [scope["path"] for scope in port.requests] == ["/", "/second"]


async def test_trailers_are_counted_and_are_no_headers(opened: Any) -> None:
    port = await opened()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
    line = await port.connect(head + b"Authorization: Bearer a\r\nHost: y\r\n\r\n")
    assert (await line.response()).endswith(b"hello")
    assert not {b"authorization"} & {name for name, _ in port.requests[0]["headers"]}
    await line.close()


FRAMING = {
    "headers": b"0\r\n" + b"X: a\r\n" * 10_000,
    "one header": b"0\r\nX: " + b"a" * 65_536,
    "the extension of a chunk": b"5;" + b"a" * 65_536,
}


@pytest.mark.parametrize("begun", FRAMING.values(), ids=FRAMING.keys())
async def test_what_goes_round_a_body_without_end_is_refused(opened: Any, begun: bytes) -> None:
    port = await opened()
    line = await port.connect(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await eventually(lambda: port.requests, "its body is waited for")
    answer = asyncio.create_task(line.response())
    sent = 0
    while not answer.done():
        await asyncio.wait_for(line.send(begun if not sent else begun[-6:] * 10_000), PATIENCE)
        sent += 1
        assert sent < 1_000
    assert (await answer).startswith(b"HTTP/1.1 431 ")


async def test_a_body_in_chunks_of_one_byte_arrives_whole(opened: Any) -> None:
    port = await opened()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    line = await port.connect(head, b"1\r\na\r\n" * 50_000, b"0\r\n\r\n")
    assert (await line.response()).endswith(b"\r\n\r\n" + b"a" * 50_000)
    await line.close()


async def test_a_body_that_breaks_off_in_nonsense_is_refused(opened: Any) -> None:
    port = await opened()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    line = await port.connect(head)
    await eventually(lambda: port.requests, "its body is waited for")
    await line.send(b"zz\r\n")
    assert (await line.rest()).startswith(b"HTTP/1.1 400 ")


async def test_a_half_request_is_answered_at_its_deadline(opened: Any) -> None:
    port = await opened(head=SHORT)
    refused = await port.ask(b"GET / HTTP/1.1\r\nHos")
    assert refused.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive in time" in refused
    assert port.refused == {"head_timeout": 1}


async def test_bytes_that_drip_do_not_put_the_deadline_off(opened: Any) -> None:
    port = await opened(head=SHORT)
    line = await port.connect(b"GET / HTTP/1.1\r\nX: ")

    dripping = asyncio.create_task(line.drip())
    assert (await line.rest()).startswith(b"HTTP/1.1 408 ")
    await dripping


async def test_a_connection_that_says_nothing_is_closed_at_the_same_deadline(opened: Any) -> None:
    port = await opened(head=SHORT)
    assert await port.ask() == b""
    await eventually(lambda: port.connections.counts.open == 0, "closed")


async def test_a_later_request_has_the_deadline_too(opened: Any) -> None:
    port = await opened(head=SHORT)
    line = await port.connect(KEEP)
    await line.response()
    await line.send(b"GET /")
    assert (await line.rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_without_another_request_is_closed(opened: Any) -> None:
    port = await opened(keep_alive=SHORT)
    line = await port.connect(KEEP)
    await line.response()
    assert await line.rest() == b""


async def test_a_body_that_nobody_waits_for_does_not_keep_its_connection(opened: Any) -> None:
    port = await opened(keep_alive=SHORT)
    line = await port.connect(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    await line.response()

    dripping = asyncio.create_task(line.drip())
    assert await line.rest() == b""
    await dripping


async def test_an_answer_that_is_not_read_does_not_keep_its_connection(opened: Any) -> None:
    port = await opened(stall=SHORT)
    for request in (KEEP, KEEP.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")):
        line = await port.connect(request.replace(b"/ ", b"/large "), small=True)
        line.reader._transport.pause_reading()
        await eventually(lambda: port.requests, "it is being answered")
        await eventually(lambda: port.connections.counts.open == 0, "given up")
        await line.close()
        port.requests.clear()
    assert port.refused == {"answer_not_read": 2}


async def test_an_answer_that_is_read_slowly_arrives_whole(opened: Any) -> None:
    port = await opened(stall=1.0)
    line = await port.connect(KEEP.replace(b"/ ", b"/large "), small=True)
    assert len(await line.response()) > LARGE
    await line.close()
    assert port.refused == {}


def test_the_deadlines_are_those_of_the_table() -> None:
    assert Times() == Times(head=HEAD_SECONDS_MAX, stall=STALL_SECONDS_MAX)
    assert HEAD_SECONDS_MAX == 10


HOSTS = {
    "none": b"GET / HTTP/1.1\r\n\r\n",
    "two": b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    "two that differ": b"GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n",
    "another in the request line": b"GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "another port": b"GET http://x:81/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a user before it": b"GET http://x@evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a query behind it": b"GET http://evil.example?x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "only in the request line": b"GET http://x/ HTTP/1.0\r\n\r\n",
}


@pytest.mark.parametrize("request_", HOSTS.values(), ids=HOSTS.keys())
async def test_a_request_without_one_clear_host_is_refused(opened: Any, request_: bytes) -> None:
    port = await opened()
    refused = await port.ask(request_)
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"invalid_request"' in refused
    assert b"ost" in refused.partition(b"\r\n\r\n")[2]
    assert port.requests == []


@pytest.mark.parametrize(
    "request_",
    [
        b"GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://X:80/a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://[::1]:81/a HTTP/1.1\r\nHost: [::1]:81\r\n\r\n",
        b"GET /a HTTP/1.0\r\n\r\n",
    ],
)
async def test_a_host_that_is_named_twice_the_same_way_passes(opened: Any, request_: bytes) -> None:
    port = await opened(keep_alive=SHORT)
    assert (await port.ask(request_)).startswith(b"HTTP/1.1 200 ")
    assert port.requests[0]["path"] == "/a"


async def test_what_is_no_http_is_refused_and_logged_once_a_minute_with_its_peer(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = await opened()
    for _ in range(5):
        refused = await port.ask(b"\x16\x03\x01\x00\x00 nonsense\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 400 ")
    assert port.refused == {"malformed": 5}
    (line,) = caplog.messages
    assert line == "request.refused reason=malformed peer=127.0.0.1 status=400 times=1"


async def test_an_upgrade_is_answered_without_one_and_floods_no_log(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = await opened()
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    for _ in range(5):
        answer = await port.ask(request + b"frames")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
    (line,) = caplog.messages
    assert line == "upgrade.ignored peer=127.0.0.1 times=1"


async def test_a_bad_head_behind_a_good_request_waits_for_its_answer(opened: Any) -> None:
    port = await opened()
    port.let_go.clear()
    line = await port.connect(KEEP + b"\x00\x00 nonsense\r\n\r\n")
    await eventually(lambda: port.refused, "refused")
    port.let_go.set()
    answer = await line.rest()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"ok")


async def test_so_many_requests_wait_on_one_connection_and_no_more(opened: Any) -> None:
    port = await opened(keep_alive=SHORT)
    # The first is being answered while the others wait.
    answers = await port.ask(KEEP * (REQUESTS_PIPELINED_MAX + 1))
    assert answers.count(b"HTTP/1.1 200 ") == REQUESTS_PIPELINED_MAX + 1
    assert port.refused == {}
    answers = await port.ask(KEEP * 5_000)
    assert answers.count(b"HTTP/1.1 200 ") == REQUESTS_PIPELINED_MAX + 1
    assert port.refused == {"pipeline_too_long": 1}


async def test_past_the_limit_the_one_that_waited_longest_makes_room(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = await opened(limit=3)
    half = [await port.connect(b"GET /") for _ in range(3)]
    await eventually(lambda: port.connections.counts.open == 3, "all three")
    line = await port.connect(KEEP)
    assert (await line.response()).startswith(b"HTTP/1.1 200 ")
    assert await half[0].rest() == b""
    assert port.refused == {"evicted": 1}
    await eventually(lambda: port.connections.counts.open == 3, "as many as before")
    for each in (*half, line):
        await each.close()
    assert caplog.messages == ["connections.full reason=evicted open=4 limit=3 times=1"]


async def test_where_all_are_being_answered_a_new_one_is_refused(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = await opened(limit=2)
    port.let_go.clear()
    lines = [await port.connect(KEEP) for _ in range(2)]
    await eventually(lambda: len(port.requests) == 2, "both are being answered")
    for _ in range(3):
        refused = await port.ask()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in refused
        assert b"connection: close" in refused
    port.let_go.set()
    for line in lines:
        assert (await line.response()).endswith(b"ok")
    # An idle one makes room again.
    assert (await (await port.connect(KEEP)).response()).endswith(b"ok")
    assert port.refused == {"full": 3, "evicted": 1}
    assert [line.split()[1] for line in caplog.messages] == ["reason=full", "reason=evicted"]
