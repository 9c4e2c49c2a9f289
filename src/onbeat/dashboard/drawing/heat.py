"""The heat map of planned fires: a row a day, a cell an hour of the clock of the page's zone."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from onbeat.wire.forecasts import HourAnswer

HOURS: Final = range(24)
STEPS: Final = 5
ROUND: Final = (1, 2, 5)


class HeatCell(msgspec.Struct, frozen=True, kw_only=True):
    """One hour of the clock: its instants, none in a gap and two in a fold, with their fires.

    `is_known` is False outside of what was asked for.
    """

    hour: int
    parts: tuple[tuple[datetime, int], ...] = ()
    is_known: bool = True

    @property
    def is_gap(self) -> bool:
        return self.is_known and not self.parts


class HeatRow(msgspec.Struct, frozen=True, kw_only=True):
    """A day; `last` is its last hour's instant."""

    day: date
    cells: tuple[HeatCell, ...]
    fires: int
    last: datetime


def bounds(most: int) -> tuple[int, ...]:
    """The least number of each step: round numbers, the last one not above `most`."""
    found = [factor * 10**power for power in range(len(str(max(most, 1)))) for factor in ROUND]
    below = [bound for bound in found if bound <= max(most, 1)]
    return tuple(below[-STEPS:])


def level(fires: int, steps: Sequence[int]) -> int:
    """0 for none, else the step from 1 on; fewer than the first bound are of the first step."""
    if not fires:
        return 0
    return max(1, sum(fires >= bound for bound in steps))


def rows(hours: Iterable[HourAnswer], zone: ZoneInfo) -> list[HeatRow]:
    """The days that the hours lie on. Hours are those of UTC, as a forecast has them."""
    found: dict[date, dict[int, list[tuple[datetime, int]]]] = defaultdict(dict)
    for one in hours:
        wall = one.at.astimezone(zone)
        found[wall.date()].setdefault(wall.hour, []).append((one.at, one.fires))
    if not found:
        return []
    first = min(at for day in found.values() for parts in day.values() for at, _ in parts)
    last = max(at for day in found.values() for parts in day.values() for at, _ in parts)
    return [
        HeatRow(
            day=day,
            cells=tuple(cell(day, hour, of_day, zone, first, last) for hour in HOURS),
            fires=sum(fires for parts in of_day.values() for _, fires in parts),
            last=max(at for parts in of_day.values() for at, _ in parts),
        )
        for day, of_day in sorted(found.items())
    ]


def cell(
    day: date,
    hour: int,
    found: dict[int, list[tuple[datetime, int]]],
    zone: ZoneInfo,
    first: datetime,
    last: datetime,
) -> HeatCell:
    parts = tuple(found.get(hour, ()))
    at = datetime(day.year, day.month, day.day, hour, tzinfo=zone)
    is_inside = first <= at.astimezone(first.tzinfo) <= last + timedelta(minutes=59)
    return HeatCell(hour=hour, parts=parts, is_known=bool(parts) or is_inside)
