"""Chance that comes from a seed."""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Chance:
    """Draws that are the same whenever they are made again from the same `seed`.

    `fraction()` is from 0 to below 1.
    """

    def __init__(self, seed: str) -> None:
        self.generator = Random(seed)  # noqa: S311  repeatable on purpose
        self.fraction: Callable[[], float] = self.generator.random

    def bits(self, count: int) -> int:
        return self.generator.getrandbits(count)

    def below(self, count: int) -> int:
        """One of 0 to `count` - 1."""
        return int(self.fraction() * count)

    def one_of(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def happens(self, rate: float) -> bool:
        return self.fraction() < rate

    def around_zero(self) -> float:
        """From -1 to below 1."""
        return self.fraction() * 2 - 1

    def spread(self, low: float, high: float) -> float:
        """Between both, each magnitude as likely as the next."""
        return low * math.pow(high / low, self.fraction())
