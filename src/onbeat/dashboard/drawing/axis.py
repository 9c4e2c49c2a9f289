"""A time axis: instants to places in percent, and its ticks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

TICKS_MAX: Final = 8
STEPS: Final = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 10, 15, 30, 60, 180, 360, 720, 1_440)
)
DAY: Final = timedelta(days=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Tick:
    """A time at `x` percent. Every second one is left out where the window is narrow."""

    x: float
    text: str
    is_minor: bool


@dataclass(frozen=True)
class TimeAxis:
    """The instants from `first` to `last` from left to right: never wall time, which may repeat."""

    first: datetime
    last: datetime
    zone: ZoneInfo

    def x(self, at: datetime) -> float:
        """The place of an instant in percent of the width, at most two digits after the point."""
        return round(100 * ((at - self.first) / (self.last - self.first)), 2)

    def ticks(self) -> Sequence[Tick]:
        """Round times of the zone's clock, at most eight."""
        span = self.last - self.first
        step = next((one for one in STEPS if span / one < TICKS_MAX + 1), span / TICKS_MAX)
        return [
            Tick(self.x(at), self.text(at, step), number % 2 == 1)
            for number, at in enumerate(self.rounds(step))
        ]

    def rounds(self, step: timedelta) -> Sequence[datetime]:
        """The instants within the axis at which the zone's clock shows a multiple of `step`.

        Each is found on the wall of the zone, so that it is round on both sides of a clock change.
        """
        wall = self.first.astimezone(self.zone).replace(tzinfo=None)
        start = wall - (wall - EPOCH.replace(tzinfo=None)) % step
        count = (self.last - self.first) // step + 3
        walls = (start + number * step for number in range(count))
        instants = (wall.replace(tzinfo=self.zone).astimezone(UTC) for wall in walls)
        return [at for at in instants if self.first < at < self.last]

    def text(self, at: datetime, step: timedelta) -> str:
        there = at.astimezone(self.zone)
        return f"{there:%a} {there.day}" if step >= DAY else f"{there:%H:%M}"
