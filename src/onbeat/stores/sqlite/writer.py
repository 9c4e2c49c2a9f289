"""The one thread that writes: it runs many operations in one transaction (group commit).

While one commit waits for the disk, the next batch gathers. Each operation stands by itself all
the same: when one of a batch fails, the batch is rolled back and run again with a savepoint around
each.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import apsw

from onbeat.ports.store import Hint
from onbeat.stores.sqlite.asks import Answer, Ask, Inbox, answer_all
from onbeat.stores.sqlite.ballast import Ballast
from onbeat.stores.sqlite.faults import REOPEN, WHOLE, refusal, unavailable
from onbeat.stores.sqlite.hints import Listeners
from onbeat.stores.sqlite.transaction import Transaction

BATCH_MAX = 1_000
LOOK_SECONDS = 0.05  # how often to look for other processes' changes while someone listens
CHECKPOINT_PAGES = 4_000  # 16 MB: fewer checkpoints write a page that changes often fewer times
WAL_PAGES_MAX = 64_000  # beyond this readers are made to wait, so that the WAL can start afresh


Argument = TypeVar("Argument")
Answered = TypeVar("Answered")


class Writer:
    """`spared` is what may still be done with the space of the ballast."""

    def __init__(
        self,
        path: str,
        connect: Callable[[], apsw.Connection],
        ballast: Ballast,
        spared: frozenset[Callable[..., object]],
    ) -> None:
        self._listeners = Listeners()
        self._path = path
        self._log = Path(f"{path}-wal")
        self._connect = connect
        self._ballast = ballast
        self._spared = spared
        self._inbox = Inbox()
        self._thread: threading.Thread | None = None
        self._db: apsw.Connection | None = None
        self._looked_at = 0.0
        self._written_at = 0
        self._data_version: int | None = None
        self._wal_pages = 0

    async def ask(
        self, run: Callable[[Transaction, Argument], Answered], argument: Argument
    ) -> Answered:
        """Run it in a transaction of its own or shared; answers once that is durable."""
        answer: Answered = await self._inbox.put(run, argument)
        return answer

    async def merge(
        self,
        run: Callable[[Transaction, Sequence[Argument]], Sequence[Answered]],
        rows: Sequence[Argument],
    ) -> Sequence[Answered]:
        """As `ask`, for an operation that may take the rows of several callers in one go."""
        if not rows:
            return []
        answers: Sequence[Answered] = await self._inbox.put(run, rows, merges=True)
        return answers

    def listen(self, heard: Callable[[Hint], None]) -> Callable[[], None]:
        stop = self._listeners.add(heard)
        self._inbox.wake()
        return stop

    def start(self, db: apsw.Connection) -> None:
        self._adopt(db)
        self._inbox.begin()
        self._thread = threading.Thread(target=self._work, name="onbeat-sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def stop(self) -> None:
        """Blocks until what was asked before is done."""
        if self._thread is not None:
            self._inbox.stop()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        ended = False
        while not ended:
            timeout = LOOK_SECONDS if self._listeners else None
            asks, ended = self._inbox.take(BATCH_MAX, timeout)
            if asks and self._ballast.holds_back():
                self._serve_spared(asks)
            elif asks:
                self._serve(asks)
            if self._listeners:
                self._look()
        self._inbox.end()
        self._close()

    def _serve_spared(self, asks: list[Ask]) -> None:
        """While the disk is full: what makes room or ends work, and its log is copied at once."""
        full = apsw.FullError("writes wait for space; reading and deleting go on")
        others = [ask for ask in asks if ask.run not in self._spared]
        answer_all([(ask, unavailable(full, self._path)) for ask in others])
        if spared := [ask for ask in asks if ask.run in self._spared]:
            self._serve(spared)
            self._checkpoint()

    def _serve(self, asks: list[Ask]) -> None:
        hints: set[Hint] = set()
        try:
            answers, hints = self._commit(asks)
        except Exception as error:  # noqa: BLE001  no fault may end the thread
            answers = [(ask, unavailable(error, self._path)) for ask in asks]
            if isinstance(error, REOPEN):
                self._close()
            if isinstance(error, apsw.FullError) and self._ballast.drop():
                self._checkpoint()
        answer_all(answers)
        self._listeners.tell(hints)
        if self._wal_pages >= CHECKPOINT_PAGES:
            self._checkpoint()

    def _commit(self, asks: list[Ask]) -> tuple[list[Answer], set[Hint]]:
        """Raises what concerns the database as a whole; nothing of the batch is stored then."""
        try:
            return self._run(asks, answers_together)
        except WHOLE:
            raise
        except Exception:  # noqa: BLE001  whose fault it was comes out now
            return self._run(asks, self._answers_apart)

    def _run(
        self, asks: list[Ask], answers_of: Callable[[Transaction, list[Ask]], Iterator[Answer]]
    ) -> tuple[list[Answer], set[Hint]]:
        transaction = Transaction(self._connected())
        transaction.begin("IMMEDIATE")
        try:
            answers = list(answers_of(transaction, asks))
            transaction.commit()
        finally:
            transaction.end()
        return answers, transaction.hints

    def _answers_apart(self, transaction: Transaction, asks: list[Ask]) -> Iterator[Answer]:
        for ask in asks:
            transaction.run("SAVEPOINT ask")
            try:
                result = ask.run(transaction, ask.argument)
            except WHOLE:
                raise
            except Exception as error:  # noqa: BLE001  it is that caller's answer
                transaction.run("ROLLBACK TO ask")
                result = refusal(error, self._path)
            transaction.run("RELEASE ask")
            yield ask, result

    def _connected(self) -> apsw.Connection:
        if self._db is None:
            self._adopt(self._connect())
        assert self._db is not None
        return self._db

    def _adopt(self, db: apsw.Connection) -> None:
        self._db = db
        self._data_version = None
        self._wal_pages = 0
        db.set_wal_hook(self._count_pages)

    def _count_pages(self, _db: apsw.Connection, _schema: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Copy the WAL into the database, now that the answers are out and nobody waits for it."""
        if self._db is None:
            return
        forced = self._wal_pages >= WAL_PAGES_MAX
        self._wal_pages = 0
        mode = apsw.SQLITE_CHECKPOINT_RESTART if forced else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self._db.wal_checkpoint(mode=mode)
        except REOPEN:
            self._close()
        except apsw.Error:
            # Another process is at it, or the disk is full: the next commit leads here again.
            return

    def _look(self) -> None:
        """Tell the listeners when another process has committed."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS or self._db is None:
            return
        self._looked_at = now
        if not self._log_changed():
            return
        try:
            version = Transaction(self._db).value("PRAGMA data_version")
        except apsw.Error:
            return  # whoever asks something next is told
        if self._data_version not in (None, version):
            self._listeners.tell(Hint)
        self._data_version = version

    def _log_changed(self) -> bool:
        """Whether anybody may have committed: much cheaper to ask of the file than of SQLite.

        The file's time moves in steps of some milliseconds, so that a recent one proves nothing.
        """
        try:
            written_at = self._log.stat().st_mtime_ns
        except OSError:
            return True
        is_old = time.time_ns() - written_at > 4 * LOOK_SECONDS * 1e9
        changed = written_at != self._written_at or not is_old
        self._written_at = written_at
        return changed

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(apsw.Error):  # it may have been in a bad state
                db.close(True)


def answers_together(transaction: Transaction, asks: list[Ask]) -> Iterator[Answer]:
    """Operations that merge come first, so that a claim in the same batch sees the new jobs."""
    merging = sorted((ask for ask in asks if ask.merges), key=by_name)
    for _, group in groupby(merging, key=by_name):
        yield from merged(transaction, list(group))
    for ask in asks:
        if not ask.merges:
            yield ask, ask.run(transaction, ask.argument)


by_name = attrgetter("run.__qualname__")


def merged(transaction: Transaction, asks: list[Ask]) -> Iterator[Answer]:
    results = asks[0].run(transaction, [row for ask in asks for row in ask.argument])
    start = 0
    for ask in asks:
        end = start + len(ask.argument)
        yield ask, results[start:end]
        start = end
