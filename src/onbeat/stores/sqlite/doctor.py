"""Health checks of the database and its disk."""

import os
import shutil
import time
from pathlib import Path

import apsw

from onbeat.model.limits import DISK_FREE_PERCENT_MIN
from onbeat.ports.store import Finding
from onbeat.stores.sql.doctor import finding_of
from onbeat.stores.sqlite.ballast import free_percent
from onbeat.stores.sqlite.transaction import Transaction

SQLITE_MIN = (3, 51, 3)
FREE_BYTES_MIN = 1_073_741_824
FSYNC_SECONDS_MAX = 0.02
REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs"}
)


async def doctor(transaction: Transaction, path: str, synchronous: str) -> list[Finding]:
    return [
        version(),
        journal_mode(transaction),
        finding_of(
            "synchronous",
            synchronous,
            "accepted jobs can be lost at a power failure; use FULL",
            ok=synchronous in ("FULL", "EXTRA"),
        ),
        integrity(transaction),
        file_system(path),
        free_space(transaction, path),
        fsync_time(path),
    ]


async def ping(transaction: Transaction) -> None:
    """A write with its commit: only that shows that the disk accepts one."""
    transaction.run(
        """
        INSERT INTO onbeat_pings (id, count) VALUES (1, 1)
        ON CONFLICT DO UPDATE SET count = count + 1
        """
    )


def version() -> Finding:
    result = apsw.sqlite_lib_version()
    ok = tuple(map(int, result.split("."))) >= SQLITE_MIN
    remedy = "it can corrupt a file under load; upgrade the `apsw` package"
    return finding_of("sqlite version", result, remedy, ok=ok)


def journal_mode(transaction: Transaction) -> Finding:
    mode = transaction.value("PRAGMA journal_mode")
    remedy = "another program changed it; stop that and restart"
    return finding_of("journal mode", mode, remedy, ok=mode == "wal")


def integrity(transaction: Transaction) -> Finding:
    """`quick_check` reads the whole file."""
    first = str(transaction.value("PRAGMA quick_check(1)"))
    remedy = "stop, keep a copy, and restore a backup"
    return finding_of("integrity", first, remedy, ok=first == "ok")


def file_system(path: str) -> Finding:
    kind = kind_of_file_system(path)
    remedy = "a write-ahead log needs a local file system; move the database"
    return finding_of("file system", kind, remedy, ok=kind not in REMOTE)


def kind_of_file_system(path: str) -> str:
    """From the system's mount table; the longest mount point above the file counts."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    folder = str(Path(path).resolve().parent) + "/"
    result = ("", "unknown")
    for line in mounts.read_text("utf-8", "replace").splitlines():
        _, point, kind, *_ = line.split(" ")
        if folder.startswith(point.rstrip("/") + "/") and len(point) >= len(result[0]):
            result = (point, kind)
    return result[1]


def free_space(transaction: Transaction, path: str) -> Finding:
    free = shutil.disk_usage(Path(path).resolve().parent).free
    percent = free_percent(transaction, path)
    return Finding(
        name="free space",
        ok=free >= FREE_BYTES_MIN and percent >= DISK_FREE_PERCENT_MIN,
        value=f"{free / 1_048_576:,.0f} MiB, {percent:.1f} %",
        remedy=remedy_of_space(free, percent),
    )


def remedy_of_space(free: int, percent: float) -> str | None:
    if percent < DISK_FREE_PERCENT_MIN:
        return f"free some space: below {DISK_FREE_PERCENT_MIN} % the API takes no new work"
    return "free some space: a full disk stops every write" if free < FREE_BYTES_MIN else None


def fsync_time(path: str) -> Finding:
    """The time of one page's fsync in a file beside the database; the best of a few."""
    probe = Path(path).resolve().with_name(f"{Path(path).name}-probe-{os.getpid()}")
    try:
        seconds = best_fsync(probe)
    except OSError as error:
        remedy = "make room, and let this user write to the folder of the database"
        return finding_of("fsync", f"failed: {error.strerror}", remedy, ok=False)
    value, remedy = f"{seconds * 1_000:.2f} ms", "the disk is slow; every commit waits for it"
    return finding_of("fsync", value, remedy, ok=seconds <= FSYNC_SECONDS_MAX)


def best_fsync(probe: Path) -> float:
    descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return min(time_fsync(descriptor) for _ in range(5))
    finally:
        os.close(descriptor)
        probe.unlink()


def time_fsync(descriptor: int) -> float:
    started = time.perf_counter()
    os.pwrite(descriptor, b"\0" * 4_096, 0)
    os.fsync(descriptor)
    return time.perf_counter() - started
