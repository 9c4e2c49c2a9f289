"""A disk that forgets, at a power cut, what was not flushed."""

import random
import threading
from pathlib import Path
from typing import Any

import apsw


class Disk(apsw.VFS):
    """Keeps, beside each real file, what a power cut would leave of it."""

    def __init__(self) -> None:
        super().__init__("power", "unix", makedefault=True)
        self.files: dict[str, Platter] = {}
        self.lock = threading.Lock()  # a cut hits all files at one moment

    def xOpen(self, name: str | apsw.URIFilename | None, flags: Any) -> Any:  # noqa: N802  SQLite's name
        place = name.filename() if isinstance(name, apsw.URIFilename) else name
        if place is None:
            return apsw.VFSFile("unix", name, flags)
        return RecordedFile(name, flags, self.files.setdefault(place, Platter()), self)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802  SQLite's names
        with self.lock:
            self.files.pop(name, None)
        super().xDelete(name, syncdir)

    def cut(self, path: str, folder: Path, chance: random.Random) -> None:
        """Put into the folder what is left of the database at `path` and its log.

        Writes that were not flushed may each have arrived or not.
        """
        with self.lock:
            left = {
                place: file.after_cut(chance)
                for place, file in self.files.items()
                if place.startswith(path)
            }
        for place, content in left.items():
            (folder / Path(place).name).write_bytes(content)


class Platter:
    def __init__(self) -> None:
        self.kept = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []

    def flush(self) -> None:
        self.kept = self.applied(self.kept, self.pending)
        self.pending = []

    def after_cut(self, chance: random.Random) -> bytes:
        some = [change for change in self.pending if chance.random() < 0.5]
        return bytes(self.applied(bytearray(self.kept), some))

    @staticmethod
    def applied(content: bytearray, changes: list[tuple[int, bytes | None]]) -> bytearray:
        for offset, data in changes:
            if data is None:
                del content[offset:]
                continue
            content.extend(b"\0" * (offset - len(content)))
            content[offset : offset + len(data)] = data
        return content


class RecordedFile(apsw.VFSFile):
    def __init__(
        self, name: str | apsw.URIFilename, flags: Any, platter: Platter, disk: Disk
    ) -> None:
        super().__init__("unix", name, flags)
        self.platter = platter
        self.disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  SQLite's name
        with self.disk.lock:
            self.platter.pending.append((offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  SQLite's name
        with self.disk.lock:
            self.platter.pending.append((newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802  SQLite's name
        super().xSync(flags)
        with self.disk.lock:
            self.platter.flush()
