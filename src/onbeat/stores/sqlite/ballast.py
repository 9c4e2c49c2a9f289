"""Space held back beside a store, so that a full disk can be got out of.

On a full disk SQLite can neither delete nor copy its log back. The ballast is a file of nothing:
when the disk is full it is cut down to a few bytes, and the space goes to what makes room or brings
running work to its end. All else is refused until there is space again. The cut file is the sign
that says so to every process on the same store, and holds the size that it had.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

BALLAST_BYTES_MAX: Final = 64 << 20
"""As much as the log is ever cut back to: the largest batch of deletions fits into it."""

BALLAST_BYTES_MIN: Final = 1 << 20
"""What is smaller would not hold one batch of results."""

SHARE_OF_FREE: Final = 4
"""The ballast takes at most one in so many of the bytes that are free."""

LOOK_SECONDS: Final = 1.0


class Ballast:
    """As large as the store with its log, since more than that is not written to get room.

    A disk that refuses even this is no reason to stop: what fails here is done without.
    """

    def __init__(self, path: str) -> None:
        self._store = Path(path)
        self._log = Path(f"{path}-wal")
        self._path = Path(f"{path}-ballast")
        self._looked_at: float | None = None

    def keep(self) -> None:
        """Make it, or let it grow with the store; nothing while it is cut down."""
        have = self._size()
        if have is None or have >= BALLAST_BYTES_MIN:
            with contextlib.suppress(OSError):
                self._grow(have or 0)

    def drop(self) -> bool:
        """Give its space back. False where there is none, or it was done before."""
        have = self._size()
        if have is None or have < BALLAST_BYTES_MIN:
            return False
        with contextlib.suppress(OSError), self._opened() as file:
            os.ftruncate(file, 0)
            os.write(file, str(have).encode())
        return True

    def holds_back(self) -> bool:
        """Whether it is cut down, and there is no space yet for it and as much again."""
        have = self._size()
        if have is None or have >= BALLAST_BYTES_MIN:
            return False
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_SECONDS:
            return True
        self._looked_at = now
        with contextlib.suppress(OSError):
            if self._free() < 2 * self._dropped_size():
                return True
            # Gone, it holds back nothing any more, whether or not a new one can be had.
            self._path.unlink(missing_ok=True)
            self._grow(0)
        return False

    def _grow(self, have: int) -> None:
        size = min(self._wanted(), self._free() // SHARE_OF_FREE)
        if size < BALLAST_BYTES_MIN or size <= have:
            return
        with self._opened() as file:
            try:
                allocate(file, have, size)
            except OSError:
                os.ftruncate(file, have)
                if have == 0:
                    self._path.unlink()

    def _wanted(self) -> int:
        size = self._store.stat().st_size
        with contextlib.suppress(FileNotFoundError):
            size += self._log.stat().st_size
        return min(BALLAST_BYTES_MAX, max(BALLAST_BYTES_MIN, size))

    def _free(self) -> int:
        return shutil.disk_usage(self._store.parent).free

    def _size(self) -> int | None:
        """None where there is no such file, or none that can be seen."""
        try:
            return self._path.stat().st_size
        except OSError:
            return None

    def _dropped_size(self) -> int:
        text = self._path.read_text("ascii", "replace")
        return int(text) if text.isdecimal() else BALLAST_BYTES_MIN

    @contextlib.contextmanager
    def _opened(self) -> Generator[int, None, None]:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def allocate(file: int, have: int, size: int) -> None:
    """Let the file be so large, with its space taken on the disk. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    os.lseek(file, have, os.SEEK_SET)
    for _ in range(have, size, BALLAST_BYTES_MIN):
        os.write(file, bytes(BALLAST_BYTES_MIN))
