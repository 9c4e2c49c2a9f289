"""Handles messages that arrive over a broker: submissions, and results of remote workers."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from onbeat.engine.broker.consumer import ReconnectingConsumer
from onbeat.engine.broker.job_consumer import AddDeadLetter
from onbeat.model.errors import OnbeatError, TooLarge, Unavailable
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.ports.transport import Broker, Delivery, Envelope
from onbeat.rules.batches import split_by_weight
from onbeat.wire.broker_messages import REPLIES

PREFETCH: Final = 50  # enough to share commits; each may be as large as the broker allows
AT_ONCE_BYTES: Final = 4 << 20  # handled together: each message may be copied several times
WAIT: Final = 1.0

ReplyQueue = tuple[str, bool]
"""A queue for replies, and whether they go to it directly: its reader has made it."""
Reply = tuple[ReplyQueue, Envelope]

Answer = Callable[[Delivery], Awaitable[bytes | None]]
"""Handles a message and returns the reply, if the sender wants one. Raises `Unavailable` to have
the message tried again.
"""


class InboundConsumer:
    """Acknowledges a message once its result or its dead letter is stored."""

    def __init__(
        self, broker: Broker, queue: str, answer: Answer, add_dead_letter: AddDeadLetter
    ) -> None:
        self.broker = broker
        self.queue = queue
        self.answer = answer
        self.add_dead_letter = add_dead_letter
        self.consumer = ReconnectingConsumer(broker, queue, PREFETCH)
        self.pending: Sequence[Delivery] = ()

    async def step(self) -> float:
        """Receive and handle messages."""
        # While the store is unavailable, the same messages are retried and no more are received.
        if not self.pending:
            self.pending = await self.consumer.receive(PREFETCH, WAIT)
        batch = first_batch(self.pending)
        replies = await asyncio.gather(*(self.handle(delivery) for delivery in batch))
        await self.send_replies(reply for reply in replies if reply is not None)
        await self.consumer.acknowledge(batch)
        self.pending = self.pending[len(batch) :]
        return 0.0

    async def send_replies(self, replies: Iterable[Reply]) -> None:
        by_queue: dict[ReplyQueue, list[Envelope]] = defaultdict(list)
        for queue, envelope in replies:
            by_queue[queue].append(envelope)
        await asyncio.gather(*(self.send_to(name, ones) for (name, _), ones in by_queue.items()))

    async def send_to(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Publish replies. Their results are stored, so a failed reply does not hold up others.

        Raises `Unavailable` if the broker is unavailable; all messages are then delivered again.
        """
        try:
            await self.broker.publish(queue, envelopes)
        except (Unavailable, TooLarge):
            await self.broker.ping()

    async def handle(self, delivery: Delivery) -> Reply | None:
        """Handle the message. Returns the reply and its queue, if the sender wants one."""
        try:
            body = await self.answer(delivery)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  one bad message must not hold up the others
            message = (
                str(error) if isinstance(error, OnbeatError) else f"{type(error).__name__}: {error}"
            )
            await self.add_dead_letter(self.queue, delivery, message)
            return None
        if body is None:
            return None
        queue = queue_for_reply(delivery)
        _, direct = queue
        return queue, Envelope(
            body=body,
            id=f"{delivery.id}.reply",
            direct=direct,
            correlation_id=delivery.correlation_id,
        )

    async def close(self) -> None:
        """Return unacknowledged messages to the queue."""
        self.pending = ()
        await self.consumer.close()


def queue_for_reply(delivery: Delivery) -> ReplyQueue:
    """That of the header, else where the sender waits in the broker's own way, else `REPLIES`."""
    named = delivery.headers.get("reply-to", "")[:NAME_CHARS_MAX]
    if not named and delivery.reply_to:
        return delivery.reply_to, True
    return named or REPLIES, False


def first_batch(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """As many messages as may be handled at once."""
    batches = split_by_weight(
        deliveries, lambda delivery: len(delivery.body), PREFETCH, AT_ONCE_BYTES
    )
    return next(batches, ())
