"""A channel that carries many messages for little."""

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
from onbeat.transports.lots import lots

TRANSIENT: Final = 1  # in memory, while there is room: nobody waits for a disk
PERSISTENT: Final = 2
FRAMES: Final = 100  # read ahead of who takes them

Confirmation = asyncio.Future[Any]
Arrival = Callable[[int, ContentHeader, bytes], None]
"""Told of a message: its delivery tag, its header with the properties, and its body."""


class Channel(aiormq.Channel):
    """The driver's, but with messages written in lots, and read without a task for each.

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
        self._arrived = arrived
        self._writes: asyncio.Queue[ChannelFrame] = self.write_queue  # pyright: ignore[reportUnknownMemberType]  the driver does not say of what
        self._sending = asyncio.Lock()
        self.ending.add_done_callback(lambda _: self._end())

    async def consume(self, queue: str) -> None:
        # The driver calls this only if it stops calling what is overridden below.
        async def delivered(message: DeliveredMessage) -> None:
            self._tell(message.delivery_tag, message.header, message.body)

        await self.basic_consume(queue, delivered)

    @property
    def ending(self) -> asyncio.Future[Any]:
        """A future of the caller's own that ends when the channel has."""
        return self.closing  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  as above

    async def settle(self, acks: Sequence[Basic.Ack]) -> None:
        payload = b"".join(marshal(ack, self.number) for ack in acks)
        await self._writes.put(ChannelFrame(payload, should_close=False))

    async def publish_lots(
        self, queue: str, envelopes: Sequence[Envelope], confirmations: list[Confirmation]
    ) -> None:
        """Adds a future for each that is written, which ends as the broker confirms it or not."""
        left = len(envelopes)
        for lot in lots(envelopes):
            # The broker counts what comes, so numbering and writing must not part.
            async with self._sending:
                if self.is_closed:
                    raise aiormq.ChannelInvalidStateError("closed")
                confirmations += [self._number(envelope) for envelope in lot]
                left -= len(lot)
                drained = asyncio.get_running_loop().create_future() if left else None
                payload = b"".join(self._frames(queue, lot))
                await self._writes.put(
                    ChannelFrame(payload, should_close=False, drain_future=drained)
                )
            # The rest is not put on top of what the network has not taken yet. For the last lot
            # the confirmations are waited for.
            if drained is not None:
                await self._drained(drained)

    async def _drained(self, drained: asyncio.Future[None]) -> None:
        ending = self.ending
        await asyncio.wait({drained, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()

    def _end(self) -> None:
        """Nobody will confirm these any more."""
        for confirmation in self.confirmations.values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  as above
            if not confirmation.done():  # pyright: ignore[reportUnknownMemberType]  as above
                confirmation.set_exception(aiormq.ChannelInvalidStateError("closed"))  # pyright: ignore[reportUnknownMemberType]  as above

    def _number(self, envelope: Envelope) -> Confirmation:
        self.delivery_tag += 1
        confirmation = asyncio.get_running_loop().create_future()
        self.confirmations[self.delivery_tag] = confirmation  # pyright: ignore[reportUnknownMemberType]  as above
        # By this the driver knows whom to tell that a message had no queue to go to.
        self.message_id_delivery_tag[envelope.id] = self.delivery_tag
        return confirmation

    def forget(self, envelopes: Sequence[Envelope], confirmations: Sequence[Confirmation]) -> None:
        """They are confirmed, or nobody waits for that any more."""
        for envelope in envelopes:
            self.message_id_delivery_tag.pop(envelope.id, None)
        for confirmation in confirmations:
            if not confirmation.cancel() and not confirmation.cancelled():
                confirmation.exception()  # or the loop would tell that nobody has looked at it

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
        self._tell(frame.delivery_tag, header, body)

    def _tell(self, tag: int | None, header: ContentHeader, body: bytes) -> None:
        if self._arrived is not None and tag is not None:
            self._arrived(tag, header, body)


def header_of(envelope: Envelope) -> ContentHeader:
    properties = Basic.Properties(
        delivery_mode=TRANSIENT if envelope.fleeting else PERSISTENT,
        message_id=envelope.id,
        headers=dict(envelope.headers) or None,
    )
    return ContentHeader(body_size=len(envelope.body), properties=properties)


async def open_channel(
    connection: AbstractConnection, arrived: Arrival | None, *, confirms: bool
) -> Channel:
    """A channel of the connection, with the lowest number that is free."""
    number = next(number for number in range(1, 1 << 16) if number not in connection.channels)
    channel = Channel(connection, number, arrived, confirms=confirms)
    connection.channels[number] = channel
    await channel.open()
    return channel
