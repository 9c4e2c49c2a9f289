"""Queues, made when they are first used."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelPreconditionFailed,
)

from onbeat.model.errors import Unavailable
from onbeat.transports.amqp.channel import Channel
from onbeat.transports.amqp.link import Link
from onbeat.transports.amqp.naming import dead_exchange, dead_queue
from onbeat.transports.amqp.place import Place

log = logging.getLogger(__name__)

KNOWN_MAX: Final = 10_000  # names of queues to answer to come from outside
DEAD_MAX: Final = 100_000  # messages that nobody looks at must not fill the broker's disk
OTHERWISE: Final = (ChannelPreconditionFailed, ChannelAccessRefused, ChannelLockedResource)


class Declarations:
    """What has been declared; shared by all that use the queues of a broker."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.known: set[str] = set()
        self._warned: set[str] = set()

    async def declare(self, queue: str, link: Link) -> None:
        """Makes the queue, durable, and where messages go that the broker itself drops.

        It is asked over `link`. What is there already is used as it is. Raises `Unavailable`.
        """
        if queue in self.known:
            return
        dead = dead_queue(self._place)
        if dead not in self.known:
            await self._declare_dead(dead, link)
        if queue != dead:
            exchange = dead_exchange(self._place)
            await self._declare_queue(queue, {"x-dead-letter-exchange": exchange}, link)
        if len(self.known) >= KNOWN_MAX:
            self.known.clear()
        self.known |= {queue, dead}

    def forget(self) -> None:
        """The broker turned out not to have one of them."""
        self.known.clear()

    async def _declare_dead(self, dead: str, link: Link) -> None:
        exchange = dead_exchange(self._place)
        await self._declare_queue(dead, {"x-max-length": DEAD_MAX}, link)
        await self._do(
            exchange,
            lambda channel: channel.exchange_declare(
                exchange, exchange_type="fanout", durable=True
            ),
            link,
        )
        await self._do(dead, lambda channel: channel.queue_bind(dead, exchange), link)

    async def _declare_queue(self, queue: str, arguments: dict[str, Any], link: Link) -> None:
        if self._place.quorum:
            arguments = {**arguments, "x-queue-type": "quorum"}
        await self._do(
            queue,
            lambda channel: channel.queue_declare(queue, durable=True, arguments=arguments),
            link,
        )

    async def _do(
        self, name: str, act: Callable[[Channel], Coroutine[Any, Any, object]], link: Link
    ) -> None:
        try:
            await link.ask(act)
        except Unavailable as error:
            if not isinstance(error.__cause__, OTHERWISE):
                raise
            if name not in self._warned:
                self._warned.add(name)
                log.warning("broker.used_as_it_is", extra={"queue": name, "error": str(error)})
