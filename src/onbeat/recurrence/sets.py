"""Dates, unions and exclusions: recurrences composed of others."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Protocol

from onbeat.recurrence.budget import SEARCH_STEPS_MAX, Budget


class Core(Protocol):
    """The engine of a recurrence: integer microseconds since 1970 UTC, in and out.

    The caller counts the first step of a search; further steps are spent from the budget. Without a
    budget each search has a limit of its own.
    """

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        """The first occurrence after `instant`."""
        ...

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        """The last occurrence before `instant`."""
        ...


Search = Callable[[int, Budget | None], int | None]


class Dates:
    """Single instants."""

    __slots__ = ("instants",)

    def __init__(self, instants: list[int]) -> None:
        self.instants = sorted(set(instants))

    def after_us(self, instant: int, _budget: Budget | None = None, /) -> int | None:
        at = bisect_right(self.instants, instant)
        return self.instants[at] if at < len(self.instants) else None

    def before_us(self, instant: int, _budget: Budget | None = None, /) -> int | None:
        at = bisect_left(self.instants, instant)
        return self.instants[at - 1] if at else None


class Union:
    """Every occurrence of any member, once."""

    __slots__ = ("members",)

    def __init__(self, members: list[Core]) -> None:
        self.members = members

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        if budget is not None:
            budget.spend(len(self.members))
        candidates = [member.after_us(instant, budget) for member in self.members]
        return min((at for at in candidates if at is not None), default=None)

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        if budget is not None:
            budget.spend(len(self.members))
        candidates = [member.before_us(instant, budget) for member in self.members]
        return max((at for at in candidates if at is not None), default=None)


class Excluding:
    """The occurrences of one recurrence without those of another."""

    __slots__ = ("base", "excluded")

    def __init__(self, base: Core, excluded: Core) -> None:
        self.base = base
        self.excluded = excluded

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        return self.first_kept(self.base.after_us, instant, budget)

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        return self.first_kept(self.base.before_us, instant, budget)

    def first_kept(self, search: Search, instant: int, budget: Budget | None) -> int | None:
        at = search(instant, budget)
        if at is None or self.excluded.after_us(at - 1, budget) != at:
            return at
        # Returning None would end a schedule that may have occurrences left.
        budget = budget or Budget(SEARCH_STEPS_MAX)
        while at is not None and self.excluded.after_us(at - 1, budget) == at:
            budget.spend(2)
            at = search(at, budget)
        return at
