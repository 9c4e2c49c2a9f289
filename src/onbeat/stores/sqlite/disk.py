"""Disk space of a store."""

import shutil
from pathlib import Path

import msgspec

from onbeat.stores.sqlite.transaction import Transaction


class Space(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The space that a store uses and may still use, in bytes.

    `free` is the free space of the disk, `empty` the free pages in the file, which pruning leaves
    since the file does not shrink. `whole` is the used and free space, as `df` counts it: some file
    systems reserve a part for root. `file` and `log` are the current sizes of the database and its
    WAL.
    """

    free: int
    empty: int
    whole: int
    file: int
    log: int

    @property
    def room(self) -> int:
        """The space for new data."""
        return self.free + self.empty


def space(transaction: Transaction, path: str) -> Space:
    usage = shutil.disk_usage(Path(path).resolve().parent)
    pages = transaction.value("PRAGMA freelist_count")
    empty: int = pages * transaction.value("PRAGMA page_size")
    return Space(
        free=usage.free,
        empty=empty,
        whole=usage.used + usage.free,
        file=size_of(path),
        log=size_of(f"{path}-wal"),
    )


def free_percent(transaction: Transaction, path: str) -> float:
    """A file system that reports no size counts as empty."""
    result = space(transaction, path)
    return 100 * result.room / result.whole if result.whole else 100.0


def size_of(path: str) -> int:
    """0 if the file does not exist or is not accessible."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
