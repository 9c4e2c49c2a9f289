"""Identities and randomness, as they come in from outside."""

from collections.abc import Sequence
from typing import Protocol


class Chance(Protocol):
    def ids(self, count: int) -> Sequence[str]:
        """Fresh UUIDv7 in text form, rising within this process."""
        ...

    def fraction(self) -> float:
        """From 0 to below 1, uniformly."""
        ...
