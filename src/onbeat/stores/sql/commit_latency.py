"""How long a server takes to make a write durable."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from onbeat.ports.store import Finding

COMMIT_SECONDS_MAX: Final = 0.05
PROBES: Final = 5


async def commit_time(write: Callable[[], Awaitable[None]]) -> Finding:
    """Measure one small write with its commit and round trip; the best of a few counts."""
    seconds = min([await time_write(write) for _ in range(PROBES)])
    ok = seconds <= COMMIT_SECONDS_MAX
    return Finding(
        name="commit",
        ok=ok,
        value=f"{seconds * 1_000:.2f} ms",
        remedy=None if ok else "the server's disk or network is slow; every write waits",
    )


async def time_write(write: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await write()
    return time.perf_counter() - started
