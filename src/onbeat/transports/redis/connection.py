"""Sends commands to the server in pipelines, and reads the replies."""

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
from onbeat.transports.reconnect import Fraction, Reconnector
from onbeat.transports.redis.config import RedisConfig

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 8  # for commands; each waiting consumer has one more
FAULTS: Final = (RedisError, OSError, TimeoutError)

Word = str | bytes | int
Command = Sequence[Word]
Reply = Any
"""A number, bytes, a list of replies, None, or the server's `ResponseError`."""


class DriverConnection(Protocol):
    """The part of the driver's interface that is used."""

    def pack_commands(self, commands: Iterable[Command]) -> list[bytes]: ...
    async def send_packed_command(
        self,
        command: Iterable[bytes],
        check_health: bool = True,  # noqa: FBT001, FBT002  the driver's signature
    ) -> None: ...
    async def read_response(self, disable_decoding: bool = False) -> Reply: ...  # noqa: FBT001, FBT002
    async def disconnect(self, nowait: bool = False) -> None: ...  # noqa: FBT001, FBT002


class DriverPool(Protocol):
    async def get_connection(self) -> DriverConnection: ...
    async def release(self, connection: DriverConnection) -> None: ...
    async def disconnect(self) -> None: ...


class Connection:
    """Opens connections on demand. May be closed, and used again after `open`."""

    def __init__(self, config: RedisConfig, fraction: Fraction) -> None:
        self._config = config
        self._commands = pool(config, BlockingConnectionPool, CONNECTIONS_MAX)
        self._blocking = pool(config, ConnectionPool, None)
        self._attempts = Reconnector(self._reach, fraction)
        self._failure: Unavailable | None = None
        self._closed = False

    def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        await self._attempts.cancel()
        for one in (self._commands, self._blocking):
            try:
                await one.disconnect()
            except FAULTS:
                log.debug("broker.close_failed", exc_info=True)

    async def ready(self, until: float) -> None:
        """Returns once the server is reached; retries until the deadline.

        Raises `Unavailable`.
        """
        while True:
            try:
                return await self._wait_reachable(until)
            except Unavailable:
                if self._closed or asyncio.get_running_loop().time() >= until:
                    raise

    async def run(self, *commands: Command, block: float = 0.0) -> list[Reply]:
        """The replies, in order. If they may be late, `block` is the delay in seconds.

        Raises `Unavailable`; any of the commands may have been executed then.
        """
        if self._failure is not None or self._closed:
            await self._wait_reachable(asyncio.get_running_loop().time() + self._config.timeout)
        source = self._blocking if block else self._commands
        try:
            async with asyncio.timeout(self._config.timeout + block):
                connection = await source.get_connection()
                try:
                    return await exchange(connection, commands)
                finally:
                    await source.release(connection)
        except FAULTS as error:
            self._raise_failure(error)

    async def _wait_reachable(self, until: float) -> None:
        """Returns when the server is reachable, as far as is known."""
        if self._closed:
            raise_unavailable(self._config.url, "it is closed here")
        if self._failure is not None and not await self._attempts.succeeds_by(until):
            raise_unavailable(self._config.url, f"not within {self._config.timeout:g} s")

    async def _reach(self) -> None:
        try:
            async with asyncio.timeout(self._config.timeout):
                connection = await self._commands.get_connection()
                await self._commands.release(connection)
        except FAULTS as error:
            self._raise_failure(error)
        self._failure = None
        log.info("broker.back", extra={"url": self._config.url})

    def _raise_failure(self, error: BaseException) -> NoReturn:
        was_there = self._failure is None
        self._failure = unavailable(self._config.url, error_text(error))
        if was_there:
            self._attempts.note_loss()
        if was_there and not self._closed:
            log.warning("broker.away", extra={"url": self._config.url, "error": error_text(error)})
        raise self._failure from error


async def exchange(connection: DriverConnection, commands: Sequence[Command]) -> list[Reply]:
    # The driver closes a connection on which an exchange failed half-way.
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    return [await reply(connection) for _ in commands]


async def reply(connection: DriverConnection) -> Reply:
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error


def pool(config: RedisConfig, kind: type[ConnectionPool], limit: int | None) -> DriverPool:
    if config.path is not None:
        connection: type[Any] = UnixDomainSocketConnection
    else:
        connection = TcpConnection if config.tls is None else SSLConnection
    return cast(
        "DriverPool",
        kind(
            connection_class=connection,
            max_connections=limit,
            retry=Retry(NoBackoff(), 0),
            **config.for_driver,
        ),
    )


def checked_reply(reply: Reply, url: str) -> Reply:
    """The reply. Raises `Unavailable` for an error reply."""
    if isinstance(reply, ResponseError):
        hint = ""
        if isinstance(reply, AskError | ClusterDownError):
            hint = " (it is a node of a cluster, and clusters are not supported)"
        raise unavailable(url, error_text(reply) + hint) from reply
    return reply


def is_error(reply: Reply, *codes: str) -> bool:
    return isinstance(reply, ResponseError) and error_text(reply).startswith(codes)


def unavailable(url: str, why: str) -> Unavailable:
    return Unavailable(f"the broker at {url} is not available: {why}")


def raise_unavailable(url: str, why: str) -> NoReturn:
    raise unavailable(url, why)


def error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
