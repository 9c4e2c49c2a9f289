"""Any function of time as a recurrence."""

from collections.abc import Callable
from datetime import datetime

from onbeat.recurrence.instants import from_us, to_us

STEPS_BACK = tuple(seconds * 1_000_000 for seconds in (60, 3600, 86_400, 86_400 * 32, 86_400 * 400))
"""How far before an instant a search for the one before it starts; then ever larger steps."""

WALK_MAX = 10_000
"""Calls made to walk up to an instant from before it."""

NextFunction = Callable[[datetime], datetime | None]


class FunctionCore:
    __slots__ = ("fn",)

    def __init__(self, fn: NextFunction) -> None:
        self.fn = fn

    def after_us(self, instant: int) -> int | None:
        """Raises ValueError when the function goes back in time, which would never end."""
        answer = self.fn(from_us(instant))
        if answer is None:
            return None
        found = to_us(answer)
        if found <= instant:
            raise ValueError(
                f"{name_of(self.fn)} gave {answer.isoformat()} for the occurrence after"
                f" {from_us(instant).isoformat()}; it has to be later"
            )
        return found

    def before_us(self, instant: int) -> int | None:
        for step in STEPS_BACK:
            found = self.last_from(instant - step, instant)
            if found is not None:
                return found
        return None

    def last_from(self, begin: int, end: int) -> int | None:
        last, found = None, self.after_us(begin)
        for _ in range(WALK_MAX):
            if found is None or found >= end:
                return last
            last, found = found, self.after_us(found)
        return last


def name_of(fn: NextFunction) -> str:
    module, name = getattr(fn, "__module__", ""), getattr(fn, "__qualname__", type(fn).__name__)
    return f"{module}:{name}"
