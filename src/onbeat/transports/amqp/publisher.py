"""Publishing, with a confirmation of each message."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiormq.exceptions import DeliveryError, PublishError

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.ports.transport import Envelope
from onbeat.transports.amqp.calling import FAULTS, answered, raise_unavailable, said
from onbeat.transports.amqp.channel import Channel, Confirmation
from onbeat.transports.amqp.declaring import Declarations
from onbeat.transports.amqp.link import Link
from onbeat.transports.amqp.naming import name_of
from onbeat.transports.amqp.place import Place
from onbeat.transports.attempts import Attempts, Fraction
from onbeat.transports.lots import check

ID_BYTES_MAX: Final = 255  # of any short text of AMQP
HEADER_NAME_BYTES_MAX: Final = 128  # of AMQP 0-9-1


class Publisher:
    """All messages of a process go over one channel of one connection."""

    def __init__(
        self, place: Place, link: Link, declarations: Declarations, fraction: Fraction
    ) -> None:
        self._place = place
        self._link = link
        self._declarations = declarations
        self._channel: Channel | None = None
        self._attempts = Attempts(self._open, fraction)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            check(envelope)
            check_names(envelope)
        if not envelopes:
            return
        name, until = name_of(queue, self._place), self._now() + self._place.timeout
        if not await self._published(name, envelopes, until):
            # The queue was there once and is gone.
            self._declarations.forget()
            if not await self._published(name, envelopes, until):
                raise_unavailable(self._place.url, f"there is no queue {name!r}")

    async def close(self) -> None:
        await self._attempts.end()
        self._channel = None

    async def _published(self, name: str, envelopes: Sequence[Envelope], until: float) -> bool:
        """False when the broker had no such queue for at least one of them."""
        channel = await self._ready(until)
        if name not in self._declarations.known:
            declaring = self._declarations.declare(name, self._link)
            await answered(declaring, until - self._now(), self._place.url)
        confirmations: list[Confirmation] = []
        try:
            async with asyncio.timeout_at(until):
                await channel.publish_lots(name, envelopes, confirmations)
                await asyncio.gather(*confirmations)
        except PublishError:
            return False
        except DeliveryError as error:
            raise_unavailable(self._place.url, f"it refused a message: {said(error)}", error)
        except BaseException as error:
            if isinstance(error, FAULTS) or len(confirmations) < len(envelopes):
                # What was cut off in the middle, or waits at a broker that takes nothing more,
                # must not pile up before what comes next.
                self._channel = None
                await self._link.lose()
            if isinstance(error, FAULTS):
                raise_unavailable(self._place.url, f"nothing was confirmed: {said(error)}", error)
            raise
        finally:
            channel.forget(envelopes, confirmations)
        return True

    async def _ready(self, until: float) -> Channel:
        """Tries for as long as there is time."""
        while (channel := self._channel) is None or channel.is_closed:
            if channel is not None:
                self._channel = None
                self._attempts.lost()
            try:
                if not await self._attempts.made(until):
                    raise_unavailable(self._place.url, f"not within {self._place.timeout:g} s")
            except Unavailable:
                if self._link.closed or self._now() >= until:
                    raise
        return channel

    async def _open(self) -> None:
        self._channel = await self._link.channel(confirms=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def check_names(envelope: Envelope) -> None:
    """Raises `TooLarge` for an id or a header's name that AMQP has no room for."""
    if len(envelope.id.encode()) > ID_BYTES_MAX:
        raise TooLarge(f"the id of a message has at most {ID_BYTES_MAX} bytes", "id")
    if any(len(name.encode()) > HEADER_NAME_BYTES_MAX for name in envelope.headers):
        raise TooLarge(f"the name of a header has at most {HEADER_NAME_BYTES_MAX} bytes", "headers")
