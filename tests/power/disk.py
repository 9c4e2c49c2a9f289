"""A disk that forgets, at a power cut, what was not flushed."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

SECTOR: Final = 512  # bytes that a disk writes whole or not at all
FAILING: Final = 0.15  # of the flushes, on a disk that fails
REMAINS: Final = ("nothing", "prefix", "some", "torn")
"""What is left of the writes since a file was flushed: none; the first of them, in their order; any
of them, as a disk with a cache of its own leaves; the first of them and a part of the next."""

LOGS: Final = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


@dataclass(frozen=True)
class Write:
    """`data` at `offset` of a file; None shortens the file to that length."""

    file: str
    offset: int
    data: bytes | None

    def torn(self, chance: random.Random) -> "Write":
        if self.data is None:
            return self
        sectors = len(self.data) // SECTOR
        return Write(self.file, self.offset, self.data[: SECTOR * chance.randint(0, sectors)])


@dataclass(frozen=True)
class Deletion:
    file: str

    def torn(self, chance: random.Random) -> "Deletion":
        return self


Change = Write | Deletion


@dataclass
class Platter:
    """Every file as it was last flushed, and the changes since, in their order."""

    kept: dict[str, bytearray] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)

    def flush(self, file: str) -> None:
        for change in self.pending:
            if change.file == file:
                apply(change, self.kept)
        self.pending = [change for change in self.pending if change.file != file]

    def flush_directory(self) -> None:
        """Files that were deleted stay so."""
        for change in self.pending:
            if isinstance(change, Deletion):
                self.kept.pop(change.file, None)
        self.pending = [change for change in self.pending if isinstance(change, Write)]

    def delete(self, file: str) -> None:
        self.pending = [change for change in self.pending if change.file != file]
        self.pending.append(Deletion(file))

    def after_cut(self, remains: str, chance: random.Random) -> dict[str, bytearray]:
        result = {file: bytearray(content) for file, content in self.kept.items()}
        for change in survivors(self.pending, remains, chance):
            apply(change, result)
        return result


def survivors(pending: list[Change], remains: str, chance: random.Random) -> list[Change]:
    count = chance.randint(0, len(pending))
    match remains:
        case "nothing":
            return []
        case "prefix":
            return pending[:count]
        case "some":
            return [change for change in pending if chance.random() < 0.5]
        case _:
            return pending[:count] + [change.torn(chance) for change in pending[count : count + 1]]


def apply(change: Change, files: dict[str, bytearray]) -> None:
    if isinstance(change, Deletion):
        files.pop(change.file, None)
        return
    content = files.setdefault(change.file, bytearray())
    if change.data is None:
        del content[change.offset :]
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


class Disk(apsw.VFS):
    """The default file system of SQLite in this process until it is unregistered.

    Files are real ones, so that all connections see each other's writes; what a power cut would
    leave is kept beside them. Nothing is flushed for real: at a cut only that record counts.
    """

    def __init__(self) -> None:
        super().__init__("power", "unix", makedefault=True)
        self.lock = threading.Lock()  # a cut hits all files at one moment
        self.platter = Platter()
        self.steps = 0
        self.cut_at: int | None = None
        self.failing: random.Random | None = None
        self.failures = 0
        self.on_cut: Callable[[], None] = lambda: None

    def insert(self, folder: Path) -> None:
        """All that is flushed are the files of this folder."""
        with self.lock:
            files = [*folder.glob("*.db"), *folder.glob("*.db-wal")]
            self.platter = Platter({str(file): bytearray(file.read_bytes()) for file in files})
            self.steps = 0

    def cut_after(self, steps: int, on_cut: Callable[[], None]) -> None:
        """Call `on_cut`, in the thread that writes, in place of the step of this number from now."""
        with self.lock:
            self.cut_at = self.steps + steps
            self.on_cut = on_cut

    def fail_flush(self, file: str) -> bool:
        """Whether this one fails. As on Linux, what was to be flushed then counts as flushed: some
        of it is gone although programs still read it, and a later flush that succeeds brings none
        of it back."""
        if self.failing is None or self.failing.random() >= FAILING:
            return False
        self.failures += 1
        dropped = {id(c) for c in self.platter.pending if self.failing.random() < 0.5}
        self.platter.pending = [
            change
            for change in self.platter.pending
            if change.file != file or id(change) not in dropped
        ]
        return True

    def step(self) -> None:
        """Before each write, flush or truncation; the caller holds the lock."""
        self.steps += 1
        if self.steps == self.cut_at:
            self.on_cut()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: Any) -> Any:  # noqa: N802  SQLite's name
        place = name.filename() if isinstance(name, apsw.URIFilename) else name
        if place is None:
            return apsw.VFSFile("unix", name, flags)
        # As SQLite's own file system does: the first flush of a new log or journal is one of the
        # directory too, so that its name is there, and names that were deleted are not.
        is_new = bool(flags[0] & LOGS) and not Path(place).exists()
        return RecordedFile(name, flags, place, self, flushes_directory=is_new)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802  SQLite's names
        with self.lock:
            self.step()
            self.platter.delete(name)
            if syncdir:
                self.platter.flush_directory()
        super().xDelete(name, syncdir)


class RecordedFile(apsw.VFSFile):
    def __init__(
        self,
        name: str | apsw.URIFilename,
        flags: Any,
        place: str,
        disk: Disk,
        *,
        flushes_directory: bool,
    ) -> None:
        super().__init__("unix", name, flags)
        self.place = place
        self.disk = disk
        self.flushes_directory = flushes_directory

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  SQLite's name
        self.note(offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  SQLite's name
        self.note(newsize, None)
        super().xTruncate(newsize)

    def note(self, offset: int, data: bytes | None) -> None:
        with self.disk.lock:
            self.disk.step()
            self.disk.platter.pending.append(Write(self.place, offset, data))

    def xSync(self, flags: int) -> None:  # noqa: N802  SQLite's name
        with self.disk.lock:
            self.disk.step()
            if self.disk.fail_flush(self.place):
                raise apsw.IOError(f"cannot flush {self.place}")
            self.disk.platter.flush(self.place)
            if self.flushes_directory:
                self.disk.platter.flush_directory()
                self.flushes_directory = False
