"""Many things in parts of bounded number and weight."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def parted(
    items: Sequence[Item], weigh: Callable[[Item], int], count_max: int, weight_max: int
) -> Iterator[Sequence[Item]]:
    """All of them in order, none twice; one that weighs more than `weight_max` has its own part."""
    start, weight = 0, 0
    for end, item in enumerate(items):
        weight += weigh(item)
        if end - start == count_max or (weight > weight_max and end > start):
            yield items[start:end]
            start, weight = end, weigh(item)
    if start < len(items):
        yield items[start:]
