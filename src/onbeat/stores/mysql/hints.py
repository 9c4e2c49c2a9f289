"""Hints that something may have changed, to listeners in this process and in others."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable

from onbeat.ports.store import Hint
from onbeat.stores.mysql.connection import Database, Dsn, connect
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.hints import Heard, Listeners

LOOK_SECONDS = 0.04  # how often to poll for other processes' changes while there are listeners
LOST_SECONDS_MAX = 1.0
CLOSE_SECONDS = 2.0
RING_SECONDS = 0.01  # between two hints to other processes


class Hints:
    """The listeners of one store, and a thread that polls for changes while there are any."""

    def __init__(self, dsn: Dsn) -> None:
        self._place = dsn
        self._lock = threading.Lock()
        self._listeners = Listeners()
        self._opened = False
        self._thread: threading.Thread | None = None

    def listen(self, on_hint: Heard) -> Callable[[], None]:
        with self._lock:
            stop = self._listeners.add(on_hint)
            self._start()
        return stop

    def notify(self, hints: Iterable[Hint]) -> None:
        self._listeners.notify(hints)

    def open(self) -> None:
        with self._lock:
            self._opened = True
            self._start()

    def close(self) -> None:
        """Blocks until the thread has ended, but not for a server that does not answer."""
        with self._lock:
            self._opened = False
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def _start(self) -> None:
        if self._opened and self._listeners and self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="onbeat-mysql-listener", daemon=True
            )
            self._thread.start()

    def _work(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        look = ChangeReader(self._place)
        try:
            while self._goes_on():
                self.notify(await look.find_changes())
                await asyncio.sleep(look.pause)
        finally:
            await look.close()

    def _goes_on(self) -> bool:
        with self._lock:
            goes_on = self._opened and bool(self._listeners)
            if not goes_on:
                self._thread = None
            return goes_on


class ChangeReader:
    """Reads the counters of changes and compares them with the last read."""

    def __init__(self, dsn: Dsn) -> None:
        self.pause = LOOK_SECONDS
        self._place = dsn
        self._db: Database | None = None
        self._seen: dict[str, int] | None = None
        self._lost = False

    async def find_changes(self) -> Collection[Hint]:
        """The hints whose counters have changed; all after a lost connection."""
        try:
            counts = await self._counts()
        except Exception:  # noqa: BLE001  the next request gets the error
            self._forget()
            return ()
        seen, self._seen = self._seen, counts
        was_lost, self._lost = self._lost, False
        self.pause = LOOK_SECONDS
        if was_lost:
            return tuple(Hint)
        if seen is None:
            return ()
        return [hint for hint in Hint if counts.get(hint.name) != seen.get(hint.name)]

    async def close(self) -> None:
        if self._db is not None:
            with contextlib.suppress(Exception):
                await self._db.ensure_closed()

    async def _counts(self) -> dict[str, int]:
        if self._db is None:
            self._db = await connect(self._place)
        return dict(await Transaction(self._db).rows("SELECT hint, count FROM changes"))

    def _forget(self) -> None:
        self._lost = True
        self.pause = min(self.pause * 2, LOST_SECONDS_MAX)
        if self._db is not None:
            self._db.close()
            self._db = None


class HintSender:
    """Sends hints to other processes for one event loop; hints during a write are batched."""

    def __init__(self, send: Callable[[Collection[Hint]], Awaitable[None]]) -> None:
        self._send = send
        self._pending: set[Hint] = set()
        self._sending: asyncio.Task[None] | None = None

    def send(self, hints: Collection[Hint]) -> None:
        self._pending |= set(hints)
        if self._pending and self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._go_on())
            self._sending.add_done_callback(self._stop)

    async def wait_until_sent(self) -> None:
        """Returns when all hints are sent, or after a short time: a hint may be lost."""
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=CLOSE_SECONDS)
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])

    async def _go_on(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, set()
            with contextlib.suppress(Exception):  # a hint may be lost
                await self._send(pending)
            await asyncio.sleep(RING_SECONDS)

    def _stop(self, ringing: "asyncio.Task[None]") -> None:
        """A callback, since a task that is cancelled before it begins runs no `finally`."""
        self._sending = None
        if not ringing.cancelled():
            self.send(())


async def count_changes(transaction: Transaction, hints: Collection[Hint]) -> None:
    await transaction.insert(
        """
        INSERT INTO changes (hint, count)
        VALUES (%s, 1)
        ON DUPLICATE KEY UPDATE count = count + 1
        """,
        [(hint.name,) for hint in sorted(hints, key=lambda hint: hint.value)],
    )
