"""Refuses new work while the store's disk is nearly full.

The remaining space is for pruning and for finishing running jobs.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from onbeat.app.stores import SQLITE
from onbeat.model.errors import Unavailable
from onbeat.operations.context import no_capacity_check
from onbeat.ports.store import Store
from onbeat.telemetry.structured_log import Log

LOOK_SECONDS: Final = 1.0

log = Log("onbeat.api")


def disk_guard_of(store: Store, percent_min: int) -> Callable[[], Awaitable[None]]:
    """The check for an SQLite store; the disks of other stores are not visible from here."""
    if not store.url.startswith(SQLITE):
        return no_capacity_check
    from onbeat.stores.sqlite.store import SqliteStore  # noqa: PLC0415  its driver is heavy

    assert isinstance(store, SqliteStore), "its URL says so"
    return DiskGuard(store.free_percent, percent_min).check


class DiskGuard:
    """Measures the disk at most once a second; `seconds` is its clock."""

    def __init__(
        self,
        free_percent: Callable[[], Awaitable[float]],
        percent_min: int,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.free_percent = free_percent
        self.percent_min = percent_min
        self.seconds = seconds
        self.checked_at = seconds()
        self.shortage: str | None = None

    async def check(self) -> None:
        """Raises `Unavailable`, with the remedy, while too little disk space is free."""
        now = self.seconds()
        if now >= self.checked_at:
            self.checked_at = now + LOOK_SECONDS
            self.update(await self.free_percent())
        if self.shortage is not None:
            raise Unavailable(self.shortage)

    def update(self, free: float) -> None:
        was_short = self.shortage is not None
        self.shortage = self.message(free) if free < self.percent_min else None
        if self.shortage is not None and not was_short:
            log.warning("disk.low", free=f"{free:.1f} %")
        elif was_short and self.shortage is None:
            log.info("disk.recovered", free=f"{free:.1f} %")

    def message(self, free: float) -> str:
        return (
            f"only {free:.1f} % of the store's disk is free, and below {self.percent_min} % new "
            "work is refused, and accepted again automatically above that; free some space, prune "
            "sooner (`prune.after`), or lower `api.disk_free_min`"
        )
