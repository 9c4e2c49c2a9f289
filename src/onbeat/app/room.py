"""New work is refused while the disk under the store is nearly full.

What is left is for what makes room and what brings running work to its end.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from onbeat.app.composition import SQLITE
from onbeat.model.errors import Unavailable
from onbeat.operations.operator import room_for_all
from onbeat.ports.store import Store
from onbeat.telemetry.lines import Log

LOOK_SECONDS: Final = 1.0

log = Log("onbeat.api")


def room_of(store: Store, percent_min: int) -> Callable[[], Awaitable[None]]:
    """The check for an SQLite store; the disks of others are not seen from here."""
    if not store.url.startswith(SQLITE):
        return room_for_all
    from onbeat.stores.sqlite.store import SqliteStore  # noqa: PLC0415  its driver is heavy

    assert isinstance(store, SqliteStore), "its URL says so"
    return Room(store.free_percent, percent_min).check


class Room:
    """Looks at most once a second; `seconds` counts them."""

    def __init__(
        self,
        free_percent: Callable[[], Awaitable[float]],
        percent_min: int,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.free_percent = free_percent
        self.percent_min = percent_min
        self.seconds = seconds
        self.look_at = seconds()
        self.short: str | None = None

    async def check(self) -> None:
        """Raises `Unavailable`, with the remedy, while too little of the disk is free."""
        now = self.seconds()
        if now >= self.look_at:
            self.look_at = now + LOOK_SECONDS
            self.judge(await self.free_percent())
        if self.short is not None:
            raise Unavailable(self.short)

    def judge(self, free: float) -> None:
        was_short = self.short is not None
        self.short = self.told(free) if free < self.percent_min else None
        if self.short is not None and not was_short:
            log.warning("room.short", free=f"{free:.1f} %")
        elif was_short and self.short is None:
            log.info("room.back", free=f"{free:.1f} %")

    def told(self, free: float) -> str:
        return (
            f"only {free:.1f} % of the store's disk is free, and below {self.percent_min} % new "
            "work is refused; free some space or prune sooner (`prune.after`), and it goes on by "
            "itself, or lower `api.disk_free_min`"
        )
