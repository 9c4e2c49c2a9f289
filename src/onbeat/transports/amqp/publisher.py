"""Publishing, with a confirmation of each message."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiormq.exceptions import DeliveryError, PublishError

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.ports.transport import Envelope
from onbeat.transports.amqp.channel import Channel, Confirmation
from onbeat.transports.amqp.config import RabbitMqConfig
from onbeat.transports.amqp.connection import Connection
from onbeat.transports.amqp.declarations import Declarations
from onbeat.transports.amqp.driver_calls import FAULTS, call_driver, error_text, raise_unavailable
from onbeat.transports.amqp.queue_names import is_own_queue, name_of
from onbeat.transports.batches import check_size
from onbeat.transports.reconnect import Fraction, Reconnector

ID_BYTES_MAX: Final = 255  # of any short string in AMQP
HEADER_NAME_BYTES_MAX: Final = 128  # of AMQP 0-9-1


class Publisher:
    """Publishes all messages of a process over one channel of one connection."""

    def __init__(
        self,
        config: RabbitMqConfig,
        connection: Connection,
        declarations: Declarations,
        fraction: Fraction,
    ) -> None:
        self._config = config
        self._connection = connection
        self._declarations = declarations
        self._channel: Channel | None = None
        self._attempts = Reconnector(self._open, fraction)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            check_size(envelope)
            check_names(envelope)
        if not envelopes:
            return
        until = self._now() + self._config.timeout
        if envelopes[0].direct:
            # Under its own name, and nothing is declared: it may be gone, and then nobody waits.
            await self._send(queue, envelopes, until)
            return
        name, is_own = name_of(queue, self._config), is_own_queue(queue)
        if not await self._try_publish(name, envelopes, until, is_own=is_own):
            # The queue was declared before, but has been deleted.
            self._declarations.forget()
            if not await self._try_publish(name, envelopes, until, is_own=is_own):
                raise_unavailable(self._config.url, f"there is no queue {name!r}")

    async def close(self) -> None:
        await self._attempts.cancel()
        self._channel = None

    async def _try_publish(
        self, name: str, envelopes: Sequence[Envelope], until: float, *, is_own: bool
    ) -> bool:
        """Declares the queue on first use; as `_send`."""
        # Where the broker is away, a connection is made first.
        await self._ready(until)
        if name not in self._declarations.known:
            declaring = self._declarations.declare(name, self._connection, has_dead_letters=is_own)
            await call_driver(declaring, until - self._now(), self._config.url)
        return await self._send(name, envelopes, until)

    async def _send(self, name: str, envelopes: Sequence[Envelope], until: float) -> bool:
        """False when the broker had no such queue for at least one of them."""
        channel = await self._ready(until)
        confirmations: list[Confirmation] = []
        try:
            async with asyncio.timeout_at(until):
                await channel.publish_batches(name, envelopes, confirmations)
                await asyncio.gather(*confirmations)
        except PublishError:
            return False
        except DeliveryError as error:
            raise_unavailable(self._config.url, f"it refused a message: {error_text(error)}", error)
        except BaseException as error:
            if isinstance(error, FAULTS) or len(confirmations) < len(envelopes):
                # Partly written messages, or those that a full broker does not take, must not pile
                # up before the next ones.
                self._channel = None
                await self._connection.drop()
            if isinstance(error, FAULTS):
                raise_unavailable(
                    self._config.url, f"nothing was confirmed: {error_text(error)}", error
                )
            raise
        finally:
            channel.forget(envelopes, confirmations)
        return True

    async def _ready(self, until: float) -> Channel:
        """Retries until the deadline."""
        while (channel := self._channel) is None or channel.is_closed:
            if channel is not None:
                self._channel = None
                self._attempts.note_loss()
            try:
                if not await self._attempts.succeeds_by(until):
                    raise_unavailable(self._config.url, f"not within {self._config.timeout:g} s")
            except Unavailable:
                if self._connection.closed or self._now() >= until:
                    raise
        return channel

    async def _open(self) -> None:
        self._channel = await self._connection.channel(confirms=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def check_names(envelope: Envelope) -> None:
    """Raises `TooLarge` for an id or a header name that is too long for AMQP."""
    if len(envelope.id.encode()) > ID_BYTES_MAX:
        raise TooLarge(f"the id of a message has at most {ID_BYTES_MAX} bytes", "id")
    if any(len(name.encode()) > HEADER_NAME_BYTES_MAX for name in envelope.headers):
        raise TooLarge(f"the name of a header has at most {HEADER_NAME_BYTES_MAX} bytes", "headers")
