"""What live workers know, as it was read a short time ago."""

from datetime import datetime, timedelta

import msgspec


class SeenWorkers(msgspec.Struct):
    """What the live workers of the store knew, when they were read last in this process."""

    read_at: datetime | None = None
    lanes: frozenset[str] = frozenset()
    alive: bool = False
    failed_at: datetime | None = None

    def is_fresh(self, now: datetime, span: timedelta) -> bool:
        return is_within(span, self.read_at, now)

    def has_failed(self, now: datetime, span: timedelta) -> bool:
        """Whether they could not be read a short time ago."""
        return is_within(span, self.failed_at, now)


def is_within(span: timedelta, at: datetime | None, now: datetime) -> bool:
    # A clock that was set back must not keep an old answer alive.
    return at is not None and timedelta() <= now - at < span
