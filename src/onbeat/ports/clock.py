"""Time, as it comes in from outside."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The present, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that is never set; only differences mean something."""
        ...
