"""A connection with the settings that the promises rest on."""

import os
import time
from pathlib import Path

import apsw

from onbeat.model.errors import Misconfigured
from onbeat.stores.sqlite.faults import BUSY_SECONDS
from onbeat.stores.sqlite.transaction import Transaction

WRITER_CACHE_KIB = 65_536
READER_CACHE_KIB = 16_384
WAL_BYTES_KEPT = 67_108_864  # a longer WAL file is cut back to this when it starts afresh


# A failed read through a memory map would be a signal instead of an error.
COMMON = ("mmap_size = 0", "temp_store = memory")


def connect_writer(path: str, synchronous: str) -> apsw.Connection:
    create_private(path)
    db = apsw.Connection(path)
    db.set_busy_timeout(int(BUSY_SECONDS * 1_000))
    use_wal(db, path)
    db.wal_autocheckpoint(0)  # the writer does it when nobody waits for the commit
    return with_pragmas(
        db,
        *COMMON,
        f"synchronous = {synchronous}",
        f"cache_size = -{WRITER_CACHE_KIB}",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
    )


def connect_reader(path: str) -> apsw.Connection:
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(int(BUSY_SECONDS * 1_000))
    db.wal_autocheckpoint(0)
    return with_pragmas(db, *COMMON, "query_only = 1", f"cache_size = -{READER_CACHE_KIB}")


def with_pragmas(db: apsw.Connection, *settings: str) -> apsw.Connection:
    # Without this SQLite plans most statements anew whenever a value is bound to them.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    transaction = Transaction(db)
    for setting in settings:
        transaction.run(f"PRAGMA {setting}")
    return db


def create_private(path: str) -> None:
    """A new database is its owner's alone; SQLite gives its WAL file the same rights."""
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


def use_wal(db: apsw.Connection, path: str) -> None:
    """Several processes may do this to a new file at once, and SQLite lets no busy one wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = Transaction(db).value("PRAGMA journal_mode = wal")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise Misconfigured(
                f"SQLite database {path} cannot use a write-ahead log here "
                f"(its journal mode stays {mode}); put it on a local file system",
                key="store",
            )
        return
