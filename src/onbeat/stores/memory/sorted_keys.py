"""A sorted set of keys with fast changes at any position."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

BUCKET_MAX = 512


class Comparable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Comparable)


class SortedKeys(Generic[Key]):
    """Keys in order, in buckets, so that a change moves at most one bucket's length.

    It must not change while one of its iterators is in use.
    """

    def __init__(self) -> None:
        self.buckets: list[list[Key]] = []
        self.lasts: list[Key] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def first(self) -> Key | None:
        return self.buckets[0][0] if self.buckets else None

    def add(self, key: Key) -> None:
        """Add a key; does nothing if it exists."""
        if not self.buckets:
            self.buckets.append([key])
            self.lasts.append(key)
            self.count = 1
            return
        place = min(bisect_left(self.lasts, key), len(self.buckets) - 1)
        bucket = self.buckets[place]
        index = bisect_left(bucket, key)
        if index < len(bucket) and bucket[index] == key:
            return
        bucket.insert(index, key)
        self.lasts[place] = bucket[-1]
        self.count += 1
        if len(bucket) > BUCKET_MAX:
            self.split(place)

    def split(self, place: int) -> None:
        bucket = self.buckets[place]
        half = len(bucket) // 2
        self.buckets[place : place + 1] = [bucket[:half], bucket[half:]]
        self.lasts.insert(place, bucket[half - 1])

    def discard(self, key: Key) -> None:
        """Remove a key; does nothing if it is missing."""
        place = bisect_left(self.lasts, key)
        if place == len(self.buckets):
            return
        bucket = self.buckets[place]
        index = bisect_left(bucket, key)
        if bucket[index] != key:
            return
        del bucket[index]
        self.count -= 1
        if bucket:
            self.lasts[place] = bucket[-1]
        else:
            del self.buckets[place]
            del self.lasts[place]

    def __iter__(self) -> Iterator[Key]:
        for bucket in self.buckets:
            yield from bucket

    def after(self, key: Key) -> Iterator[Key]:
        """Keys greater than `key`, in order."""
        place = bisect_right(self.lasts, key)
        for number, bucket in enumerate(self.buckets[place:]):
            start = bisect_right(bucket, key) if number == 0 else 0
            yield from bucket[start:]

    def before(self, key: Key) -> Iterator[Key]:
        """Keys smaller than `key`, the greatest first."""
        place = bisect_left(self.lasts, key)
        if place < len(self.buckets):
            bucket = self.buckets[place]
            yield from reversed(bucket[: bisect_left(bucket, key)])
        for bucket in reversed(self.buckets[:place]):
            yield from reversed(bucket)

    def __reversed__(self) -> Iterator[Key]:
        for bucket in reversed(self.buckets):
            yield from reversed(bucket)
