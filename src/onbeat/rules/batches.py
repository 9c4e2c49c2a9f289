"""Splits items into batches of limited count and weight."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def split_by_weight(
    items: Sequence[Item], weigh: Callable[[Item], int], count_max: int, weight_max: int
) -> Iterator[Sequence[Item]]:
    """All items in order, each once. An item heavier than `weight_max` is a batch of its own."""
    start, weight = 0, 0
    for end, item in enumerate(items):
        weight += weigh(item)
        if end - start == count_max or (weight > weight_max and end > start):
            yield items[start:end]
            start, weight = end, weigh(item)
    if start < len(items):
        yield items[start:]
