"""The disk space of a store, and a reserve so that pruning still works on a full disk.

On a full disk SQLite can neither delete rows nor checkpoint its WAL. The ballast is a filler file:
when the disk is full it is truncated to a few bytes, and the space goes to operations that free
space or finish running work. All other writes are refused until there is space again. The truncated
file signals this to every process on the same store, and holds its former size.

The WAL is checkpointed before it is longer than the ballast: its pages then fit into the database
file, even if other programs take the rest of the disk.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Generator
from enum import Enum, auto
from pathlib import Path
from typing import Final

import msgspec

from onbeat.stores.sqlite.transaction import Transaction

BALLAST_BYTES_MAX: Final = 64 << 20
"""The size to which the WAL is truncated: the largest batch of deletions fits into it."""

BALLAST_BYTES_MIN: Final = 1 << 20
"""A smaller file would not hold one batch of results."""

LOG_BYTES_MAX: Final = 16 << 20
"""With fewer checkpoints, a page that changes often is written fewer times."""

SHARE_OF_FREE: Final = 4
"""The ballast takes at most one part in this many of the free bytes."""

LOOK_SECONDS: Final = 1.0


class Space(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The space that a store uses and may still use, in bytes.

    `free` is the free space of the disk, `empty` the free pages in the file, which pruning leaves
    since the file does not shrink. `owed` is how much the file will grow by pages that are still in
    the WAL. `whole` is the used and free space, as `df` counts it: some file systems reserve a part
    for root. `file` and `log` are the current sizes of the database and its WAL.
    """

    free: int
    empty: int
    owed: int
    whole: int
    file: int
    log: int

    @property
    def room(self) -> int:
        """The space for new data."""
        return max(0, self.free + self.empty - self.owed)


class Hold(Enum):
    """Which operations have to wait for space."""

    NOTHING = auto()
    ADDITIONS = auto()
    ALL_BUT_SPARED = auto()


class Ballast:
    """As large as the store with its WAL: freeing space writes no more than that.

    Errors of the disk are ignored here: the store also works without a ballast.
    """

    def __init__(self, path: str) -> None:
        self._store = Path(path)
        self._path = Path(f"{path}-ballast")
        self._name = str(self._path)  # checked before each transaction, where a Path is slow
        self._looked_at: float | None = None
        self._hold = Hold.NOTHING

    def keep(self) -> None:
        """Create it, or let it grow with the store. Does nothing while it is truncated."""
        have = self._size()
        if have is None or have >= BALLAST_BYTES_MIN:
            with contextlib.suppress(OSError):
                self._grow(have or 0, min(self._target_size(), self._free() // SHARE_OF_FREE))

    def drop(self) -> bool:
        """Free its space. False if there is no ballast, or it is truncated already."""
        have = self._size()
        if have is None or have < BALLAST_BYTES_MIN:
            return False
        with contextlib.suppress(OSError), self._open_file() as file:
            os.ftruncate(file, 0)
            os.write(file, str(have).encode())
        return True

    def log_bytes_max(self, log: int) -> int:
        """The maximum length of the WAL, given its current one; grows the ballast if possible."""
        have = self._size()
        if have is None or have < BALLAST_BYTES_MIN:
            with contextlib.suppress(OSError):
                return min(LOG_BYTES_MAX, self._free() // SHARE_OF_FREE)
            return LOG_BYTES_MAX
        if have <= log < LOG_BYTES_MAX:
            self.keep()
            have = self._size() or have
        return min(LOG_BYTES_MAX, have)

    def hold(self, space: Callable[[], Space]) -> Hold:
        """Which operations wait while it is truncated, until twice its size is free."""
        have = self._size()
        if have is None or have >= BALLAST_BYTES_MIN:
            return Hold.NOTHING
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._hold = self._decide_hold(space())
        return self._hold

    def file_bytes_max(self, space: Space, hold: Hold) -> int | None:
        """How large the file may become, so that the WAL still fits; None for no bound."""
        if hold is Hold.ALL_BUT_SPARED:
            return None
        if hold is Hold.ADDITIONS:
            return space.file + space.free - self._dropped_size()
        return space.file + space.free - max(0, self.log_bytes_max(0) - space.log)

    def _decide_hold(self, space: Space) -> Hold:
        dropped = self._dropped_size()
        if space.room < dropped + BALLAST_BYTES_MIN:
            return Hold.ALL_BUT_SPARED
        if space.room < 2 * dropped + min(LOG_BYTES_MAX, dropped):
            return Hold.ADDITIONS
        with contextlib.suppress(OSError):
            # Without the file no operation waits, even if a new one cannot be created.
            self._path.unlink(missing_ok=True)
            self._grow(0, min(dropped, space.free // 2))
        return Hold.NOTHING

    def _grow(self, have: int, size: int) -> None:
        if size < BALLAST_BYTES_MIN or size <= have:
            return
        with self._open_file() as file:
            try:
                allocate(file, have, size)
            except OSError:
                os.ftruncate(file, have)
                if have == 0:
                    self._path.unlink()

    def _target_size(self) -> int:
        """At least twice the WAL, so that it seldom has to grow."""
        log = size_of(f"{self._store}-wal")
        size = max(self._store.stat().st_size + log, 2 * log)
        return min(BALLAST_BYTES_MAX, max(BALLAST_BYTES_MIN, size))

    def _free(self) -> int:
        return shutil.disk_usage(self._store.parent).free

    def _size(self) -> int | None:
        """None if the file does not exist or is not accessible."""
        try:
            return os.stat(self._name).st_size  # noqa: PTH116  see `_name`
        except OSError:
            return None

    def _dropped_size(self) -> int:
        with contextlib.suppress(OSError):
            text = self._path.read_text("ascii", "replace")
            if text.isdecimal():
                return int(text)
        return BALLAST_BYTES_MIN

    @contextlib.contextmanager
    def _open_file(self) -> Generator[int, None, None]:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def allocate(file: int, have: int, size: int) -> None:
    """Extend the file to this size, with its space allocated on the disk. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    os.lseek(file, have, os.SEEK_SET)
    for _ in range(have, size, BALLAST_BYTES_MIN):
        os.write(file, bytes(BALLAST_BYTES_MIN))


def space(transaction: Transaction, path: str) -> Space:
    usage = shutil.disk_usage(Path(path).resolve().parent)
    page: int = transaction.value("PRAGMA page_size")
    file = size_of(path)
    return Space(
        free=usage.free,
        empty=page * transaction.value("PRAGMA freelist_count"),
        owed=max(0, page * transaction.value("PRAGMA page_count") - file),
        whole=usage.used + usage.free,
        file=file,
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
