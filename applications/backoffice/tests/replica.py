"""One distributor in a process of its own, whose clock is ahead of this machine's.

`replica.py DATABASE STORE SECONDS [PAGES]`. It prints a line for each page of subscriptions that it
reads. With PAGES it stops for ever behind so many of them, and prints a line then.
"""

import asyncio
import logging
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from backoffice import distributor
from backoffice.app import build
from backoffice.config import Config
from onbeat import Onbeat


class AheadClock:
    def __init__(self, seconds: float) -> None:
        self.ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return time.monotonic()


def tell_pages(pages: int | None) -> None:
    read, left = distributor.subscriptions, pages

    async def counted(database: Any, type: str, cycle: str, after: int) -> Any:
        nonlocal left
        if left == 0:
            tell("stopped")
            await asyncio.Event().wait()
        if left is not None:
            left -= 1
        tell(f"page of {cycle} behind {after}")
        return await read(database, type, cycle, after)

    setattr(distributor, "subscriptions", counted)  # noqa: B010


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(database: str, store: str, seconds: str, pages: str = "") -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    setattr(distributor, "PAGE", 100)  # noqa: B010
    tell_pages(int(pages) if pages else None)
    beat = Onbeat(store, clock=AheadClock(float(seconds)))
    build(Config(database=database), beat).beat.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
