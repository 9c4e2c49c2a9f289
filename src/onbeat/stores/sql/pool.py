"""A connection pool for one event loop, and what a driver of a database server can do."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

from onbeat.model.errors import Unavailable

Connection = TypeVar("Connection")

WAIT_SECONDS = 30.0
PAUSE_SECONDS_MAX = 0.5
CLOSE_SECONDS = 2.0


class Driver(Protocol[Connection]):
    """Opens and closes connections of one database driver, and tells its errors apart."""

    async def connect(self) -> Connection:
        """Raises the driver's errors."""
        ...

    def is_open(self, connection: Connection) -> bool: ...

    async def close(self, connection: Connection) -> None:
        """Close the connection gracefully."""
        ...

    def discard(self, connection: Connection) -> None:
        """Close at once, even in the middle of a statement."""
        ...

    async def execute(self, connection: Connection, sql: str) -> None:
        """Run a statement that has no values and no answer."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether the connection is lost, or in an unknown state."""
        ...

    def is_conflict(self, error: BaseException) -> bool:
        """Whether another transaction was preferred: a retry mostly succeeds."""
        ...

    def is_lock_wait(self, error: BaseException) -> bool:
        """Whether the conflict is a lock that another transaction held for too long."""
        ...

    def refusal(self, error: Exception) -> Exception:
        """The exception for a failed operation, with its cause."""
        ...

    def unavailable(self, error: BaseException) -> Unavailable: ...


class Pool(Generic[Connection]):
    """Opens up to `limit` connections on demand."""

    def __init__(self, driver: Driver[Connection], limit: int) -> None:
        self._driver = driver
        self._limit = limit
        self._idle: list[Connection] = []
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failures = 0
        self._pause_ends = 0.0
        self._closed = False

    @asynccontextmanager
    async def borrow(self) -> AsyncGenerator[Connection, None]:
        """A connection outside any transaction; discarded if the block loses it or is cancelled."""
        connection = await self._get()
        try:
            yield connection
        except BaseException as error:
            # Cancelled in the middle of an answer: the protocol state is unknown.
            if self._driver.is_lost(error) or not isinstance(error, Exception):
                self._driver.discard(connection)
            if self._driver.is_lost(error):
                self._forget_idle()
            raise
        finally:
            self._return(connection)

    async def close(self) -> None:
        """Borrowed connections are closed when they are returned."""
        self._closed = True
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        for connection in idle:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._driver.close(connection)
            except Exception:  # noqa: BLE001  gone either way
                self._driver.discard(connection)

    def _forget_idle(self) -> None:
        """After one loss, as on a server restart, idle connections may be dead too; drop them."""
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        for connection in idle:
            with contextlib.suppress(Exception):  # the connection is gone either way
                self._driver.discard(connection)
        for _ in idle:
            self._wake()

    async def _get(self) -> Connection:
        while True:
            if (connection := self._take()) is not None:
                return connection
            if self._count < self._limit:
                return await self._connect()
            await self._turn()

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if self._driver.is_open(connection):
                return connection
            self._count -= 1
        return None

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled():
                self._wake()  # its turn came despite the error; pass it on
            if isinstance(error, TimeoutError):
                raise self._driver.unavailable(error) from error
            raise

    async def _connect(self) -> Connection:
        """Raises the driver's errors."""
        loop = asyncio.get_running_loop()
        self._count += 1
        try:
            await asyncio.sleep(self._pause_ends - loop.time())
            connection = await self._driver.connect()
        except BaseException as error:
            self._count -= 1
            self._wake()
            if not isinstance(error, Exception):
                raise
            # Jitter: many processes lose the server at once and should not reconnect at once.
            self._failures += 1
            pause = min(PAUSE_SECONDS_MAX, 0.02 * 2 ** min(self._failures, 10))
            self._pause_ends = loop.time() + pause * random.random()  # noqa: S311  no secret
            raise
        self._failures = 0
        return connection

    def _return(self, connection: Connection) -> None:
        if self._closed or not self._driver.is_open(connection):
            with contextlib.suppress(Exception):  # the connection is gone either way
                self._driver.discard(connection)
            self._count -= 1
        else:
            self._idle.append(connection)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def without_password(netloc: str) -> str:
    """The network location of a URL, for messages and logs."""
    user, at, host = netloc.rpartition("@")
    return user.partition(":")[0] + at + host
