"""Hints that something may have changed, to listeners in this process and in others.

Listeners in this process hear of its commits at once. Others hear by NOTIFY, which locks the whole
database when it commits. So it is sent separately, once for all commits of two milliseconds, and
only from here. After a quiet moment a NOTIFY may be part of the commit that it announces, so that
idle workers start sooner. The lock then lasts until the disk has answered, so each process holds it
for at most a tenth of the time.
"""

import asyncio
import contextlib
import logging
import random
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection

from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.rules.lone_jobs import Announcements
from onbeat.stores.postgres.connection import Database, Dsn, connect
from onbeat.stores.sql.hints import Heard, Listeners

log = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 0.002
QUIET_SECONDS = 0.005  # without a NOTIFY, after which a commit may carry one
QUIET_TIMES = 9  # the duration of the last such commit
NOTICE_SECONDS_MAX = 1.0  # until such a commit without a report counts as failed
LOOK_SECONDS = 10.0  # how often a silent connection is probed
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A job in a notification, which every user of the database may send."""

Notice = tuple[str, str]
"""The channel and payload of a NOTIFY."""

LETTERS = {
    Hint.JOBS: "J",
    Hint.SCHEDULES: "S",
    Hint.CANCELS: "C",
    Hint.ENDED: "E",
    Hint.EVENTS: "V",
    Hint.WORKERS: "W",
}
HINTS = {letter: hint for hint, letter in LETTERS.items()}


class Hints:
    def __init__(self, dsn: Dsn) -> None:
        self.listeners = Listeners()
        self.announced = Announcements()
        self.is_listening = False
        """Whether notifications come. Poolers accept a LISTEN, and then withhold them."""
        self._place = dsn
        # We receive our own NOTIFY too, after our listeners have been notified.
        self._tag = secrets.token_hex(4)
        self._pending: set[Hint] = set()
        self._noticed_at = 0.0
        self._next_notice_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._listeners_wanted = asyncio.Event()

    def start(self, send: Callable[[str, str], Awaitable[None]]) -> None:
        """Start in the running loop. `send` sends a NOTIFY of a channel with a payload."""
        self._loop = asyncio.get_running_loop()
        self._changed, self._listeners_wanted = asyncio.Event(), asyncio.Event()
        if self.listeners:
            self._listeners_wanted.set()
        self._tasks = [
            self._loop.create_task(self._send_all(send)),
            self._loop.create_task(self._listen_always()),
        ]

    async def stop(self) -> None:
        tasks, self._tasks, self._loop = self._tasks, [], None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def listen(self, on_hint: Heard) -> Callable[[], None]:
        stop = self.listeners.add(on_hint)
        self._in_loop(self._listeners_wanted.set)
        return stop

    def notice(self, job: JobId) -> Notice | None:
        """The NOTIFY that the transaction of a single new job may carry now, if any.

        Call `notify` after its commit.
        """
        now = time.monotonic()
        if self._pending or now < self._next_notice_at:
            return None
        self._noticed_at, self._next_notice_at = now, now + NOTICE_SECONDS_MAX
        channel, payload = self._notice({Hint.JOBS})
        return channel, f"{payload}:{job}"

    def notify(self, hints: set[Hint], noticed: set[Hint], lone_job: JobId | None) -> None:
        """Report a commit; its own NOTIFY has announced the hints in `noticed`."""
        if noticed:
            now = time.monotonic()
            self._next_notice_at = now + QUIET_TIMES * (now - self._noticed_at)
        if hints:
            self._tell(hints, lone_job)
        if left := hints - noticed:
            self._in_loop(lambda: self._gather(left))

    def _notice(self, hints: set[Hint]) -> Notice:
        payload = "".join(sorted(LETTERS[hint] for hint in hints))
        return self._place.channel, f"{payload}:{self._tag}"

    def _gather(self, hints: set[Hint]) -> None:
        self._pending |= hints
        self._changed.set()

    def _in_loop(self, act: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        if asyncio._get_running_loop() is loop:  # noqa: SLF001  the public one raises outside a loop
            act()
        else:
            # A closed loop has no listeners left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(act)

    async def _send_all(self, send: Callable[[str, str], Awaitable[None]]) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            hints, self._pending = self._pending, set()
            quiet_at = time.monotonic() + QUIET_SECONDS
            self._next_notice_at = max(self._next_notice_at, quiet_at)
            try:
                await send(*self._notice(hints))
            except Unavailable:
                # Listeners elsewhere also poll; hints only make them faster.
                await asyncio.sleep(PAUSE_SECONDS)
            await asyncio.sleep(DEBOUNCE_SECONDS)

    async def _listen_always(self) -> None:
        """After a reconnect all hints are sent, in place of any that were missed."""
        failures = 0
        while True:
            await self._listeners_wanted.wait()
            db: Database | None = None
            try:
                db = await connect(self._place)
                lost = asyncio.Event()
                db.add_termination_listener(setter_of(lost))
                pid = await db.fetchval("SELECT pg_backend_pid()")
                await db.add_listener(self._place.channel, self._on_notification)
                self.is_listening = pid == db.get_server_pid()
                self._tell(list(Hint), None)
                failures = 0
                await self._until_lost(db, lost)
            except Exception as error:  # noqa: BLE001  any error is retried
                log.debug("store.listen_failed: %s", error)
            finally:
                self.is_listening = False
                if db is not None:
                    db.terminate()
            failures += 1
            pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2**failures)
            await asyncio.sleep(pause * random.random())  # noqa: S311  no secret

    async def _until_lost(self, db: Database, lost: asyncio.Event) -> None:
        """Returns when the connection is lost or no listener is left."""
        while not lost.is_set():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await lost.wait()
            except TimeoutError:
                if not self.listeners:
                    self._listeners_wanted.clear()
                    return
                await db.fetchval("SELECT 1")

    def _on_notification(self, _db: object, _pid: int, _channel: str, payload: str) -> None:
        letters, _, origin = payload.partition(":")
        tag, _, job = origin.partition(":")
        if tag != self._tag:
            hints = [HINTS[letter] for letter in letters if letter in HINTS]
            self._tell(hints, JobId(job) if ID.fullmatch(job) else None)

    def _tell(self, hints: Collection[Hint], lone_job: JobId | None) -> None:
        if Hint.JOBS in hints:
            self.announced.note(lone_job)
        self.listeners.notify(hints)


def setter_of(event: asyncio.Event) -> Callable[..., None]:
    """A callback that sets the event and ignores its arguments."""

    def set_event(*_: object) -> None:
        event.set()

    return set_event
