"""Limits on the search effort of a request or of a schedule's plan: in steps, not in time.

A step is one search of one rule, or a further round of it, and takes about 2 µs. No clock is read,
so the same rule is refused everywhere or nowhere.
"""

from typing import Final

from onbeat.model.errors import TooCostly

SEARCH_STEPS_MAX: Final = 200_000
"""Steps of a search without a budget: a day of SECONDLY, excluded by one EXRULE."""

COMPILE_STEPS_MAX: Final = 100_000
"""Steps of compiling a rule; counting up to COUNT takes most of them."""

FIRST_STEPS_MAX: Final = 20_000
"""Steps of finding the first occurrence, about 40 ms: refuses a rule that never fires."""


class Budget:
    """Remaining steps. Steps spent by a budget `within` another are spent by the other too.

    Only the search itself changes `left`; `cancel` is thread-safe.
    """

    __slots__ = ("cancelled", "left", "steps", "within")

    def __init__(self, steps: int, within: "Budget | None" = None) -> None:
        self.steps = steps
        self.left = steps
        self.within = within
        self.cancelled = False

    def spend(self, steps: int = 1) -> None:
        """Raises `TooCostly` when too few steps are left, or after `cancel`."""
        self.left -= steps
        if self.left < 0 or self.cancelled:
            raise TooCostly(self.steps)
        if self.within is not None:
            self.within.spend(steps)

    def cancel(self) -> None:
        """End the search at its next step, as its caller no longer waits."""
        self.cancelled = True
