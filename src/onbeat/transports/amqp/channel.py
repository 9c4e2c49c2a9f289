"""A channel with low overhead for many messages."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import aiormq
from aiormq.abc import AbstractConnection, ChannelFrame, DeliveredMessage
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.frame import marshal
from pamqp.header import ContentHeader

from onbeat.ports.transport import Envelope
from onbeat.transports.batches import batches

TRANSIENT: Final = 1  # in memory, while there is room; no wait for a disk
PERSISTENT: Final = 2
FRAMES: Final = 100  # read ahead of the consumer

Confirmation = asyncio.Future[Any]
Arrival = Callable[[int, ContentHeader, bytes], None]
"""Called with a message: its delivery tag, its header with the properties, and its body."""


class Channel(aiormq.Channel):
    """The driver's channel, with messages written in batches, and read without a task for each.

    `arrived` must not raise.
    """

    def __init__(
        self,
        connection: AbstractConnection,
        number: int,
        arrived: Arrival | None,
        *,
        confirms: bool,
    ) -> None:
        super().__init__(
            connection,
            number,
            publisher_confirms=confirms,
            frame_buffer=FRAMES,
        )
        self._on_message = arrived
        self._writes: asyncio.Queue[ChannelFrame] = self.write_queue  # pyright: ignore[reportUnknownMemberType]  the driver's queue has no item type
        self._sending = asyncio.Lock()
        self.ending.add_done_callback(lambda _: self._end())

    async def consume(self, queue: str) -> None:
        # Called only if a driver version stops calling the methods overridden below.
        async def on_message(message: DeliveredMessage) -> None:
            self._pass_on(message.delivery_tag, message.header, message.body)

        await self.basic_consume(queue, on_message)

    @property
    def ending(self) -> asyncio.Future[Any]:
        """A new future that completes when the channel ends."""
        return self.closing  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  as above

    async def settle(self, acks: Sequence[Basic.Ack]) -> None:
        payload = b"".join(marshal(ack, self.number) for ack in acks)
        await self._writes.put(ChannelFrame(payload, should_close=False))

    async def publish_batches(
        self, queue: str, envelopes: Sequence[Envelope], confirmations: list[Confirmation]
    ) -> None:
        """Appends a future for each written message; the broker's confirmation resolves it."""
        left = len(envelopes)
        for batch in batches(envelopes):
            # The broker numbers messages in the order received, so numbering and writing are one
            # step.
            async with self._sending:
                if self.is_closed:
                    raise aiormq.ChannelInvalidStateError("closed")
                confirmations += [self._number(envelope) for envelope in batch]
                left -= len(batch)
                drained = asyncio.get_running_loop().create_future() if left else None
                payload = b"".join(self._frames(queue, batch))
                await self._writes.put(
                    ChannelFrame(payload, should_close=False, drain_future=drained)
                )
            # Wait until the network has taken a batch before writing the next. After the last
            # batch, the caller waits for the confirmations.
            if drained is not None:
                await self._wait_drained(drained)

    async def _wait_drained(self, drained: asyncio.Future[None]) -> None:
        ending = self.ending
        await asyncio.wait({drained, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()

    def _end(self) -> None:
        """Fail the open confirmations: the channel is closed."""
        for confirmation in self.confirmations.values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  as above
            if not confirmation.done():  # pyright: ignore[reportUnknownMemberType]  as above
                confirmation.set_exception(aiormq.ChannelInvalidStateError("closed"))  # pyright: ignore[reportUnknownMemberType]  as above

    def _number(self, envelope: Envelope) -> Confirmation:
        self.delivery_tag += 1
        confirmation = asyncio.get_running_loop().create_future()
        self.confirmations[self.delivery_tag] = confirmation  # pyright: ignore[reportUnknownMemberType]  as above
        # The driver needs this to report a message that was routed to no queue.
        self.message_id_delivery_tag[envelope.id] = self.delivery_tag
        return confirmation

    def forget(self, envelopes: Sequence[Envelope], confirmations: Sequence[Confirmation]) -> None:
        """Drop messages that are confirmed, or that no caller waits for any more."""
        for envelope in envelopes:
            self.message_id_delivery_tag.pop(envelope.id, None)
        for confirmation in confirmations:
            if not confirmation.cancel() and not confirmation.cancelled():
                confirmation.exception()  # retrieved, so that asyncio logs nothing

    def _frames(self, queue: str, envelopes: Sequence[Envelope]) -> Iterator[bytes]:
        number, size = self.number, self.max_content_size
        publish = marshal(Basic.Publish(routing_key=queue, mandatory=True), number)
        for envelope in envelopes:
            body = envelope.body
            yield publish
            yield marshal(header_of(envelope), number)
            for start in range(0, len(body), size):
                yield marshal(ContentBody(body[start : start + size]), number)

    async def _on_deliver_frame(self, frame: Basic.Deliver) -> None:
        header = await self._get_frame()
        assert isinstance(header, ContentHeader), "a header follows each delivery"
        size, body = header.body_size or 0, b""
        while len(body) < size:
            part = await self._get_frame()
            assert isinstance(part, ContentBody), "as many bytes as the header says follow it"
            body += part.value
        self._pass_on(frame.delivery_tag, header, body)

    def _pass_on(self, tag: int | None, header: ContentHeader, body: bytes) -> None:
        if self._on_message is not None and tag is not None:
            self._on_message(tag, header, body)


def header_of(envelope: Envelope) -> ContentHeader:
    properties = Basic.Properties(
        delivery_mode=TRANSIENT if envelope.fleeting else PERSISTENT,
        message_id=envelope.id,
        correlation_id=envelope.correlation_id or None,
        headers=dict(envelope.headers) or None,
    )
    return ContentHeader(body_size=len(envelope.body), properties=properties)


async def open_channel(
    connection: AbstractConnection, on_message: Arrival | None, *, confirms: bool
) -> Channel:
    """A channel of the connection, with the lowest free number."""
    number = next(number for number in range(1, 1 << 16) if number not in connection.channels)
    channel = Channel(connection, number, on_message, confirms=confirms)
    connection.channels[number] = channel
    await channel.open()
    return channel
