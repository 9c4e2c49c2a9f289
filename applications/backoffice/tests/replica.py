"""One distributor in a process of its own, whose clock is ahead of this machine's.

`replica.py DATABASE STORE SECONDS [PAGES]`. With PAGES it stops for ever behind so many pages of
subscriptions, and prints a line then.
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


def stop_behind(pages: int) -> None:
    read, left = distributor.subscriptions, pages

    async def counted(*args: Any) -> Any:
        nonlocal left
        if not left:
            sys.stdout.write("stopped\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        left -= 1
        return await read(*args)

    setattr(distributor, "subscriptions", counted)  # noqa: B010


def main(database: str, store: str, seconds: str, pages: str = "") -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    setattr(distributor, "PAGE", 100)  # noqa: B010
    if pages:
        stop_behind(int(pages))
    beat = Onbeat(store, clock=AheadClock(float(seconds)))
    build(Config(database=database), beat).beat.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
