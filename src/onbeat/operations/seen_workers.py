"""What live workers know, as it was read a short time ago."""

from datetime import datetime, timedelta

import msgspec


class SeenWorkers(msgspec.Struct):
    """What the live workers of the store knew, when they were read last in this process."""

    read_at: datetime | None = None
    lanes: frozenset[str] = frozenset()
    alive: bool = False

    def is_fresh(self, now: datetime, span: timedelta) -> bool:
        # A clock that was set back must not keep an old answer alive.
        return self.read_at is not None and timedelta() <= now - self.read_at < span
