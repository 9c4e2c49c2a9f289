"""Connections of one event loop, lent one at a time."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from onbeat.stores.mysql.connection import Database, connect
from onbeat.stores.mysql.faults import is_lost, unavailable
from onbeat.stores.mysql.place import Place

WAIT_SECONDS = 30.0
PAUSE_SECONDS_MAX = 0.5
CLOSE_SECONDS = 2.0


class Pool:
    """At most `limit` connections, made when they are needed."""

    def __init__(self, place: Place, limit: int) -> None:
        self._place = place
        self._limit = limit
        self._idle: list[Database] = []
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failures = 0
        self._pause_ends = 0.0
        self._closed = False

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Database, None]:
        """A connection that is in no transaction; it is thrown away when the block fails oddly."""
        db = await self._get()
        try:
            yield db
        except BaseException as error:
            # Cancelled in the middle of an answer: what comes next on it is unknown.
            if is_lost(error) or not isinstance(error, Exception):
                db.close()
            raise
        finally:
            self._give_back(db)

    async def close(self) -> None:
        """What is lent is closed when it comes back."""
        self._closed = True
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        for db in idle:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await db.ensure_closed()
            except Exception:  # noqa: BLE001  it is gone either way
                db.close()

    async def _get(self) -> Database:
        while True:
            if db := self._take():
                return db
            if self._count < self._limit:
                return await self._connect()
            await self._turn()

    def _take(self) -> Database | None:
        while self._idle:
            db = self._idle.pop()
            if db.connected:
                return db
            self._count -= 1
        return None

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except TimeoutError as error:
            raise unavailable(error, self._place.url) from error
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()
            raise

    async def _connect(self) -> Database:
        """Raises what the driver raises."""
        loop = asyncio.get_running_loop()
        self._count += 1
        try:
            await asyncio.sleep(self._pause_ends - loop.time())
            db = await connect(self._place)
        except BaseException as error:
            self._count -= 1
            self._wake()
            if not isinstance(error, Exception):
                raise
            # Many processes lose the server at once; they should not come back at once.
            self._failures += 1
            pause = min(PAUSE_SECONDS_MAX, 0.02 * 2 ** min(self._failures, 10))
            self._pause_ends = loop.time() + pause * random.random()  # noqa: S311  no secret
            raise
        self._failures = 0
        return db

    def _give_back(self, db: Database) -> None:
        if self._closed or not db.connected:
            with contextlib.suppress(Exception):  # it is gone either way
                db.close()
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
