"""Redis as a broker."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from onbeat.ports.transport import Consumer, Envelope
from onbeat.transports.batches import batches, check_size
from onbeat.transports.reconnect import Fraction
from onbeat.transports.redis.config import parse_url
from onbeat.transports.redis.connection import Connection, checked_reply
from onbeat.transports.redis.consumer import LEFT, RedisConsumer
from onbeat.transports.redis.group import waiting
from onbeat.transports.redis.messages import addition


class RedisBroker:
    """`redis://USER:PASSWORD@HOST:PORT/DATABASE`, `rediss://…` or `redis+unix:///PATH?db=DATABASE`,
    with these options:

    `prefix` of all keys; `timeout` (10 s) to reach the broker and for each publish; `visibility`
    (60 s) after which a message that is not extended goes to another consumer; `name` of the
    connections; with `rediss` also `cafile`, `certfile`, `keyfile` and `verify=false`.

    A queue is a stream under its own name with the group `onbeat`, and an entry has the fields
    `body`, `id` and `headers` (JSON). The durability of messages depends on the server's settings.
    Needs Redis 6.2 or later; clusters are not supported. Raises `Misconfigured`.
    """

    def __init__(self, url: str, fraction: Fraction = random.random) -> None:
        self._config = parse_url(url)
        self._fraction = fraction
        self._connection = Connection(self._config, fraction)

    @property
    def url(self) -> str:
        return self._config.url

    async def open(self) -> None:
        self._connection.open()

    async def close(self) -> None:
        await self._connection.close()

    async def ping(self) -> None:
        (answer,) = await self._connection.run(("PING",))
        checked_reply(answer, self.url)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            check_size(envelope)
        if not envelopes:
            return
        await self._connection.ready(asyncio.get_running_loop().time() + self._config.timeout)
        key = self._key(queue)
        for batch in batches(envelopes):
            for answer in await self._connection.run(
                *(addition(key, envelope) for envelope in batch)
            ):
                checked_reply(answer, self.url)

    @asynccontextmanager
    async def consumer(self, queue: str, prefetch: int) -> AsyncGenerator[Consumer, None]:
        inbox = RedisConsumer(
            self._config, self._connection, self._key(queue), prefetch, self._fraction
        )
        try:
            yield inbox
        finally:
            await inbox.close()

    async def depth(self, queue: str) -> int | None:
        return await waiting(self._connection, self._key(queue), self.url, given_back=LEFT)

    async def purge(self, queue: str) -> None:
        """Also deletes messages that a consumer holds without acknowledgement."""
        (answer,) = await self._connection.run(("XTRIM", self._key(queue), "MAXLEN", 0))
        checked_reply(answer, self.url)

    def _key(self, queue: str) -> str:
        return self._config.prefix + queue
