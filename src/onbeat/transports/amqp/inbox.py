"""One consumer of one queue."""

import asyncio
from collections.abc import Sequence
from typing import Final

from pamqp.commands import Basic

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.amqp.calling import answered
from onbeat.transports.amqp.channel import Channel
from onbeat.transports.amqp.consumer import Consumer
from onbeat.transports.amqp.declaring import Declarations
from onbeat.transports.amqp.link import Link, ended
from onbeat.transports.amqp.naming import name_of
from onbeat.transports.amqp.place import Place
from onbeat.transports.attempts import Attempts, Fraction

PREFETCH_MAX: Final = 65_535  # of AMQP


class AmqpInbox:
    """The broker pushes up to `prefetch` messages here; they wait until somebody receives them."""

    def __init__(
        self,
        place: Place,
        link: Link,
        declarations: Declarations,
        queue: str,
        prefetch: int,
        fraction: Fraction,
    ) -> None:
        self._place = place
        self._link = link
        self._declarations = declarations
        self._name = name_of(queue, place)
        self._prefetch = min(PREFETCH_MAX, max(1, prefetch))
        self._consumer: Consumer | None = None
        self._attempts = Attempts(self._consume, fraction)
        self._settling = asyncio.Lock()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        until = asyncio.get_running_loop().time() + wait
        while True:
            consumer = self._consumer
            if consumer is None or consumer.is_lost:
                self._part(consumer)
                if not await self._attempts.made(until):
                    return ()
            elif taken := consumer.take(limit):
                return taken
            elif not await consumer.news(until):
                return ()

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        consumer = self._consumer
        if consumer is None or consumer.is_lost:
            return
        # A frame that settles all up to a tag must not come before one for a tag below it.
        async with self._settling:
            if frames := consumer.settled(deliveries):
                await self._write(consumer.channel, frames)

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing: the broker waits for as long as the connection lives. (It ends a channel after
        half an hour without an acknowledgement, unless its `consumer_timeout` says otherwise.)
        """

    async def leave(self) -> None:
        """The broker takes back at once what a closed channel had not acknowledged."""
        await self._attempts.end()
        consumer, self._consumer = self._consumer, None
        if consumer is not None and not await ended(consumer.channel, self._place.url):
            await self._link.lose()

    def _part(self, consumer: Consumer | None) -> None:
        if consumer is not None:
            if consumer.was_cancelled:
                self._declarations.forget()
            self._consumer = None
            self._attempts.lost()

    async def _consume(self) -> None:
        place, consumer = self._place, Consumer()
        await self._declarations.declare(self._name, self._link)
        channel = await self._link.channel(consumer.arrived)
        consumer.start(channel)
        try:
            await answered(
                channel.basic_qos(prefetch_count=self._prefetch), place.timeout, place.url
            )
            await answered(channel.consume(self._name), place.timeout, place.url)
        except BaseException as error:
            # A channel without an answer is not closed by asking either.
            if error.__cause__ is None or not await ended(channel, place.url):
                await self._link.lose()
            raise
        self._consumer = consumer

    async def _write(self, channel: Channel, acks: Sequence[Basic.Ack]) -> None:
        try:
            await answered(channel.settle(acks), self._place.timeout, self._place.url)
        except (Unavailable, asyncio.CancelledError) as error:
            # The broker would wait for these for ever on a channel that goes on without them.
            await ended(channel, self._place.url)
            if isinstance(error, asyncio.CancelledError):
                raise
