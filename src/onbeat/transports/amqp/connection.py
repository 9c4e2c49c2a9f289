"""One connection to the broker: opened on demand, and reopened after a loss."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import aiormq
from aiormq.abc import AbstractConnection

from onbeat.model.errors import Unavailable
from onbeat.transports.amqp.channel import Arrival, Channel, open_channel
from onbeat.transports.amqp.config import RabbitMqConfig
from onbeat.transports.amqp.driver_calls import call_driver, error_text, raise_unavailable
from onbeat.transports.reconnect import Fraction, Reconnector

log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0

T = TypeVar("T")

# The driver logs each failed attempt and each lost connection as an error with a traceback. This
# module logs each change of state once.
LOGGED_HERE: Final = frozenset(
    {
        "error when creating transport: %r",
        "Cancelling cause reader exited abnormally",
        (
            'Unexpected connection close from remote "%s", '
            "Connection.Close(reply_code=%r, reply_text=%r)"
        ),
    }
)
logging.getLogger("aiormq.connection").addFilter(lambda record: record.msg not in LOGGED_HERE)


class Connection:
    """May be closed, and used again after `open`."""

    def __init__(self, config: RabbitMqConfig, fraction: Fraction) -> None:
        self._config = config
        self._connection: AbstractConnection | None = None
        self._attempts = Reconnector(self._connect, fraction)
        self.closed = False
        self._away = False

    def open(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True
        await self._attempts.cancel()
        await self.drop()

    async def drop(self) -> None:
        """Drops the connection with everything pending; the next channel opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_quietly(connection, self._config.url)

    async def channel(self, arrived: Arrival | None = None, *, confirms: bool = False) -> Channel:
        """A new channel. Raises `Unavailable` when the broker cannot be reached in time."""
        connection = await self._ensure_connected()
        opening = open_channel(connection, arrived, confirms=confirms)
        return await call_driver(opening, self._config.timeout, self._config.url)

    async def run(self, act: Callable[[Channel], Coroutine[Any, Any, T]]) -> T:
        """The result of `act` on a channel of its own: the broker closes a channel on any error."""
        channel = await self.channel()
        try:
            return await call_driver(act(channel), self._config.timeout, self._config.url)
        finally:
            await close_quietly(channel, self._config.url)

    async def _ensure_connected(self) -> AbstractConnection:
        until = asyncio.get_running_loop().time() + self._config.timeout
        while (connection := self._connection) is None or connection.is_closed:
            if self.closed:
                raise_unavailable(self._config.url, "it is closed here")
            if connection is not None:
                self._connection = None
                self._attempts.note_loss()
            if not await self._attempts.succeeds_by(until):
                raise_unavailable(self._config.url, f"not within {self._config.timeout:g} s")
        return connection

    async def _connect(self) -> None:
        config = self._config
        context = config.tls.context() if config.tls is not None else None
        connection = aiormq.Connection(config.dsn, context=context)
        try:
            connecting = connection.connect()  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  its decorator hides the type
            await call_driver(connecting, config.timeout, config.url)  # pyright: ignore[reportUnknownArgumentType]  as above
        except BaseException as error:
            await close_quietly(connection, config.url)
            if not self._away:
                self._away = True
                log.warning("broker.away", extra={"url": config.url, "error": error_text(error)})
            raise
        self._connection = connection
        if self._away:
            self._away = False
            log.info("broker.back", extra={"url": config.url})


async def close_quietly(connection: AbstractConnection | Channel, url: str) -> bool:
    """Whether it was closed in an orderly way; it is dropped in any case."""
    try:
        await call_driver(connection.close(), CLOSE_SECONDS, url)
    except Unavailable:
        return False
    return True
