"""Connections, with the settings that durability and isolation depend on."""

import os
import time
from pathlib import Path

import apsw

from onbeat.model.errors import Misconfigured
from onbeat.stores.sqlite.errors import BUSY_OPEN_SECONDS
from onbeat.stores.sqlite.transaction import Transaction

WRITER_CACHE_KIB = 65_536
READER_CACHE_KIB = 16_384
LOCK_LOOK_SECONDS = 0.002
WAL_BYTES_KEPT = 67_108_864  # a longer WAL file is truncated to this when it restarts


# With a memory map, a failed read would be a signal instead of an error.
COMMON = ("mmap_size = 0", "temp_store = memory")


class LockWait:
    """A busy handler that waits for another process's lock, for this many seconds.

    It retries often: a busy process releases the lock only for a moment, and SQLite's own busy
    handler, with its growing pauses, could miss such moments for seconds.
    """

    def __init__(self, seconds: float = BUSY_OPEN_SECONDS) -> None:
        self.seconds = seconds
        self._began = 0.0

    def __call__(self, calls: int) -> bool:
        now = time.monotonic()
        if calls == 0:
            self._began = now
        if now - self._began >= self.seconds:
            return False
        time.sleep(LOCK_LOOK_SECONDS)
        return True


def connect_writer(path: str, synchronous: str, wait: LockWait) -> apsw.Connection:
    create_private(path)
    db = apsw.Connection(path)
    db.set_busy_handler(wait)
    use_wal(db, path, wait)
    db.wal_autocheckpoint(0)  # the writer checkpoints when no caller waits for a commit
    return with_pragmas(
        db,
        *COMMON,
        f"synchronous = {synchronous}",
        f"cache_size = -{WRITER_CACHE_KIB}",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
    )


def connect_reader(path: str, wait: LockWait) -> apsw.Connection:
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_handler(wait)
    db.wal_autocheckpoint(0)
    return with_pragmas(db, *COMMON, "query_only = 1", f"cache_size = -{READER_CACHE_KIB}")


def with_pragmas(db: apsw.Connection, *settings: str) -> apsw.Connection:
    # Without this SQLite plans most statements again whenever a value is bound.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    transaction = Transaction(db)
    for setting in settings:
        transaction.run(f"PRAGMA {setting}")
    return db


def create_private(path: str) -> None:
    """A new database is accessible to its owner only; SQLite gives its WAL file the same mode."""
    if Path(path).exists():
        return
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return  # another process was faster
    except OSError as error:
        raise Misconfigured(
            f"SQLite database {path} cannot be created: {error.strerror}; "
            "check that its directory exists and may be written",
            key="store",
        ) from error


def use_wal(db: apsw.Connection, path: str, wait: LockWait) -> None:
    """Several processes may do this to a new file at once, and SQLite does not wait here itself."""
    deadline = time.monotonic() + wait.seconds
    while True:
        try:
            mode = Transaction(db).value("PRAGMA journal_mode = wal")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOCK_LOOK_SECONDS)
            continue
        if mode != "wal":
            raise Misconfigured(
                f"SQLite database {path} cannot use a write-ahead log here "
                f"(its journal mode stays {mode}); put it on a local file system",
                key="store",
            )
        return
