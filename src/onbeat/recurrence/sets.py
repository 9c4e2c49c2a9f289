"""Dates, unions and exclusions: recurrences made of others."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Protocol

from onbeat.model.errors import BadRecurrence

EXCLUDED_IN_A_ROW_MAX = 100_000
"""Occurrences that one search sees excluded before it gives up: a day of SECONDLY, and more."""

EXCLUDED_AT_FIRST_MAX = 10_000
"""The same for the very first occurrence, so that a hostile rule is refused at once."""


class Core(Protocol):
    """The fast inside of every recurrence: integer microseconds since 1970 UTC, in and out."""

    def after_us(self, instant: int) -> int | None:
        """The first occurrence after `instant`."""
        ...

    def before_us(self, instant: int) -> int | None:
        """The last occurrence before `instant`."""
        ...


class Dates:
    """Single instants."""

    __slots__ = ("instants",)

    def __init__(self, instants: list[int]) -> None:
        self.instants = sorted(set(instants))

    def after_us(self, instant: int) -> int | None:
        at = bisect_right(self.instants, instant)
        return self.instants[at] if at < len(self.instants) else None

    def before_us(self, instant: int) -> int | None:
        at = bisect_left(self.instants, instant)
        return self.instants[at - 1] if at else None


class Union:
    """Every occurrence of any member, once."""

    __slots__ = ("members",)

    def __init__(self, members: list[Core]) -> None:
        self.members = members

    def after_us(self, instant: int) -> int | None:
        found = [member.after_us(instant) for member in self.members]
        return min((at for at in found if at is not None), default=None)

    def before_us(self, instant: int) -> int | None:
        found = [member.before_us(instant) for member in self.members]
        return max((at for at in found if at is not None), default=None)


class Excluding:
    """The occurrences of one recurrence that are none of another."""

    __slots__ = ("base", "excluded")

    def __init__(self, base: Core, excluded: Core) -> None:
        self.base = base
        self.excluded = excluded

    def after_us(self, instant: int) -> int | None:
        return self.first_kept(self.base.after_us, instant, EXCLUDED_IN_A_ROW_MAX)

    def before_us(self, instant: int) -> int | None:
        return self.first_kept(self.base.before_us, instant, EXCLUDED_IN_A_ROW_MAX)

    def first_kept(self, step: Callable[[int], int | None], instant: int, limit: int) -> int | None:
        at = step(instant)
        for _ in range(limit):
            if at is None or self.excluded.after_us(at - 1) != at:
                return at
            at = step(at)
        # Answering "none" would end a schedule that may have occurrences left.
        raise BadRecurrence(f"{limit:,} occurrences in a row are excluded")
