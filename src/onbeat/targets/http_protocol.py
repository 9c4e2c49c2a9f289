"""Limits on an endpoint's data that neither the client's parser nor its reader enforces."""

import functools
from typing import Any, Final, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler

from onbeat.model.limits import (
    CALLBACK_BYTES_RECEIVED_MAX,
    CALLBACK_INTERIM_ANSWERS_MAX,
    CALLBACK_INTERIM_BYTES_MAX,
    CALLBACK_RESPONSE_HEADER_BYTES_MAX,
)

# Until the head of the response is complete, data is parsed in parts of this size, so that many
# interim responses are noticed before all of them are parsed.
PART_BYTES: Final = 4_096

# Whether a head is an interim one is unknown until it is complete.
HEADS_BYTES_MAX: Final = (
    CALLBACK_INTERIM_BYTES_MAX + CALLBACK_RESPONSE_HEADER_BYTES_MAX + 2 * PART_BYTES
)

# The event loop may read a busy socket many times before it serves others.
BURST_BYTES: Final = 131_072


class OverBounds(aiohttp.ClientError):
    """A response with too many interim responses before it, or too much data around its body."""


class BoundedHandler(ResponseHandler):
    """aiohttp's protocol for one connection, with limits on what the endpoint may send.

    The client reads interim responses (1xx) without limit, keeps all that it has parsed, and does
    not return to the event loop while there are any.
    """

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self.has_answer = False
        self.interim_answers = 0
        self.is_over = False
        self.received = 0
        self.burst = 0

    def set_response_params(self, **params: Any) -> None:
        """Called for each request, before it is sent."""
        self.has_answer = False
        self.interim_answers = 0
        self.is_over = False
        self.received = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        at = 0
        while not self.has_answer and at < len(data):
            self.receive(data[at : at + PART_BYTES])
            at += PART_BYTES
            if self.is_over or self.is_endless():
                self.give_up()
                return
        if at < len(data) or not data:
            self.receive(data[at:])
        if self.received > CALLBACK_BYTES_RECEIVED_MAX:
            self.give_up()

    def receive(self, data: bytes) -> None:
        self.received += len(data)
        super().data_received(data)
        self.burst += len(data)
        if self.burst > BURST_BYTES and self.transport is not None:
            self.burst = 0
            self._pause_transport_reading()
            self._loop.call_soon(self.read_on)

    def read_on(self) -> None:
        if not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Called with each complete head."""
        if 100 <= data[0].code < 200 and data[0].code != 101:
            self.interim_answers += 1
            self.is_over |= (
                self.interim_answers > CALLBACK_INTERIM_ANSWERS_MAX
                # It is unknown where in the last part the head ended.
                or self.received - PART_BYTES > CALLBACK_INTERIM_BYTES_MAX
            )
        else:
            self.has_answer = True
        super().feed_data(data, size)

    def is_endless(self) -> bool:
        """Whether the limit is reached without a complete head of the response."""
        return not self.has_answer and self.received > HEADS_BYTES_MAX

    def give_up(self) -> None:
        error = OverBounds()
        payload: Any = self._payload
        if payload is not None and not self.is_over:
            payload.set_exception(error)
        else:
            self._buffer.clear()
            self.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


class BoundedConnector(aiohttp.TCPConnector):
    """A connector that uses the protocol above; the client has no option for this."""

    def use_bounded_protocol(self) -> Self:
        """Must be called before the first connection."""
        factory: Any = functools.partial(BoundedHandler, loop=self._loop)
        self._factory = factory
        return self
