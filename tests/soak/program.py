"""What a service that lives through a soak runs: jobs of each kind, and one that looks at itself.

With the variable `LEAKS` jobs keep something for ever, so that the judge can be tried.
"""

import asyncio
import os
import socket
import threading

from onbeat import Context, Onbeat, Retry, every
from soak.growth import vitals

SOON = Retry(attempts_max=2, delay="10ms")
LEAKS = "LEAKS" in os.environ

beat = Onbeat(os.environ["ONBEAT_STORE"])
kept: list[object] = []


@beat.task("look")
async def look() -> list[int]:
    return list(vitals())


@beat.task("wait", retry=SOON)
async def wait(context: Context, seconds: float) -> str:
    context.log.info("waits", extra={"seconds": seconds})
    await asyncio.sleep(seconds)
    if LEAKS:
        leak()
    return "x" * 1_000


@beat.task("think", retry=SOON)
def think(number: int) -> int:
    return sum(range(number))


@beat.task("fail", retry=SOON)
def fail(number: int) -> None:
    raise ValueError(f"number {number}")


@beat.schedule(every("1s"), key="tick")
async def tick() -> None:
    """Runs beside the rest."""


def leak() -> None:
    """One more of everything that a process can hold."""
    kept.append(bytearray(4 << 20))
    kept.append(socket.socket())
    kept.append(asyncio.create_task(asyncio.Event().wait()))
    threading.Thread(target=threading.Event().wait, daemon=True).start()
