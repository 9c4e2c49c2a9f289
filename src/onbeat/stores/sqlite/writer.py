"""The writer thread: it runs many operations in one transaction (group commit).

While one commit waits for the disk, the next batch collects. Operations stay independent: if one of
a batch fails, the batch is rolled back and run again with a savepoint around each.
"""

import contextlib
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from onbeat.ports.store import Hint
from onbeat.stores.sql.hints import Listeners
from onbeat.stores.sqlite.ballast import Ballast, Hold, Space, size_of, space
from onbeat.stores.sqlite.connection import LockWait
from onbeat.stores.sqlite.errors import (
    BUSY_AGAIN_SECONDS,
    BUSY_SECONDS,
    REOPEN,
    WHOLE,
    refusal,
    unavailable,
)
from onbeat.stores.sqlite.requests import Answer, RequestQueue, WriteRequest, answer_all
from onbeat.stores.sqlite.transaction import Transaction

BATCH_MAX = 1_000
FILE_LOOK_SECONDS = 1.0  # how often to compute the maximum size of the file
LOOK_SECONDS = 0.05  # how often to poll for other processes' changes while there are listeners
ALONE_SECONDS = 10.0  # without a change by another process
LOG_BYTES_STEP = 262_144  # how much the WAL grows between two checks of the space for it
LOG_BYTES_FORCED = 256 << 20  # beyond this readers have to wait, so that the WAL restarts
PAGES_MAX = 4_294_967_294  # SQLite's maximum


P = ParamSpec("P")
Row = TypeVar("Row")
Answered = TypeVar("Answered")


class Writer:
    """`spared` are the operations that may use the space of the ballast.

    `adding` are those that wait longest on a full disk: others go on earlier, in freed pages.
    """

    def __init__(
        self,
        path: str,
        connect: Callable[[], apsw.Connection],
        ballast: Ballast,
        spared: frozenset[Callable[..., object]],
        adding: frozenset[Callable[..., object]],
    ) -> None:
        self.lock_wait = LockWait()
        self._listeners = Listeners()
        self._path = path
        self._log = Path(f"{path}-wal")
        self._connect = connect
        self._ballast = ballast
        self._always_allowed = spared
        self._adding = adding
        self._requests = RequestQueue()
        self._thread: threading.Thread | None = None
        self._db: apsw.Connection | None = None
        self._looked_at = 0.0
        self._others_wrote_at = -math.inf
        self._written_at = 0
        self._data_version: int | None = None
        self._page_size = 0
        self._log_bytes = 0
        self._log_look_at = LOG_BYTES_STEP
        self._bounded_at = 0.0

    async def run(
        self,
        verb: Callable[Concatenate[Transaction, P], Awaitable[Answered]],
        *args: P.args,
        **options: P.kwargs,
    ) -> Answered:
        """Run a verb in its own or a shared transaction; returns when that is durable."""
        answer: Answered = await self._requests.submit(verb, args, options)
        return answer

    async def run_batched(
        self,
        verb: Callable[[Transaction, Sequence[Row]], Sequence[Answered]],
        rows: Sequence[Row],
    ) -> Sequence[Answered]:
        """As `run`, for a function that may take the rows of several callers at once."""
        if not rows:
            return []
        answers: Sequence[Answered] = await self._requests.submit(verb, (rows,), merges=True)
        return answers

    def listen(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        stop = self._listeners.add(on_hint)
        self._requests.wake()
        return stop

    def start(self, db: apsw.Connection) -> None:
        self._adopt(db)
        self._requests.begin()
        self._thread = threading.Thread(target=self._work, name="onbeat-sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def is_alone(self) -> bool:
        """Whether no other process has written for a while, as far as listeners would know."""
        return time.monotonic() - self._others_wrote_at > ALONE_SECONDS

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def stop(self) -> None:
        """Blocks until all earlier requests are done."""
        if self._thread is not None:
            self._requests.stop()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        # The log of a migration, or of a process that was killed, is copied while there is room.
        self._checkpoint()
        ended = False
        while not ended:
            timeout = LOOK_SECONDS if self._listeners else None
            requests, ended = self._requests.take(BATCH_MAX, timeout)
            hold = self._hold() if requests else Hold.NOTHING
            if hold is not Hold.NOTHING:
                self._serve_on_full_disk(hold, requests)
            elif requests:
                self._bound_file_at_times()
                self._serve(requests)
            if self._listeners:
                self._look_for_changes()
        self._requests.end()
        self._close()

    def _hold(self) -> Hold:
        try:
            return self._ballast.hold(self._space)
        except Exception:  # noqa: BLE001  the next operation gets the same error
            return Hold.ALL_BUT_SPARED

    def _space(self) -> Space:
        return space(Transaction(self._connect_once()), self._path)

    def _serve_on_full_disk(self, hold: Hold, requests: list[WriteRequest]) -> None:
        """Run only operations that may use the space, then checkpoint."""
        served = [request for request in requests if self._may_run(request, hold)]
        if len(served) < len(requests):
            full = apsw.FullError("writes wait for space; reading and deleting go on")
            held = [request for request in requests if not self._may_run(request, hold)]
            answer_all([(request, unavailable(full, self._path)) for request in held])
        if served:
            self._bound_file(hold)
            self._serve(served)
            self._checkpoint()

    def _may_run(self, request: WriteRequest, hold: Hold) -> bool:
        if hold is Hold.ADDITIONS:
            return request.verb not in self._adding
        return request.verb in self._always_allowed

    def _bound_file_at_times(self) -> None:
        now = time.monotonic()
        if now - self._bounded_at >= FILE_LOOK_SECONDS and self._db is not None:
            self._bound_file(Hold.NOTHING)
            self._bounded_at = now

    def _bound_file(self, hold: Hold) -> None:
        """Make SQLite refuse to grow the file into the space for the WAL."""
        if self._db is None:
            return
        self._bounded_at = 0.0
        with contextlib.suppress(apsw.Error, OSError):
            size = self._ballast.file_bytes_max(self._space(), hold)
            pages = PAGES_MAX if size is None else max(1, size // self._page_size)
            Transaction(self._db).run(f"PRAGMA max_page_count = {min(PAGES_MAX, pages)}")

    def _serve(self, requests: list[WriteRequest]) -> None:
        hints: set[Hint] = set()
        try:
            answers, hints = self._commit(requests)
            self.lock_wait.seconds = BUSY_SECONDS
        except apsw.FullError as error:
            answers, hints = self._make_room(requests, error)
        except Exception as error:  # noqa: BLE001  no fault may end the thread
            answers = self._refuse_all(requests, error)
        answer_all(answers)
        self._listeners.notify(hints)
        if self._log_is_long():
            self._checkpoint()

    def _refuse_all(self, requests: list[WriteRequest], error: Exception) -> list[Answer]:
        if isinstance(error, REOPEN):
            self._close()
        if isinstance(error, apsw.BusyError):
            self.lock_wait.seconds = BUSY_AGAIN_SECONDS
        return [(request, unavailable(error, self._path)) for request in requests]

    def _make_room(
        self, requests: list[WriteRequest], error: apsw.FullError
    ) -> tuple[list[Answer], set[Hint]]:
        """Truncate the WAL, with its failed writes, and run the requests again in its space.

        Where that is not enough, only the spared ones, in the space of the ballast.
        """
        if self._truncate_log():
            try:
                return self._commit(requests)
            except apsw.FullError as again:
                error = again
            except Exception as again:  # noqa: BLE001  no fault may end the thread
                return self._refuse_all(requests, again), set()
        dropped = self._ballast.drop()
        self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        spared = [request for request in requests if request.verb in self._always_allowed]
        if not (dropped and spared):
            return self._refuse_all(requests, error), set()
        answers = self._refuse_all(
            [request for request in requests if request.verb not in self._always_allowed], error
        )
        self._bound_file(Hold.ALL_BUT_SPARED)
        try:
            served, hints = self._commit(spared)
        except Exception as again:  # noqa: BLE001  no fault may end the thread
            return answers + self._refuse_all(spared, again), set()
        return answers + served, hints

    def _log_is_long(self) -> bool:
        log = self._log_bytes
        if log < self._log_look_at:
            return False
        limit = self._ballast.log_bytes_max(log)
        self._log_look_at = min(limit, log + LOG_BYTES_STEP)
        return log >= limit

    def _commit(self, requests: list[WriteRequest]) -> tuple[list[Answer], set[Hint]]:
        """Raises errors of the database as a whole; no operation of the batch is stored then."""
        try:
            return self._run_requests(requests, answers_together)
        except WHOLE:
            raise
        except Exception:  # noqa: BLE001  the rerun finds whose fault it was
            return self._run_requests(requests, self._answers_apart)

    def _run_requests(
        self,
        requests: list[WriteRequest],
        answers_of: Callable[[Transaction, list[WriteRequest]], Iterator[Answer]],
    ) -> tuple[list[Answer], set[Hint]]:
        transaction = Transaction(self._connect_once())
        transaction.begin("IMMEDIATE")
        try:
            answers = list(answers_of(transaction, requests))
            transaction.commit()
        finally:
            transaction.end()
        return answers, transaction.hints

    def _answers_apart(
        self, transaction: Transaction, requests: list[WriteRequest]
    ) -> Iterator[Answer]:
        for request in requests:
            transaction.run("SAVEPOINT ask")
            try:
                result = request.run(transaction)
            except WHOLE:
                raise
            except Exception as error:  # noqa: BLE001  it is that caller's answer
                transaction.run("ROLLBACK TO ask")
                result = refusal(error, self._path)
            transaction.run("RELEASE ask")
            yield request, result

    def _connect_once(self) -> apsw.Connection:
        if self._db is None:
            self._adopt(self._connect())
        assert self._db is not None
        return self._db

    def _adopt(self, db: apsw.Connection) -> None:
        self._db = db
        self._data_version = None
        self._log_bytes = 0
        self._log_look_at = LOG_BYTES_STEP
        self._bounded_at = 0.0
        self._page_size = Transaction(db).value("PRAGMA page_size")
        db.set_wal_hook(self._measure_log)

    def _truncate_log(self) -> bool:
        """Whether that gave space back to the disk."""
        before = size_of(str(self._log))
        self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return size_of(str(self._log)) < before

    def _measure_log(self, _db: apsw.Connection, _schema: str, pages: int) -> int:
        self._log_bytes = pages * self._page_size
        return apsw.SQLITE_OK

    def _checkpoint(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> None:
        """Checkpoint the WAL, after the answers are sent, when no caller waits."""
        if self._db is None:
            return
        if self._log_bytes >= LOG_BYTES_FORCED and mode == apsw.SQLITE_CHECKPOINT_PASSIVE:
            mode = apsw.SQLITE_CHECKPOINT_RESTART
        self._log_bytes = 0
        self._log_look_at = LOG_BYTES_STEP
        self._bounded_at = 0.0
        try:
            self._db.wal_checkpoint(mode=mode)
        except REOPEN:
            self._close()
        except apsw.Error:
            # Another process checkpoints, or the disk is full: retried after the next commit.
            return

    def _look_for_changes(self) -> None:
        """Notify the listeners if another process has committed."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS or self._db is None:
            return
        self._looked_at = now
        if not self._log_changed():
            return
        try:
            version = Transaction(self._db).value("PRAGMA data_version")
        except apsw.Error:
            return  # the next request gets the error
        if self._data_version not in (None, version):
            self._others_wrote_at = now
            self._listeners.notify(Hint)
        self._data_version = version

    def _log_changed(self) -> bool:
        """Whether any process may have committed, by the file: much cheaper than a query.

        The file's time has steps of some milliseconds, so a recent one proves nothing.
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
            with contextlib.suppress(apsw.Error):  # its state may be bad
                db.close(True)


def answers_together(transaction: Transaction, requests: list[WriteRequest]) -> Iterator[Answer]:
    """Run operations that merge first, so that a claim in the same batch sees the new jobs."""
    merging = sorted((request for request in requests if request.merges), key=by_name)
    for _, group in groupby(merging, key=by_name):
        yield from answer_merged(transaction, list(group))
    for request in requests:
        if not request.merges:
            yield request, request.run(transaction)


by_name = attrgetter("verb.__qualname__")


def answer_merged(transaction: Transaction, requests: list[WriteRequest]) -> Iterator[Answer]:
    results = requests[0].verb(
        transaction, [row for request in requests for row in request.args[0]]
    )
    start = 0
    for request in requests:
        end = start + len(request.args[0])
        yield request, results[start:end]
        start = end
