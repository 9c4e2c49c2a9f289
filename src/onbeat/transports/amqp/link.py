"""One connection to the broker: made when it is needed, and made again when it was lost."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import aiormq
from aiormq.abc import AbstractConnection

from onbeat.model.errors import Unavailable
from onbeat.transports.amqp.calling import answered, raise_unavailable, said
from onbeat.transports.amqp.channel import Arrival, Channel, open_channel
from onbeat.transports.amqp.place import Place
from onbeat.transports.attempts import Attempts, Fraction

log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0

T = TypeVar("T")

# The driver tells each failed attempt and each lost connection as an error, with a traceback. The
# link tells the change, once.
TOLD_HERE: Final = frozenset(
    {
        "error when creating transport: %r",
        "Cancelling cause reader exited abnormally",
        (
            'Unexpected connection close from remote "%s", '
            "Connection.Close(reply_code=%r, reply_text=%r)"
        ),
    }
)
logging.getLogger("aiormq.connection").addFilter(lambda record: record.msg not in TOLD_HERE)


class Link:
    """May be closed, and after `open` used again."""

    def __init__(self, place: Place, fraction: Fraction) -> None:
        self._place = place
        self._connection: AbstractConnection | None = None
        self._attempts = Attempts(self._connect, fraction)
        self.closed = False
        self._away = False

    def open(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True
        await self._attempts.end()
        await self.lose()

    async def lose(self) -> None:
        """Drops the connection with all that waits on it; the next channel is on another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await ended(connection, self._place.url)

    async def channel(self, arrived: Arrival | None = None, *, confirms: bool = False) -> Channel:
        """A new channel. Raises `Unavailable` when the broker cannot be reached in time."""
        connection = await self._reached()
        opening = open_channel(connection, arrived, confirms=confirms)
        return await answered(opening, self._place.timeout, self._place.url)

    async def ask(self, act: Callable[[Channel], Coroutine[Any, Any, T]]) -> T:
        """What `act` comes to on a channel of its own, as the broker closes one on any error."""
        channel = await self.channel()
        try:
            return await answered(act(channel), self._place.timeout, self._place.url)
        finally:
            await ended(channel, self._place.url)

    async def _reached(self) -> AbstractConnection:
        until = asyncio.get_running_loop().time() + self._place.timeout
        while (connection := self._connection) is None or connection.is_closed:
            if self.closed:
                raise_unavailable(self._place.url, "it is closed here")
            if connection is not None:
                self._connection = None
                self._attempts.lost()
            if not await self._attempts.made(until):
                raise_unavailable(self._place.url, f"not within {self._place.timeout:g} s")
        return connection

    async def _connect(self) -> None:
        place = self._place
        context = place.tls.context() if place.tls is not None else None
        connection = aiormq.Connection(place.dsn, context=context)
        try:
            connecting = connection.connect()  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  its decorator hides the type
            await answered(connecting, place.timeout, place.url)  # pyright: ignore[reportUnknownArgumentType]  as above
        except BaseException as error:
            await ended(connection, place.url)
            if not self._away:
                self._away = True
                log.warning("broker.away", extra={"url": place.url, "error": said(error)})
            raise
        self._connection = connection
        if self._away:
            self._away = False
            log.info("broker.back", extra={"url": place.url})


async def ended(one: AbstractConnection | Channel, url: str) -> bool:
    """Whether it could be closed in an orderly way; it is given up either way."""
    try:
        await answered(one.close(), CLOSE_SECONDS, url)
    except Unavailable:
        return False
    return True
