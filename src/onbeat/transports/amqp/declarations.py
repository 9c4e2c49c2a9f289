"""Declares queues on first use."""

import asyncio
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
from onbeat.transports.amqp.config import RabbitMqConfig
from onbeat.transports.amqp.connection import Connection
from onbeat.transports.amqp.queue_names import dead_exchange, dead_queue

log = logging.getLogger(__name__)

KNOWN_MAX: Final = 10_000  # reply queue names come from outside
DEAD_MAX: Final = 100_000  # unread messages must not fill the broker's disk
OTHERWISE: Final = (ChannelPreconditionFailed, ChannelAccessRefused, ChannelLockedResource)


class Declarations:
    """The declared queues of a broker, shared by its publishers and consumers."""

    def __init__(self, config: RabbitMqConfig) -> None:
        self._config = config
        self.known: set[str] = set()
        self._warned: set[str] = set()
        # A refused declaration closes its channel. Many at once would use up the channel numbers
        # that the broker has not freed yet, which closes the whole connection.
        self._declaring = asyncio.Lock()

    async def declare(self, queue: str, connection: Connection, *, has_dead_letters: bool) -> None:
        """Declares the durable queue, where asked with one for messages that the broker drops.

        Others declare their queues without arguments, and the broker would refuse theirs after
        ours. Uses `connection`, one queue at a time. Existing queues are used as they are. Raises
        `Unavailable`.
        """
        if queue in self.known:
            return
        async with self._declaring:
            if queue not in self.known:
                await self._declare(queue, connection, has_dead_letters=has_dead_letters)

    async def _declare(self, queue: str, connection: Connection, *, has_dead_letters: bool) -> None:
        arguments = await self._dead_letters(connection) if has_dead_letters else {}
        if queue not in self.known:  # it may be the one for dead letters
            await self._declare_queue(queue, arguments, connection)
        self._remember(queue)

    async def _dead_letters(self, connection: Connection) -> dict[str, Any]:
        """The arguments of the queue, for an exchange and a queue that are declared now."""
        dead = dead_queue(self._config)
        if dead not in self.known:
            await self._declare_dead(dead, connection)
            self._remember(dead)
        return {"x-dead-letter-exchange": dead_exchange(self._config)}

    def _remember(self, queue: str) -> None:
        if len(self.known) >= KNOWN_MAX:
            self.known.clear()
        self.known.add(queue)

    def forget(self) -> None:
        """Called when the broker turned out to lack one of the queues."""
        self.known.clear()

    async def _declare_dead(self, dead: str, connection: Connection) -> None:
        exchange = dead_exchange(self._config)
        await self._declare_queue(dead, {"x-max-length": DEAD_MAX}, connection)
        await self._do(
            exchange,
            lambda channel: channel.exchange_declare(
                exchange, exchange_type="fanout", durable=True
            ),
            connection,
        )
        await self._do(dead, lambda channel: channel.queue_bind(dead, exchange), connection)

    async def _declare_queue(
        self, queue: str, arguments: dict[str, Any], connection: Connection
    ) -> None:
        if self._config.quorum:
            arguments = {**arguments, "x-queue-type": "quorum"}
        await self._do(
            queue,
            lambda channel: channel.queue_declare(queue, durable=True, arguments=arguments),
            connection,
        )

    async def _do(
        self,
        name: str,
        act: Callable[[Channel], Coroutine[Any, Any, object]],
        connection: Connection,
    ) -> None:
        try:
            await connection.run(act)
        except Unavailable as error:
            if not isinstance(error.__cause__, OTHERWISE):
                raise
            if name not in self._warned:
                self._warned.add(name)
                log.warning(
                    "queue.declared_differently", extra={"queue": name, "error": str(error)}
                )
