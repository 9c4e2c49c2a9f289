"""The messages that arrived over one channel, and those not acknowledged yet."""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pamqp.commands import Basic
from pamqp.header import ContentHeader

from onbeat.ports.transport import Delivery
from onbeat.transports.amqp.channel import Channel


class Subscription:
    """Lives as long as its channel. A receipt is the consumer and the broker's tag."""

    def __init__(self) -> None:
        self._channel: Channel | None = None
        self._waiting: deque[Delivery] = deque()
        self._unsettled: dict[int, None] = {}
        self._news = asyncio.Event()
        self._cancelled = False

    def start(self, channel: Channel) -> None:
        """`on_message` may have been called before."""
        self._channel = channel
        channel.on_consumer_cancel_callbacks.add(self._cancel)
        channel.ending.add_done_callback(lambda _: self._news.set())

    @property
    def channel(self) -> Channel:
        assert self._channel is not None, "it has been started"
        return self._channel

    @property
    def is_lost(self) -> bool:
        return self._cancelled or self.channel.is_closed

    @property
    def was_cancelled(self) -> bool:
        """The broker ended the subscription, since the queue was deleted."""
        return self._cancelled

    def on_message(self, tag: int, header: ContentHeader, body: bytes) -> None:
        self._unsettled[tag] = None
        properties = header.properties
        delivery = Delivery(
            body=body,
            headers=headers_of(properties),
            receipt=(self, tag),
            id=properties.message_id or "",
            reply_to=properties.reply_to or "",
            correlation_id=properties.correlation_id or "",
        )
        self._waiting.append(delivery)
        self._news.set()

    def take(self, limit: int) -> list[Delivery]:
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(limit, len(waiting)))]

    async def news(self, until: float) -> bool:
        """Whether a message arrived or the channel was lost by then."""
        if not self._waiting:
            self._news.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True

    def settle_frames(self, deliveries: Sequence[Delivery]) -> list[Basic.Ack]:
        """The acknowledgements of these deliveries, in as few frames as possible."""
        mine = {
            tag
            for consumer, tag in (receipt_of(delivery) for delivery in deliveries)
            if consumer is self and tag in self._unsettled
        }
        last = self._settle_up_to(mine)
        frames = [Basic.Ack(last, multiple=True)] if last else []
        for tag in mine & self._unsettled.keys():
            del self._unsettled[tag]
            frames.append(Basic.Ack(tag))
        return frames

    def _settle_up_to(self, tags: Collection[int]) -> int:
        """Settles the longest prefix of open tags that is in `tags`. Returns its last tag, or 0."""
        last = 0
        for tag in [*self._unsettled]:
            if tag not in tags:
                break
            del self._unsettled[tag]
            last = tag
        return last

    def _cancel(self, _: Basic.Cancel) -> None:
        self._cancelled = True
        self._news.set()


def receipt_of(delivery: Delivery) -> tuple[Subscription | None, int]:
    match delivery.receipt:
        case (Subscription() as consumer, int(tag)):
            return consumer, tag
        case _:
            return None, 0


def headers_of(properties: Basic.Properties) -> dict[str, str]:
    """Headers as text, since other clients may send numbers."""
    given: Mapping[str, Any] = properties.headers or {}
    return {
        name: value if isinstance(value, str) else str(value)
        for name, value in given.items()
        if isinstance(value, str | int | float)
    }
