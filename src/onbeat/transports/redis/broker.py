"""Redis as a broker."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from onbeat.ports.transport import Envelope, Inbox
from onbeat.transports.attempts import Fraction
from onbeat.transports.lots import check, lots
from onbeat.transports.redis.entries import addition
from onbeat.transports.redis.group import waiting
from onbeat.transports.redis.inbox import LEFT, RedisInbox
from onbeat.transports.redis.place import read_place
from onbeat.transports.redis.wire import Wire, good


class RedisBroker:
    """`redis://USER:PASSWORD@HOST:PORT/DATABASE`, `rediss://…` or `redis+unix:///PATH?db=DATABASE`,
    with these options:

    `prefix` before all keys; `timeout` (10 s) to reach the broker and for each publish;
    `visibility` (60 s) after which a message that nobody extends goes to another inbox; `name` of
    the connections; with `rediss` also `cafile`, `certfile`, `keyfile` and `verify=false`.

    A queue is a stream under its own name with the group `onbeat`, and an entry has the fields
    `body`, `id` and `headers` (JSON). The server's own settings say how durable messages are.
    Needs Redis 6.2 or later; clusters are not supported. Raises `Misconfigured`.
    """

    def __init__(self, url: str, fraction: Fraction = random.random) -> None:
        self._place = read_place(url)
        self._fraction = fraction
        self._wire = Wire(self._place, fraction)

    @property
    def url(self) -> str:
        return self._place.url

    async def open(self) -> None:
        self._wire.open()

    async def close(self) -> None:
        await self._wire.close()

    async def ping(self) -> None:
        (answer,) = await self._wire.ask(("PING",))
        good(answer, self.url)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            check(envelope)
        if not envelopes:
            return
        await self._wire.ready(asyncio.get_running_loop().time() + self._place.timeout)
        key = self._key(queue)
        for lot in lots(envelopes):
            for answer in await self._wire.ask(*(addition(key, envelope) for envelope in lot)):
                good(answer, self.url)

    @asynccontextmanager
    async def inbox(self, queue: str, prefetch: int) -> AsyncGenerator[Inbox, None]:
        inbox = RedisInbox(self._place, self._wire, self._key(queue), prefetch, self._fraction)
        try:
            yield inbox
        finally:
            await inbox.leave()

    async def depth(self, queue: str) -> int | None:
        return await waiting(self._wire, self._key(queue), self.url, given_back=LEFT)

    async def purge(self, queue: str) -> None:
        """What somebody holds and has not acknowledged goes, too."""
        (answer,) = await self._wire.ask(("XTRIM", self._key(queue), "MAXLEN", 0))
        good(answer, self.url)

    def _key(self, queue: str) -> str:
        return self._place.prefix + queue
