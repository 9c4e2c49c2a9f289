"""Connections of one event loop, lent one at a time."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from onbeat.model.errors import Unavailable
from onbeat.stores.postgres.connection import Database, connect
from onbeat.stores.postgres.faults import BROKEN, unavailable
from onbeat.stores.postgres.place import Place

WAIT_SECONDS = 30.0
PAUSE_SECONDS_MAX = 1.0


class Pool:
    """At most `limit` connections, made when they are needed.

    The driver's own pool asks the server to reset a connection each time that it is given back,
    which would double the round trips; here nothing is left behind that needs it.
    """

    def __init__(self, place: Place, limit: int) -> None:
        self.place = place
        self.limit = limit
        self._idle: list[Database] = []
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failures = 0
        self._pause_ends = 0.0

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Database, None]:
        """A connection that is in no transaction; it is thrown away when the block fails oddly."""
        db = self._take() or await self._wait()
        try:
            yield db
        except BaseException as error:
            # Cancelled in the middle of an answer: what comes next on it is unknown.
            if isinstance(error, BROKEN) or not isinstance(error, Exception):
                db.terminate()
            raise
        finally:
            self._give_back(db)

    def _take(self) -> Database | None:
        while self._idle:
            db = self._idle.pop()
            if not db.is_closed():
                return db
            self._count -= 1
        return None

    async def _wait(self) -> Database:
        while True:
            if db := self._take():
                return db
            if self._count < self.limit:
                return await self._connect()
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await turn
            except TimeoutError as error:
                raise unavailable(error, self.place.url) from error
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()
                raise

    async def _connect(self) -> Database:
        loop = asyncio.get_running_loop()
        if loop.time() < self._pause_ends:
            raise Unavailable(f"PostgreSQL {self.place.url}: it does not answer; try again")
        self._count += 1
        try:
            db = await connect(self.place)
        except BaseException as error:
            self._count -= 1
            self._wake()
            if isinstance(error, asyncio.CancelledError):
                raise
            # Many processes lose the server at once; they should not come back at once.
            self._failures += 1
            pause = min(PAUSE_SECONDS_MAX, 0.02 * 2**self._failures)
            self._pause_ends = loop.time() + pause * random.random()  # noqa: S311  no secret
            raise unavailable(error, self.place.url) from error
        self._failures = 0
        return db

    def _give_back(self, db: Database) -> None:
        if db.is_closed() or self._count > self.limit:
            db.terminate()
            self._count -= 1
        else:
            self._idle.append(db)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        for db in idle:
            try:
                await db.close(timeout=2.0)
            except Exception:  # noqa: BLE001  it is gone either way
                db.terminate()
