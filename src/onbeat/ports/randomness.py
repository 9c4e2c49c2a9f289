"""The port of ids and randomness."""

from collections.abc import Sequence
from typing import Protocol


class Randomness(Protocol):
    def ids(self, count: int) -> Sequence[str]:
        """New UUIDv7 in text form, increasing within this process."""
        ...

    def fraction(self) -> float:
        """A uniform random number from 0 to below 1."""
        ...
