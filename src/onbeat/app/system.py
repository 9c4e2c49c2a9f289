"""This machine's clock, chance and processes: where time and randomness come in."""

import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path

from onbeat.model.ids import WorkerId
from onbeat.model.worker import Worker

LOW_BITS = (1 << 48) - 1
"""The last twelve digits of a UUID, in which only free bits stand."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)


class SystemChance:
    """UUIDv7 (RFC 9562, 5.7): 48 bits of milliseconds, then random bits, counted up.

    Seeded by the operating system once, and again in a forked child: asking it for every job would
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
        self.last = 0  # or parent and child would both count on from here

    def ids(self, count: int) -> Sequence[str]:
        """Rising within this process, also when the clock steps back.

        The 74 bits after the time are one random number for each millisecond, counted up: ids of
        one millisecond are neighbours, ids of different processes do not meet.
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
    """So many UUIDv7 with free bits from `first` on; all but the end of neighbours is the same."""
    low = first & LOW_BITS
    if low + count > LOW_BITS:
        return [uuid_text(number) for number in range(first, first + count)]
    same = uuid_start(first >> 48)
    return ["%s%012x" % (same, number) for number in range(low, low + count)]  # noqa: UP031  faster


@lru_cache(maxsize=1)
def uuid_start(high: int) -> str:
    """All but the last twelve digits; the same for all that are made within a millisecond."""
    return uuid_text(high << 48)[:-12]


def uuid_text(number: int) -> str:
    """The UUIDv7 whose 122 free bits are `number`."""
    low = number & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    high = (number >> 74 << 16) | 0x7000 | (number >> 62 & 0xFFF)
    text = f"{high << 64 | low:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class KernelLiveness:
    """Asks this machine's kernel about processes of this boot."""

    def is_gone(self, worker: Worker) -> bool:
        if not worker.boot or worker.host != socket.gethostname() or worker.boot != boot():
            return False
        return process_started(worker.pid) != worker.process_started


@cache
def boot() -> str:
    """Names this boot and this space of process numbers; empty where the system tells neither."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def process_started(pid: int) -> str:
    """When the process began, in the kernel's ticks; empty when there is none or it is a zombie."""
    try:
        # The name, in parentheses, may itself hold spaces; what follows the last one is regular.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def identity(id: str, now: datetime) -> Worker:
    """This process, in this life."""
    return Worker(
        id=WorkerId(id),
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=now,
        boot=boot(),
        process_started=process_started(os.getpid()),
    )
