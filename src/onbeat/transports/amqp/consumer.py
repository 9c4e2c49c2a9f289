"""One consumer of one queue."""

import asyncio
from collections.abc import Sequence
from typing import Final

from pamqp.commands import Basic

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.amqp.channel import Channel
from onbeat.transports.amqp.config import RabbitMqConfig
from onbeat.transports.amqp.connection import Connection, close_quietly
from onbeat.transports.amqp.declarations import Declarations
from onbeat.transports.amqp.driver_calls import call_driver
from onbeat.transports.amqp.queue_names import name_of
from onbeat.transports.amqp.subscription import Subscription
from onbeat.transports.reconnect import Fraction, Reconnector

PREFETCH_MAX: Final = 65_535  # of AMQP


class RabbitMqConsumer:
    """The broker pushes up to `prefetch` messages here; they wait until `receive` is called."""

    def __init__(
        self,
        config: RabbitMqConfig,
        connection: Connection,
        declarations: Declarations,
        queue: str,
        prefetch: int,
        fraction: Fraction,
    ) -> None:
        self._config = config
        self._connection = connection
        self._declarations = declarations
        self._name = name_of(queue, config)
        self._prefetch = min(PREFETCH_MAX, max(1, prefetch))
        self._subscription: Subscription | None = None
        self._attempts = Reconnector(self._consume, fraction)
        self._settling = asyncio.Lock()

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        until = asyncio.get_running_loop().time() + wait
        while True:
            consumer = self._subscription
            if consumer is None or consumer.is_lost:
                self._end_subscription(consumer)
                if not await self._attempts.succeeds_by(until):
                    return ()
            elif taken := consumer.take(limit):
                return taken
            elif not await consumer.news(until):
                return ()

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        consumer = self._subscription
        if consumer is None or consumer.is_lost:
            return
        # An acknowledgement of all up to a tag must not be sent before one of a lower tag.
        async with self._settling:
            if frames := consumer.settle_frames(deliveries):
                await self._write(consumer.channel, frames)

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Does nothing: the broker waits as long as the connection lives.

        It ends a channel after half an hour without an acknowledgement, unless its
        `consumer_timeout` is changed.
        """

    async def close(self) -> None:
        """The broker requeues unacknowledged messages of a closed channel at once."""
        await self._attempts.cancel()
        consumer, self._subscription = self._subscription, None
        if consumer is not None and not await close_quietly(consumer.channel, self._config.url):
            await self._connection.drop()

    def _end_subscription(self, consumer: Subscription | None) -> None:
        if consumer is not None:
            if consumer.was_cancelled:
                self._declarations.forget()
            self._subscription = None
            self._attempts.note_loss()

    async def _consume(self) -> None:
        config, consumer = self._config, Subscription()
        await self._declarations.declare(self._name, self._connection, has_dead_letters=True)
        channel = await self._connection.channel(consumer.on_message)
        consumer.start(channel)
        try:
            await call_driver(
                channel.basic_qos(prefetch_count=self._prefetch), config.timeout, config.url
            )
            await call_driver(channel.consume(self._name), config.timeout, config.url)
        except BaseException as error:
            # A channel that did not answer will not answer a close either.
            if error.__cause__ is None or not await close_quietly(channel, config.url):
                await self._connection.drop()
            raise
        self._subscription = consumer

    async def _write(self, channel: Channel, acks: Sequence[Basic.Ack]) -> None:
        try:
            await call_driver(channel.settle(acks), self._config.timeout, self._config.url)
        except (Unavailable, asyncio.CancelledError) as error:
            # On an open channel the broker would wait for these acknowledgements forever.
            await close_quietly(channel, self._config.url)
            if isinstance(error, asyncio.CancelledError):
                raise
