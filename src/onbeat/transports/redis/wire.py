"""Commands to the server and their replies, many in one go."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol, cast

from redis.asyncio.connection import (
    BlockingConnectionPool,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.connection import Connection as TcpConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ClusterDownError, RedisError, ResponseError

from onbeat.model.errors import Unavailable
from onbeat.transports.attempts import Attempts, Fraction
from onbeat.transports.redis.place import Place

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 8  # for commands; each inbox that waits has one besides
FAULTS: Final = (RedisError, OSError, TimeoutError)

Word = str | bytes | int
Command = Sequence[Word]
Reply = Any
"""A number, bytes, a list of replies, None, or the `ResponseError` that the server sent."""


class Connection(Protocol):
    """What is used of the driver's."""

    def pack_commands(self, commands: Iterable[Command]) -> list[bytes]: ...
    async def send_packed_command(
        self,
        command: Iterable[bytes],
        check_health: bool = True,  # noqa: FBT001, FBT002  as it is
    ) -> None: ...
    async def read_response(self, disable_decoding: bool = False) -> Reply: ...  # noqa: FBT001, FBT002
    async def disconnect(self, nowait: bool = False) -> None: ...  # noqa: FBT001, FBT002


class Pool(Protocol):
    async def get_connection(self) -> Connection: ...
    async def release(self, connection: Connection) -> None: ...
    async def disconnect(self) -> None: ...


class Wire:
    """Connections are made when they are needed. May be closed, and after `open` used again."""

    def __init__(self, place: Place, fraction: Fraction) -> None:
        self._place = place
        self._commands = pool(place, BlockingConnectionPool, CONNECTIONS_MAX)
        self._blocking = pool(place, ConnectionPool, None)
        self._attempts = Attempts(self._reach, fraction)
        self._failure: Unavailable | None = None
        self._closed = False

    def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        await self._attempts.end()
        for one in (self._commands, self._blocking):
            try:
                await one.disconnect()
            except FAULTS:
                log.debug("broker.closed_badly", exc_info=True)

    async def ready(self, until: float) -> None:
        """Returns once the server is reached, and tries for as long as there is time.

        Raises `Unavailable`.
        """
        while True:
            try:
                return await self._attempted(until)
            except Unavailable:
                if self._closed or asyncio.get_running_loop().time() >= until:
                    raise

    async def ask(self, *commands: Command, block: float = 0.0) -> list[Reply]:
        """The replies, in order. Where they may come late, `block` says by how many seconds.

        Raises `Unavailable`, after which any of the commands may have been carried out.
        """
        if self._failure is not None or self._closed:
            await self._attempted(asyncio.get_running_loop().time() + self._place.timeout)
        source = self._blocking if block else self._commands
        try:
            async with asyncio.timeout(self._place.timeout + block):
                connection = await source.get_connection()
                try:
                    return await exchange(connection, commands)
                finally:
                    await source.release(connection)
        except FAULTS as error:
            self._failed(error)

    async def _attempted(self, until: float) -> None:
        """Returns when the server is there, as far as is known."""
        if self._closed:
            raise_unavailable(self._place.url, "it is closed here")
        if self._failure is not None and not await self._attempts.made(until):
            raise_unavailable(self._place.url, f"not within {self._place.timeout:g} s")

    async def _reach(self) -> None:
        try:
            async with asyncio.timeout(self._place.timeout):
                connection = await self._commands.get_connection()
                await self._commands.release(connection)
        except FAULTS as error:
            self._failed(error)
        self._failure = None
        log.info("broker.back", extra={"url": self._place.url})

    def _failed(self, error: BaseException) -> NoReturn:
        was_there = self._failure is None
        self._failure = unavailable(self._place.url, said(error))
        if was_there:
            self._attempts.lost()
        if was_there and not self._closed:
            log.warning("broker.away", extra={"url": self._place.url, "error": said(error)})
        raise self._failure from error


async def exchange(connection: Connection, commands: Sequence[Command]) -> list[Reply]:
    # A connection on which something went wrong half-way is closed by the driver.
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    return [await reply(connection) for _ in commands]


async def reply(connection: Connection) -> Reply:
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error


def pool(place: Place, kind: type[ConnectionPool], limit: int | None) -> Pool:
    if place.path is not None:
        connection: type[Any] = UnixDomainSocketConnection
    else:
        connection = TcpConnection if place.tls is None else SSLConnection
    return cast(
        "Pool",
        kind(
            connection_class=connection,
            max_connections=limit,
            retry=Retry(NoBackoff(), 0),
            **place.for_driver,
        ),
    )


def good(reply: Reply, url: str) -> Reply:
    """The reply. Raises `Unavailable` for an error that the server sent."""
    if isinstance(reply, ResponseError):
        hint = ""
        if isinstance(reply, AskError | ClusterDownError):
            hint = " (it is a node of a cluster, and clusters are not supported)"
        raise unavailable(url, said(reply) + hint) from reply
    return reply


def is_error(reply: Reply, *codes: str) -> bool:
    return isinstance(reply, ResponseError) and said(reply).startswith(codes)


def unavailable(url: str, why: str) -> Unavailable:
    return Unavailable(f"the broker at {url} is not available: {why}")


def raise_unavailable(url: str, why: str) -> NoReturn:
    raise unavailable(url, why)


def said(error: BaseException) -> str:
    return str(error) or type(error).__name__
