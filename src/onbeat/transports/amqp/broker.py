"""RabbitMQ as a broker."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from aiormq.exceptions import ChannelNotFoundEntity

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Consumer, Envelope
from onbeat.transports.amqp.channel import Channel
from onbeat.transports.amqp.config import parse_url
from onbeat.transports.amqp.connection import Connection
from onbeat.transports.amqp.consumer import RabbitMqConsumer
from onbeat.transports.amqp.declarations import Declarations
from onbeat.transports.amqp.publisher import Publisher
from onbeat.transports.amqp.queue_names import name_of
from onbeat.transports.reconnect import Fraction


class RabbitMqBroker:
    """`amqp://USER:PASSWORD@HOST/VHOST` or `amqps://…`, with these options:

    `prefix` of the names of all queues; `quorum=true` for quorum queues, which are replicated;
    `timeout` (10 s) to reach the broker and for each publish; `heartbeat` (10 s); `name` of the
    connections; with `amqps` also `cafile`, `certfile`, `keyfile` and `verify=false`.

    Queues are durable, messages too unless they are fleeting, and every publish is confirmed.
    Messages that the broker drops go over the exchange `onbeat.dlx` into the queue `onbeat.dead`.
    Raises `Misconfigured`.
    """

    def __init__(self, url: str, fraction: Fraction = random.random) -> None:
        self._config = parse_url(url)
        self._fraction = fraction
        # A broker that is short of memory stops reading from publishing connections;
        # acknowledgements, which free memory, and pings must not wait behind that.
        self._out = Connection(self._config, fraction)
        self._in = Connection(self._config, fraction)
        self.declarations = Declarations(self._config)
        self._publisher = Publisher(self._config, self._out, self.declarations, fraction)

    @property
    def url(self) -> str:
        return self._config.url

    async def open(self) -> None:
        self._out.open()
        self._in.open()

    async def close(self) -> None:
        await self._publisher.close()
        await self._in.close()
        await self._out.close()

    async def ping(self) -> None:
        await self._in.run(do_nothing)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        await self._publisher.publish(queue, envelopes)

    @asynccontextmanager
    async def consumer(self, queue: str, prefetch: int) -> AsyncGenerator[Consumer, None]:
        inbox = RabbitMqConsumer(
            self._config, self._in, self.declarations, queue, prefetch, self._fraction
        )
        try:
            yield inbox
        finally:
            await inbox.close()

    async def depth(self, queue: str) -> int | None:
        name = name_of(queue, self._config)
        try:
            answer = await self._in.run(lambda channel: channel.queue_declare(name, passive=True))
        except Unavailable as error:
            if isinstance(error.__cause__, ChannelNotFoundEntity):
                return 0
            raise
        return answer.message_count

    async def purge(self, queue: str) -> None:
        name = name_of(queue, self._config)
        try:
            await self._in.run(lambda channel: channel.queue_purge(name))
        except Unavailable as error:
            if not isinstance(error.__cause__, ChannelNotFoundEntity):
                raise


async def do_nothing(channel: Channel) -> None:
    """Does nothing: opening the channel was the ping."""
