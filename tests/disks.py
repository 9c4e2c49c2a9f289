"""A small disk, for real: a file system in memory."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 1 << 20
DISK_MIB = 24


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """One of `DISK_MIB`, mounted at this place, until the block ends."""
    place.mkdir()
    root = () if os.geteuid() == 0 else ("sudo", "-n")
    mount = ("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0777", "tmpfs", str(place))
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
