"""Health checks of a store."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from onbeat.ports.store import Finding

COMMIT_SECONDS_MAX: Final = 0.05
PROBES: Final = 5
CLOCK_REMEDY: Final = (
    "jobs go by the server's clock, ids and logs by this machine's; synchronise them"
)


def finding_of(name: str, value: object, remedy: str, *, ok: bool) -> Finding:
    """The remedy is for the case that the value is not ok."""
    return Finding(name=name, ok=ok, value=str(value), remedy=None if ok else remedy)


async def clock_offset(read: Callable[[], Awaitable[float]]) -> float:
    """The difference of a clock from ours at the middle of the round trip, in seconds."""
    sent_at = time.time()
    theirs = await read()
    return theirs - (sent_at + time.time()) / 2


async def commit_time(write: Callable[[], Awaitable[None]]) -> Finding:
    """Measure one small write with its commit and round trip; the best of a few counts."""
    seconds = min([await time_write(write) for _ in range(PROBES)])
    return finding_of(
        "commit",
        f"{seconds * 1_000:.2f} ms",
        "the server's disk or network is slow; every write waits",
        ok=seconds <= COMMIT_SECONDS_MAX,
    )


async def time_write(write: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await write()
    return time.perf_counter() - started
