"""This machine's clock, randomness and processes."""

import asyncio
import contextlib
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path

from onbeat.model.ids import WorkerId
from onbeat.model.worker import WorkerRecord

LOW_BITS = (1 << 48) - 1
"""The last twelve digits of a UUID, which contain only free bits."""
WATCHED_MAX = 16
"""Processes that one process watches; each costs it a file descriptor."""


# Leases run out while a machine is suspended, and Linux's CLOCK_MONOTONIC, unlike that of other
# systems, stands still then.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)
monotonic: Callable[[], float] = (
    time.monotonic if _BOOT_CLOCK is None else partial(time.clock_gettime, _BOOT_CLOCK)
)
"""Seconds from some instant on. No clock setting changes them, and they pass in a suspend, too."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(monotonic)


class SystemRandomness:
    """UUIDv7 (RFC 9562, 5.7): 48 bits of milliseconds, then random bits used as a counter.

    Seeded by the operating system once, and again in a forked child: a system call per job would
    cost more than the rest of the job.
    """

    def __init__(self) -> None:
        self.last = 0
        self.lock = threading.Lock()
        self.random = random.Random(secrets.randbits(256))  # noqa: S311  guards no secret
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reseed)

    def reseed(self) -> None:
        self.random.seed(secrets.randbits(256))
        self.last = 0  # otherwise parent and child would count from the same number

    def ids(self, count: int) -> Sequence[str]:
        """Increasing within this process, even when the clock steps back.

        The 74 bits after the time are one random number per millisecond, counted up: ids of one
        millisecond are adjacent, ids of different processes do not collide.
        """
        with self.lock:
            milliseconds = time.time_ns() // 1_000_000
            if milliseconds > self.last >> 74:
                self.last = milliseconds << 74 | self.random.getrandbits(73)
            first = self.last + 1
            self.last += count
        return uuid_texts(first, count)

    def fraction(self) -> float:
        return self.random.random()


def uuid_texts(first: int, count: int) -> list[str]:
    """`count` UUIDv7 with free bits from `first` on; formats their common prefix only once."""
    low = first & LOW_BITS
    if low + count > LOW_BITS:
        return [uuid_text(number) for number in range(first, first + count)]
    same = uuid_start(first >> 48)
    return ["%s%012x" % (same, number) for number in range(low, low + count)]  # noqa: UP031  faster


@lru_cache(maxsize=1)
def uuid_start(high: int) -> str:
    """All but the last twelve digits; the same for all ids of one millisecond."""
    return uuid_text(high << 48)[:-12]


def uuid_text(number: int) -> str:
    """The UUIDv7 whose 122 free bits are `number`."""
    low = number & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    high = (number >> 74 << 16) | 0x7000 | (number >> 62 & 0xFFF)
    text = f"{high << 64 | low:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class KernelLiveness:
    """Checks processes of this boot with this machine's kernel.

    The kernel tells of the end of a process by a file descriptor of it (Linux). Each process
    watches those that follow it in the order of their numbers: one is enough to find any death as
    long as some process is left, and more of them serve where few processes watch.
    """

    def __init__(self) -> None:
        self.watched: dict[int, int] = {}  # the descriptors, by process id
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def tells(self) -> bool:
        return hasattr(os, "pidfd_open")

    def is_gone(self, worker: WorkerRecord) -> bool:
        return is_here(worker) and process_started(worker.pid) != worker.process_started

    def watch(self, workers: Iterable[WorkerRecord], on_end: Callable[[], None]) -> None:
        here = {worker.pid: worker for worker in workers if is_here(worker)}
        wanted = followers(here, os.getpid())
        for pid in self.watched.keys() - set(wanted):
            self.forget(pid)
        if wanted:
            self.loop = asyncio.get_running_loop()
        for pid in wanted:
            if pid not in self.watched:
                self.follow(here[pid], on_end)

    def follow(self, worker: WorkerRecord, on_end: Callable[[], None]) -> None:
        fd = open_process(worker.pid)
        if fd is None or self.loop is None:
            return

        def end() -> None:
            self.forget(worker.pid)
            on_end()

        self.watched[worker.pid] = fd
        self.loop.add_reader(fd, end)

    def forget(self, pid: int) -> None:
        fd = self.watched.pop(pid)
        if self.loop is not None and not self.loop.is_closed():
            self.loop.remove_reader(fd)
        os.close(fd)


def is_here(worker: WorkerRecord) -> bool:
    """Whether the worker's process is of this machine, this boot and these process numbers."""
    return bool(worker.boot) and worker.host == socket.gethostname() and worker.boot == boot()


def followers(pids: Iterable[int], me: int) -> list[int]:
    """The processes to watch: those after `me` in a ring, without it."""
    ring = sorted(pid for pid in pids if pid != me)
    after = [pid for pid in ring if pid > me]
    return [*after, *ring[: len(ring) - len(after)]][:WATCHED_MAX]


def open_process(pid: int) -> int | None:
    """A descriptor that becomes readable at the end of the process; None where there is none."""
    if not hasattr(os, "pidfd_open"):
        return None
    with contextlib.suppress(OSError):  # it has ended, an old kernel, or no descriptor is left
        return os.pidfd_open(pid)
    return None


@cache
def boot() -> str:
    """Identifies this boot and PID namespace; empty where the system shows neither."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def process_started(pid: int) -> str:
    """The start time of a process, in kernel ticks; empty if it is gone or a zombie."""
    fields = process_fields(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def is_process_running(pid: int) -> bool:
    """Whether the process exists and is neither ended nor stopped."""
    fields = process_fields(pid)
    return bool(fields) and fields[0] not in "ZXTt"


def is_kernel_known() -> bool:
    """Whether this system exposes the state of processes."""
    return bool(process_fields(os.getpid()))


def process_fields(pid: int) -> Sequence[str]:
    """The fields from its state on; empty without such a process or without /proc."""
    try:
        # The name, in parentheses, may contain spaces; the fields after the last one are regular.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()


def resident_bytes() -> int | None:
    """The memory that this process holds now; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def identity(id: str, now: datetime, release: str | None = None) -> WorkerRecord:
    """The worker record of this process."""
    return WorkerRecord(
        id=WorkerId(id),
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=now,
        release=release,
        boot=boot(),
        process_started=process_started(os.getpid()),
    )
