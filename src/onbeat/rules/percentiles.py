"""Percentiles of durations, in memory that does not grow with their number."""

from bisect import bisect_left
from itertools import accumulate
from typing import Final

import msgspec

STEPS: Final = 128
"""Buckets per power of two, so that a percentile is at most 1/128 above the true one."""

MICROSECOND: Final = 1_000_000


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds; None where nothing was measured."""

    count: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Durations:
    """A histogram of durations with logarithmic buckets, as HdrHistogram has them.

    Whole microseconds below `STEPS` have a bucket each; above, each power of two has `STEPS`. So a
    day of microseconds takes at most 3,840 buckets, and a record costs the same at any size.
    """

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.count = 0
        self.longest = 0

    def record(self, seconds: float) -> None:
        """Count one duration; a negative one, which two clocks can give, counts as none."""
        value = max(0, round(seconds * MICROSECOND))
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.count += 1
        self.longest = max(self.longest, value)

    def at(self, share: float) -> float | None:
        """The seconds that at least this share of the durations took at most.

        `share` is above 0, and at most 1. By the nearest rank; the upper end of the bucket, but
        never above the longest duration. None without durations.
        """
        if not self.count:
            return None
        buckets = sorted(self.counts)
        sums = list(accumulate(self.counts[bucket] for bucket in buckets))
        place = bisect_left(sums, share * self.count)
        return min(last_of(buckets[place]), self.longest) / MICROSECOND

    def percentiles(self) -> Percentiles:
        return Percentiles(self.count, self.at(0.5), self.at(0.95), self.at(0.99), self.at(1.0))


def bucket_of(value: int) -> int:
    """The bucket of a number of microseconds."""
    power = max(0, value.bit_length() - STEPS.bit_length())
    return power * STEPS + (value >> power)


def last_of(bucket: int) -> int:
    """The largest number of microseconds in the bucket."""
    power = max(0, bucket // STEPS - 1)
    return ((bucket - power * STEPS + 1) << power) - 1
