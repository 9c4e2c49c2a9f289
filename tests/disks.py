"""A small disk, for real: a file system in memory."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MIB = 1 << 20
DISK_MIB = 24


@contextmanager
def small_disk(place: Path, mib: int = DISK_MIB) -> Iterator[Path]:
    """One of so many MiB, mounted at this place, until the block ends."""
    place.mkdir()
    root = () if os.geteuid() == 0 else ("sudo", "-n")
    mount = ("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0777", "tmpfs", str(place))
    subprocess.run([*root, *mount], check=True)
    try:
        yield place
    finally:
        subprocess.run([*root, "umount", "--lazy", str(place)], check=True)


def taken(disk: Path, *, left: int) -> Path:
    """A file of somebody else's that leaves so many bytes, in the place of the one before."""
    other = disk / "somebody-elses"
    other.unlink(missing_ok=True)
    with other.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - left)
    return other


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Somebody else takes all that is free, and all that is given back, until the block ends."""
    other, is_over = disk / "somebody-elses", threading.Event()

    def take() -> None:
        with other.open("ab", buffering=0) as file:
            while not is_over.wait(0.005):
                with suppress(OSError):
                    while file.write(bytes(4096)):
                        pass

    taken(disk, left=MIB)
    taker = threading.Thread(target=take)
    taker.start()
    try:
        yield
    finally:
        is_over.set()
        taker.join()
        other.unlink()
