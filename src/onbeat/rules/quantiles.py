"""Quantiles of histograms. No estimate exceeds the greatest value that is known."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from onbeat.model.pulse import (
    LATE_BOUNDS,
    LATE_FROM,
    LATENESS_BOUNDS,
    ROUGH_LATENESS_BOUNDS,
    Counts,
    Totals,
)


class ValueRange(NamedTuple):
    """How many values lie above `low` and up to `high`."""

    low: float
    high: float
    number: float


ROUGH_PLACES: Final = tuple(
    bisect_left(ROUGH_LATENESS_BOUNDS, high) for high in (*LATENESS_BOUNDS, math.inf)
)
"""By place in `LATENESS_BOUNDS`, the bucket of the rough ones that it is a part of."""
LATE_PLACE: Final = LATENESS_BOUNDS.index(LATE_FROM) + 1


def rough(counts: Sequence[int]) -> list[int]:
    """Counts by `LATENESS_BOUNDS` as those by the rough ones."""
    sums = [0] * (len(ROUGH_LATENESS_BOUNDS) + 1)
    for place, count in zip(ROUGH_PLACES, counts, strict=True):
        sums[place] += count
    return sums


def buckets_of(bounds: Sequence[float], counts: Iterable[float]) -> Iterator[ValueRange]:
    """The counts with their bounds; from the last bound on there is none."""
    edges = pairwise((0.0, *bounds, math.inf))
    return (ValueRange(low, high, count) for (low, high), count in zip(edges, counts, strict=False))


def lateness_buckets(totals: Totals) -> Iterator[ValueRange]:
    """As fine as they were counted, from the lowest on."""
    late = [0] * (len(LATE_BOUNDS) + 1)
    late[: len(totals.late)] = totals.late
    fine = list(pairwise((LATE_FROM, *LATE_BOUNDS, math.inf)))
    for one in buckets_of(ROUGH_LATENESS_BOUNDS, totals.lateness):
        parts = [
            ValueRange(low, high, count)
            for (low, high), count in zip(fine, late, strict=True)
            if one.low <= low and high <= one.high
        ]
        yield from divided(one, parts) if parts else (one,)


def divided(whole: ValueRange, parts: Sequence[ValueRange]) -> Iterator[ValueRange]:
    """Values that were not counted in parts are spread evenly, or said to be at the lower bound."""
    rest = whole.number - sum(part.number for part in parts)
    width = whole.high - whole.low
    if math.isinf(width):
        yield ValueRange(whole.low, whole.low, rest)
        yield from parts
        return
    for low, high, count in parts:
        yield ValueRange(low, high, count + rest * (high - low) / width)


def quantile(
    buckets: Iterable[ValueRange], share: float, most: float | None = None
) -> float | None:
    """The value below which `share` of the values lie, interpolated in its bucket.

    `share` is above 0, and at most 1; `most` is the greatest value, where it is known. None
    without values. In a bucket without an upper bound it is the lower one: the true value is at
    least that.
    """
    filled = [bucket for bucket in buckets if bucket.number > 0]
    left = share * sum(bucket.number for bucket in filled)
    for bucket in filled:
        if left <= bucket.number or bucket is filled[-1]:
            return within(bucket, min(1.0, left / bucket.number), most)
        left -= bucket.number
    return None


def within(bucket: ValueRange, share: float, most: float | None) -> float:
    """The value that lies this share into the bucket, whose values are `most` at most."""
    high = bucket.high if most is None else min(bucket.high, most)
    if math.isinf(high) or high < bucket.low:
        return bucket.low
    return bucket.low + (high - bucket.low) * share


def latest_of(parts: Sequence[Totals]) -> float | None:
    """The greatest lateness of all; None where one whose own is not known may be above it."""
    known = max((one.latest for one in parts if one.latest is not None), default=None)
    unknown = max((bound_of(one.lateness) for one in parts if one.latest is None), default=0.0)
    return known if known is not None and known >= unknown else None


def bound_of(lateness: Counts) -> float:
    """What the values are at most, by the rough bounds."""
    bounds = (0.0, *ROUGH_LATENESS_BOUNDS, math.inf)
    return bounds[len(lateness)]
