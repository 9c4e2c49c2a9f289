"""Takes in what comes over a broker: work that is submitted, and results of remote workers."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from onbeat.engine.lasting import LastingInbox
from onbeat.engine.receiver import Bury
from onbeat.model.errors import OnbeatError, TooLarge, Unavailable
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.ports.transport import Broker, Delivery, Envelope
from onbeat.rules.lots import parted
from onbeat.wire.work import REPLIES

PREFETCH: Final = 50  # enough to share commits; any of them may be as large as the broker allows
AT_ONCE_BYTES: Final = 4 << 20  # acted on together: each may be copied more than once on its way
WAIT: Final = 1.0

Reply = tuple[str, Envelope]
"""An answer, and the queue that it goes to."""

Answer = Callable[[Delivery], Awaitable[bytes | None]]
"""Acts on a message; the answer to its sender, if it wants one. Raises `Unavailable` to be asked
again."""


class Intake:
    """A message is acknowledged when what it asks for is stored, or it was put aside for good."""

    def __init__(self, broker: Broker, queue: str, answer: Answer, bury: Bury) -> None:
        self.broker = broker
        self.queue = queue
        self.answer = answer
        self.bury = bury
        self.inbox = LastingInbox(broker, queue, PREFETCH)
        self.pending: Sequence[Delivery] = ()

    async def step(self) -> float:
        """Take in what is there."""
        # While the store is away the same messages are tried again, and no more are taken.
        if not self.pending:
            self.pending = await self.inbox.receive(PREFETCH, WAIT)
        lot = first_lot(self.pending)
        replies = await asyncio.gather(*(self.judged(delivery) for delivery in lot))
        await self.send(reply for reply in replies if reply is not None)
        await self.inbox.acknowledge(lot)
        self.pending = self.pending[len(lot) :]
        return 0.0

    async def send(self, replies: Iterable[Reply]) -> None:
        by_queue: dict[str, list[Envelope]] = defaultdict(list)
        for queue, envelope in replies:
            by_queue[queue].append(envelope)
        await asyncio.gather(*(self.send_to(queue, ones) for queue, ones in by_queue.items()))

    async def send_to(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """What it answers is stored: an answer that cannot be brought must not hold up others.

        Raises `Unavailable` where the broker itself is away, and all will be delivered again.
        """
        try:
            await self.broker.publish(queue, envelopes)
        except (Unavailable, TooLarge):
            await self.broker.ping()

    async def judged(self, delivery: Delivery) -> Reply | None:
        """Act on the message; where it is to be answered, where to and with what."""
        try:
            body = await self.answer(delivery)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  one bad message must not hold up the others
            said = (
                str(error) if isinstance(error, OnbeatError) else f"{type(error).__name__}: {error}"
            )
            await self.bury(self.queue, delivery, said)
            return None
        if body is None:
            return None
        reply_to = delivery.headers.get("reply-to", REPLIES)[:NAME_CHARS_MAX] or REPLIES
        return reply_to, Envelope(body=body, id=f"{delivery.id}.reply")

    async def leave(self) -> None:
        """Give back what was taken and not acknowledged."""
        self.pending = ()
        await self.inbox.leave()


def first_lot(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """As many as may be acted on at once."""
    lots = parted(deliveries, lambda delivery: len(delivery.body), PREFETCH, AT_ONCE_BYTES)
    return next(lots, ())
