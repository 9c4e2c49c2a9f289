"""A rule given as a plain list of instants: what planning is held against."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from onbeat.model.plan import Dropped, Skip
from onbeat.testing.build import NOW, an_id

Changed = TypeVar("Changed", Skip, Dropped)


class Listed:
    """Implements what planning asks of a recurrence, by looking into a sorted list."""

    def __init__(self, instants: Sequence[datetime]) -> None:
        self.instants = sorted(set(instants))

    def after(self, instant: datetime) -> datetime | None:
        place = bisect_right(self.instants, instant)
        return self.instants[place] if place < len(self.instants) else None

    def before(self, instant: datetime) -> datetime | None:
        place = bisect_left(self.instants, instant)
        return self.instants[place - 1] if place else None


def reading(*instants: datetime) -> Callable[..., Any]:
    listed = Listed(instants)
    return lambda _spec: listed


def ids(count: int) -> list[str]:
    return [an_id() for _ in range(count)]


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def untold(made: Sequence[Changed]) -> tuple[Changed, ...]:
    """The skips or drops of a plan without their events."""
    return tuple(replace(one, event=None) for one in made)
