"""Any function of time as a recurrence."""

from collections.abc import Callable
from datetime import datetime

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.instants import from_us, to_us

STEPS_BACK = tuple(seconds * 1_000_000 for seconds in (60, 3600, 86_400, 86_400 * 32, 86_400 * 400))
"""How far before an instant a backward search starts; then in ever larger steps."""

WALK_MAX = 10_000
"""Calls made to walk up to an instant from before it."""

NextFunction = Callable[[datetime], datetime | None]


class FunctionCore:
    __slots__ = ("fn",)

    def __init__(self, fn: NextFunction) -> None:
        self.fn = fn

    def after_us(self, instant: int, _budget: Budget | None = None, /) -> int | None:
        """Raises ValueError if the function goes back in time, which would never end."""
        answer = self.fn(from_us(instant))
        if answer is None:
            return None
        candidate = to_us(answer)
        if candidate <= instant:
            raise ValueError(
                f"{name_of(self.fn)} gave {answer.isoformat()} for the occurrence after"
                f" {from_us(instant).isoformat()}; it has to be later"
            )
        return candidate

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        for step in STEPS_BACK:
            candidate = self.last_from(instant - step, instant, budget)
            if candidate is not None:
                return candidate
        return None

    def last_from(self, begin: int, end: int, budget: Budget | None) -> int | None:
        last, candidate = None, self.after_us(begin)
        for _ in range(WALK_MAX):
            if candidate is None or candidate >= end:
                return last
            if budget is not None:
                budget.spend()
            last, candidate = candidate, self.after_us(candidate)
        return last


def name_of(fn: NextFunction) -> str:
    module, name = getattr(fn, "__module__", ""), getattr(fn, "__qualname__", type(fn).__name__)
    return f"{module}:{name}"
