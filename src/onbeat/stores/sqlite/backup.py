"""A copy of the file as it is at one instant, while processes use it."""

import contextlib
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import apsw

from onbeat.model.errors import Conflict, Unavailable
from onbeat.stores.sqlite.connection import LockWait
from onbeat.stores.sqlite.errors import unavailable
from onbeat.stores.sqlite.transaction import Transaction

STEPS_BETWEEN_LOOKS: Final = 100_000  # of SQLite's machine, some tens of milliseconds

OnProgress = Callable[[int, int], None]
"""Gets the bytes that are written and about how many there will be."""


def back_up(source: str, target: Path, on_progress: OnProgress, *, replace: bool) -> int:
    """Write a whole, checked and durable copy of the database to `target`; returns its bytes.

    Readers and writers go on meanwhile. The copy stands under another name until it is whole, so a
    run that is killed leaves no `target`. Raises `Conflict` if `target` exists and `replace` is
    false, `Unavailable` if one of the two files cannot be used.
    """
    if target.exists() and not replace:
        raise Conflict(f"{target} exists already; name another file, or give --force")
    with partial_file(target) as part:
        try:
            write_copy(source, part, on_progress)
            check_copy(part)
        except apsw.Error as error:
            raise unavailable(error, source) from error
        try:
            return publish(part, target, replace=replace)
        except OSError as error:
            raise Unavailable(f"{target} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def partial_file(target: Path) -> Generator[Path]:
    """An empty file beside the target that its owner alone can read, gone after the block."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
    except OSError as error:
        raise Unavailable(f"{target} cannot be written: {error.strerror}") from error
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def write_copy(source: str, part: Path, on_progress: OnProgress) -> None:
    db = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_handler(LockWait())
        transaction = Transaction(db)
        pages = transaction.value("PRAGMA page_count") - transaction.value("PRAGMA freelist_count")
        total = pages * transaction.value("PRAGMA page_size")

        def look() -> bool:
            on_progress(part.stat().st_size, total)
            return False

        db.set_progress_handler(look, STEPS_BETWEEN_LOOKS)
        transaction.run("VACUUM INTO ?", (str(part),))
        on_progress(total, total)
    finally:
        db.close()


def check_copy(part: Path) -> None:
    """Read every page of the copy, as a restore would."""
    db = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = Transaction(db).value("PRAGMA integrity_check(1)")
    finally:
        db.close()
    if found != "ok":
        raise Unavailable(f"the copy is damaged, and was not kept: {found}")


def publish(part: Path, target: Path, *, replace: bool) -> int:
    """Make the copy durable, and then visible under its name, as one step."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    if replace:
        part.replace(target)
    else:
        try:
            os.link(part, target)
        except FileExistsError:
            raise Conflict(f"{target} was made meanwhile; name another file") from None
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size
