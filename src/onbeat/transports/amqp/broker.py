"""RabbitMQ as a broker."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from aiormq.exceptions import ChannelNotFoundEntity

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Envelope, Inbox
from onbeat.transports.amqp.channel import Channel
from onbeat.transports.amqp.declaring import Declarations
from onbeat.transports.amqp.inbox import AmqpInbox
from onbeat.transports.amqp.link import Link
from onbeat.transports.amqp.naming import name_of
from onbeat.transports.amqp.place import read_place
from onbeat.transports.amqp.publisher import Publisher
from onbeat.transports.attempts import Fraction


class AmqpBroker:
    """`amqp://USER:PASSWORD@HOST/VHOST` or `amqps://…`, with these options:

    `prefix` before the names of all queues; `quorum=true` for queues that several nodes keep;
    `timeout` (10 s) to reach the broker and for each publish; `heartbeat` (10 s); `name` of the
    connections; with `amqps` also `cafile`, `certfile`, `keyfile` and `verify=false`.

    Queues are durable, messages too unless they are fleeting, and every publish is confirmed. What
    the broker itself drops goes over the exchange `onbeat.dlx` into the queue `onbeat.dead`. Raises
    `Misconfigured`.
    """

    def __init__(self, url: str, fraction: Fraction = random.random) -> None:
        self._place = read_place(url)
        self._fraction = fraction
        # A broker that is short of memory stops reading from who publishes; acknowledgements, which
        # help it, and questions must not wait behind that.
        self._out = Link(self._place, fraction)
        self._in = Link(self._place, fraction)
        self.declarations = Declarations(self._place)
        self._publisher = Publisher(self._place, self._out, self.declarations, fraction)

    @property
    def url(self) -> str:
        return self._place.url

    async def open(self) -> None:
        self._out.open()
        self._in.open()

    async def close(self) -> None:
        await self._publisher.close()
        await self._in.close()
        await self._out.close()

    async def ping(self) -> None:
        await self._in.ask(nothing)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        await self._publisher.publish(queue, envelopes)

    @asynccontextmanager
    async def inbox(self, queue: str, prefetch: int) -> AsyncGenerator[Inbox, None]:
        inbox = AmqpInbox(self._place, self._in, self.declarations, queue, prefetch, self._fraction)
        try:
            yield inbox
        finally:
            await inbox.leave()

    async def depth(self, queue: str) -> int | None:
        name = name_of(queue, self._place)
        try:
            answer = await self._in.ask(lambda channel: channel.queue_declare(name, passive=True))
        except Unavailable as error:
            if isinstance(error.__cause__, ChannelNotFoundEntity):
                return 0
            raise
        return answer.message_count

    async def purge(self, queue: str) -> None:
        name = name_of(queue, self._place)
        try:
            await self._in.ask(lambda channel: channel.queue_purge(name))
        except Unavailable as error:
            if not isinstance(error.__cause__, ChannelNotFoundEntity):
                raise


async def nothing(channel: Channel) -> None:
    """Opening the channel was the question."""
