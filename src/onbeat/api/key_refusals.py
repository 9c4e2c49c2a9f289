"""Requests with a wrong key: counted, logged with a limit, and rate limited per address."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from onbeat.model.errors import RateLimited
from onbeat.telemetry.structured_log import Log

lines = Log("onbeat.api")

WINDOW_SECONDS: Final = 60
REFUSED_MAX: Final = 20  # per address and window: more than a person's typing errors
PEERS_MAX: Final = 1_000
LOG_SECONDS: Final = 1.0


class CountWindow(msgspec.Struct):
    began: float
    count: int = 0


class Refusals:
    """Counts wrong keys per address; it never refuses a valid key.

    Behind a proxy all clients share one address, and none must be able to lock out the others.
    """

    def __init__(self, seconds: Callable[[], float], count: Callable[[], None]) -> None:
        self.seconds = seconds
        self.count = count
        self.windows: OrderedDict[str, CountWindow] = OrderedDict()
        self.logged_at: float | None = None
        self.unlogged = 0

    def note(self, peer: str) -> None:
        """Count a refused request. Raises `RateLimited` where its address had too many."""
        self.count()
        now = self.seconds()
        window = self.window_of(peer, now)
        window.count += 1
        self.log(peer, window.count, now)
        if window.count > REFUSED_MAX:
            left = max(1, round(window.began + WINDOW_SECONDS - now))
            raise RateLimited(f"Too many requests with a wrong key; wait {left} s", left)

    def window_of(self, peer: str, now: float) -> CountWindow:
        window = self.windows.pop(peer, None)
        if window is None or now - window.began >= WINDOW_SECONDS:
            window = CountWindow(now)
        self.windows[peer] = window
        if len(self.windows) > PEERS_MAX:
            self.windows.popitem(last=False)
        return window

    def log(self, peer: str, count: int, now: float) -> None:
        """Log at most one line per second over all addresses, with the number of omitted lines."""
        if self.logged_at is not None and now - self.logged_at < LOG_SECONDS:
            self.unlogged += 1
            return
        lines.warning("key.refused", peer=peer, count=count, unlogged=self.unlogged)
        self.logged_at, self.unlogged = now, 0
