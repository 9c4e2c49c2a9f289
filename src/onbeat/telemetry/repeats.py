"""Rate limits repeated log lines: the first at once, then one per minute with a count."""

import time
from collections.abc import Callable
from typing import Final

REPEAT_SECONDS: Final = 60.0

# Names such as schedule ids may be many; at this bound all counts start again.
NAMES_MAX: Final = 1_000


class Repeats:
    """Counts events by name between two log lines about them."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, RepeatCount] = {}

    def times_to_log(self, name: str) -> int:
        """How often it has happened since the last line; 0 while it is too early for another."""
        now = self._monotonic()
        if len(self._seen) >= NAMES_MAX:
            self._seen.clear()
        repeat = self._seen.setdefault(name, RepeatCount())
        repeat.times += 1
        if repeat.logged_at is not None and now - repeat.logged_at < REPEAT_SECONDS:
            return 0
        times, repeat.times, repeat.logged_at = repeat.times, 0, now
        return times

    def forget(self, name: str) -> bool:
        """End the event; returns whether it had happened."""
        return self._seen.pop(name, None) is not None


class RepeatCount:
    """An event: the time of its last line, and how often it happened since."""

    __slots__ = ("logged_at", "times")

    def __init__(self) -> None:
        self.logged_at: float | None = None
        self.times = 0
