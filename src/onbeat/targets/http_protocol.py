"""A kept connection that carries one request after the other, and where connections come from."""

import asyncio
from math import inf
from typing import Any, Final, Self, cast

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from onbeat.targets.http_answer import AnswerReader
from onbeat.targets.http_errors import AnswerError, BrokeOff, ConnectionBroke, NoAnswer, OverBounds
from onbeat.targets.http_response import Response

# The event loop may read a busy socket many times before it serves others.
BURST_BYTES: Final = 131_072

# One deadline covers the whole attempt; aiohttp's separate timeouts are disabled.
NO_TIMEOUT: Final = aiohttp.ClientTimeout()


class HttpConnection(asyncio.Protocol):
    """One connection to an endpoint. The connector keeps it while it carries no request.

    `is_unanswered` after a failure: the connection was kept from an earlier request, and not a byte
    came for this one.

    Not aiohttp's own protocol: that reads through a stream and several records for each answer, and
    takes interim answers (1xx) without limit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.transport: asyncio.Transport | None = None
        self.reader: AnswerReader | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.until = inf
        self.timer: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[None] | None = None
        self.is_used = False
        self.is_unanswered = False
        self.should_close = False
        self.fault: AnswerError | None = None
        self.burst = 0

    async def exchange(self, data: bytes, *, is_for_head: bool, until: float) -> Response:
        """Sends one request and reads its answer until `until`, in seconds of the loop's clock.

        Raises `NoAnswer`, `ConnectionBroke`, `AnswerError` or `TimeoutError`; the connection is of
        no further use then.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            raise self.fault or NoAnswer
        reader = self.reader = AnswerReader(is_for_head=is_for_head)
        waiter = self.waiter = self.loop.create_future()
        self.set_timer(until)
        transport.write(data)
        try:
            await waiter
        except BaseException:
            self.is_unanswered = self.is_used and not reader.received
            self.abort()
            raise
        finally:
            self.reader = self.waiter = None
            self.is_used = True
        return reader.response()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        reader = self.reader
        if reader is None or reader.is_complete:
            # Nobody asked for it. It must not be taken for the answer to the next request.
            self.fault = OverBounds()
            self.abort()
            return
        try:
            reader.feed(data)
        except AnswerError as error:
            self.fail(error)
            return
        if reader.is_complete:
            self.finish(reader)
        else:
            self.give_way(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.should_close = True
        self.transport = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)
        waiter, reader = self.waiter, self.reader
        if waiter is not None and reader is not None and not waiter.done():
            end(waiter, reader, exc)

    # What the connector calls.

    def is_connected(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    @property
    def closed(self) -> asyncio.Future[None] | None:
        """Done once the connection is closed; None if it is."""
        if self.transport is None:
            return None
        if self.gone is None:
            self.gone = self.loop.create_future()
        return self.gone

    def close(self) -> None:
        if self.transport is None:
            return
        if self.transport.get_write_buffer_size():
            self.abort()  # an endpoint that does not read would keep it open
        else:
            self.transport.close()

    def abort(self) -> None:
        self.should_close = True
        if self.transport is not None:
            self.transport.abort()

    # The answer and its deadline.

    def finish(self, reader: AnswerReader) -> None:
        transport, waiter = self.transport, self.waiter
        # An endpoint may answer before it has read the request; the rest would come before the next
        # one.
        is_sent = transport is not None and not transport.get_write_buffer_size()
        self.should_close = not (reader.is_reusable and is_sent)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(error)
        self.abort()

    def give_way(self, count: int) -> None:
        """Lets the loop serve others after each burst of a long answer."""
        self.burst += count
        if self.burst > BURST_BYTES and self.transport is not None:
            self.burst = 0
            self.transport.pause_reading()
            self.loop.call_soon(self.read_on)

    def read_on(self) -> None:
        if self.is_connected():
            cast("asyncio.Transport", self.transport).resume_reading()

    def set_timer(self, until: float) -> None:
        """One timer serves many requests: mostly it finds that its own has long been answered."""
        self.until = until
        if self.timer is not None and self.timer.when() > until:
            self.timer.cancel()
            self.timer = None
        if self.timer is None:
            self.timer = self.loop.call_at(until, self.look_at_clock)

    def look_at_clock(self) -> None:
        self.timer = None
        if self.waiter is None or self.waiter.done():
            return
        if self.loop.time() < self.until:
            self.timer = self.loop.call_at(self.until, self.look_at_clock)
        else:
            self.fail(TimeoutError())


def end(waiter: "asyncio.Future[None]", reader: AnswerReader, exc: Exception | None) -> None:
    """Resolves the request of a connection that is lost."""
    if exc is not None:
        error: Exception = BrokeOff() if reader.has_head else ConnectionBroke(*exc.args)
        error.__cause__ = exc
        waiter.set_exception(error)
        return
    try:
        reader.end()
    except (AnswerError, NoAnswer) as error:
        waiter.set_exception(error)
    else:
        waiter.set_result(None)


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector with the protocol above: it looks names up, connects, and keeps."""

    def use_own_protocol(self) -> Self:
        """Must be called before the first connection; aiohttp has no option for this."""
        factory: Any = lambda: HttpConnection(self._loop)  # noqa: E731
        self._factory = factory
        return self

    async def kept(self, key: ConnectionKey) -> aiohttp.connector.Connection | None:
        """A connection that has carried a request, if there is one. Returns at once."""
        return await self._get(key, [])

    async def connected(self, url: URL) -> aiohttp.connector.Connection:
        """A connection to the URL's host and port, made unless one is free by then."""
        request = aiohttp.ClientRequest("GET", url, loop=self._loop)
        return await self.connect(request, [], NO_TIMEOUT)
