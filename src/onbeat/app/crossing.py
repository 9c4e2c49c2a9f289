"""Rows of one kind on their way into another store, a batch at a time in the order of their keys.

What the two stores have is compared before anything is written. So a second run writes only what
has changed since the first, and what the target did not take is known.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from operator import eq
from typing import Final, Generic, TypeVar

import msgspec

from onbeat.model.ids import JobId, ScheduleId

BATCH: Final = 1_000  # rows that are in memory at a time, and that share a transaction
BATCH_BYTES: Final = 4 << 20  # of one batch, roughly: what a server takes as one message
BATCH_FIRST: Final = 100  # rows, as long as their size is not known
NAMED_MAX: Final = 10  # examples of many

Row = TypeVar("Row")
Key = TypeVar("Key", ScheduleId, JobId, tuple[ScheduleId, datetime])


class Kind(StrEnum):
    """What is copied, in this order."""

    QUEUES = "queues"
    SCHEDULES = "schedules"
    DISPOSITIONS = "dispositions"
    JOBS = "jobs"
    LETTERS = "dead letters"


Told = Callable[[Kind, int], None]
"""Hears how many more of a kind are dealt with."""


class Tally(msgspec.Struct, frozen=True):
    """How many were read in the source, were changed in the target, and differ there still.

    `named` are ids of some of those that differ.
    """

    read: int = 0
    changed: int = 0
    left: int = 0
    named: tuple[str, ...] = ()

    def plus(self, other: "Tally") -> "Tally":
        return Tally(
            self.read + other.read,
            self.changed + other.changed,
            self.left + other.left,
            tuple(dict.fromkeys((*self.named, *other.named)))[:NAMED_MAX],
        )


def left(ids: Sequence[str]) -> Tally:
    """Of rows that differ, by their ids."""
    return Tally(left=len(ids), named=tuple(dict.fromkeys(ids))[:NAMED_MAX])


class Crossing(msgspec.Struct, Generic[Row, Key], frozen=True, kw_only=True):
    """How rows of one kind leave the source (`export`), and how the target has them (`here`)."""

    kind: Kind
    export: Callable[[Key | None, int], Awaitable[Sequence[Row]]]
    here: Callable[[Key | None, int], Awaitable[Sequence[Row]]]
    key_of: Callable[[Row], Key]
    is_same: Callable[[Row, Row], bool] = eq

    async def run(
        self,
        bring: Callable[[Sequence[Row], Key | None], Awaitable[Tally]],
        told: Told,
        after: Key | None = None,
    ) -> Tally:
        """Give each batch to `bring`, with the key that it follows.

        The next one is read meanwhile.
        """
        tally = Tally()
        rows = await self.export(after, BATCH_FIRST)
        while rows:
            last = self.key_of(rows[-1])
            ahead = asyncio.ensure_future(self.export(last, fitting(rows)))
            try:
                tally = tally.plus(await bring(rows, after))
                told(self.kind, len(rows))
                after, rows = last, await ahead
            finally:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)
        return tally

    async def behind(self, rows: Sequence[Row], after: Key | None) -> list[Row]:
        """Those of a batch that are not the same in the target."""
        found = await self.found(self.here, {self.key_of(row) for row in rows}, after)
        pairs = [(row, found.get(self.key_of(row))) for row in rows]
        return [row for row, here in pairs if here is None or not self.is_same(row, here)]

    async def strangers(self, matters: Callable[[Row], bool]) -> AsyncGenerator[set[Key]]:
        """Keys of rows that only the target has, of those that matter."""
        after: Key | None = None
        rows = await self.here(after, BATCH_FIRST)
        while rows:
            keys = {self.key_of(row) for row in rows if matters(row)}
            yield keys - (await self.found(self.export, keys, after)).keys()
            after = self.key_of(rows[-1])
            rows = await self.here(after, fitting(rows))

    async def found(
        self,
        read: Callable[[Key | None, int], Awaitable[Sequence[Row]]],
        keys: set[Key],
        after: Key | None,
    ) -> dict[Key, Row]:
        """Rows with these keys, all of which come after the one that is named."""
        found: dict[Key, Row] = {}
        last = max(keys, default=None)
        limit = max(len(keys), BATCH_FIRST)
        while last is not None and (rows := await read(after, limit)):
            found |= {self.key_of(row): row for row in rows if self.key_of(row) in keys}
            after = self.key_of(rows[-1])
            if after >= last:
                break
        return found


def fitting(rows: Sequence[object]) -> int:
    """How many rows like these make a batch."""
    size = len(msgspec.msgpack.encode(rows))
    return min(BATCH, max(1, BATCH_BYTES * len(rows) // size))
