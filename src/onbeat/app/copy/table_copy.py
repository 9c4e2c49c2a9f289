"""Copies rows of one kind into another store, in batches ordered by key.

Both stores are compared before each write. So a second run writes only changes since the first, and
rows that the target did not take are known.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from operator import eq
from typing import Final, Generic, TypeVar

import msgspec

from onbeat.model.ids import JobId, ScheduleId

BATCH: Final = 1_000  # rows that are in memory at a time and share a transaction
BATCH_BYTES: Final = 4 << 20  # of one batch, roughly: the message limit of common servers
BATCH_FIRST: Final = 100  # rows, while their size is unknown
NAMED_MAX: Final = 10  # ids named as examples

Row = TypeVar("Row")
Place = TypeVar("Place")
Key = TypeVar("Key", ScheduleId, JobId, tuple[ScheduleId, datetime])


class Kind(StrEnum):
    """The kinds of copied rows, in this order."""

    QUEUES = "queues"
    SCHEDULES = "schedules"
    DISPOSITIONS = "dispositions"
    JOBS = "jobs"
    LOG_LINES = "log lines"
    EVENTS = "events"
    EVENT_KEYS = "event keys"
    EVENT_WAITS = "event waits"
    HELD_KEYS = "held keys"
    REQUESTS = "idempotency keys"
    LETTERS = "dead letters"


OnProgress = Callable[[Kind, int], None]
"""Called with the number of further rows of a kind that are done."""


class Tally(msgspec.Struct, frozen=True):
    """How many rows were read in the source, were changed in the target, and still differ there.

    `named` are ids of some rows that differ.
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


def tally_of_left(ids: Sequence[str]) -> Tally:
    """The tally of rows that differ, by their ids."""
    return Tally(left=len(ids), named=tuple(dict.fromkeys(ids))[:NAMED_MAX])


class Pages(msgspec.Struct, Generic[Row, Place], frozen=True, kw_only=True):
    """How to read rows of one kind in the source, in the order of their keys."""

    kind: Kind
    export: Callable[[Place | None, int], Awaitable[Sequence[Row]]]
    key_of: Callable[[Row], Place]

    async def batches(self) -> AsyncGenerator[Sequence[Row]]:
        after: Place | None = None
        limit = BATCH_FIRST
        while rows := await self.export(after, limit):
            yield rows
            after, limit = self.key_of(rows[-1]), batch_size(rows)

    async def count(self, progress: OnProgress) -> int:
        count = 0
        async for rows in self.batches():
            count += len(rows)
            progress(self.kind, len(rows))
        return count

    async def bring(
        self, restore: Callable[[Sequence[Row]], Awaitable[int]], progress: OnProgress
    ) -> Tally:
        """Give each batch to the target, which leaves what it has already."""
        tally = Tally()
        async for rows in self.batches():
            tally = tally.plus(Tally(len(rows), await restore(rows)))
            progress(self.kind, len(rows))
        return tally


class TableCopy(Pages[Row, Key], Generic[Row, Key], frozen=True, kw_only=True):
    """The same, with how to read the rows that the target has, and which of them are the same."""

    read_target: Callable[[Key | None, int], Awaitable[Sequence[Row]]]
    is_same: Callable[[Row, Row], bool] = eq

    async def run(
        self,
        bring: Callable[[Sequence[Row], Key | None], Awaitable[Tally]],
        progress: OnProgress,
        after: Key | None = None,
    ) -> Tally:
        """Call `bring` with each batch and the key before it.

        The next batch is read meanwhile.
        """
        tally = Tally()
        rows = await self.export(after, BATCH_FIRST)
        while rows:
            last = self.key_of(rows[-1])
            ahead = asyncio.ensure_future(self.export(last, batch_size(rows)))
            try:
                tally = tally.plus(await bring(rows, after))
                progress(self.kind, len(rows))
                after, rows = last, await ahead
            finally:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)
        return tally

    async def find_outdated(self, rows: Sequence[Row], after: Key | None) -> list[Row]:
        """The rows of a batch that differ in the target."""
        result = await self.read_keys(self.read_target, {self.key_of(row) for row in rows}, after)
        pairs = [(row, result.get(self.key_of(row))) for row in rows]
        return [row for row, here in pairs if here is None or not self.is_same(row, here)]

    async def only_in_target(self, matters: Callable[[Row], bool]) -> AsyncGenerator[set[Key]]:
        """Keys of relevant rows that only the target has."""
        after: Key | None = None
        rows = await self.read_target(after, BATCH_FIRST)
        while rows:
            keys = {self.key_of(row) for row in rows if matters(row)}
            yield keys - (await self.read_keys(self.export, keys, after)).keys()
            after = self.key_of(rows[-1])
            rows = await self.read_target(after, batch_size(rows))

    async def read_keys(
        self,
        read: Callable[[Key | None, int], Awaitable[Sequence[Row]]],
        keys: set[Key],
        after: Key | None,
    ) -> dict[Key, Row]:
        """The rows with these keys; every key comes after `after`."""
        result: dict[Key, Row] = {}
        last = max(keys, default=None)
        limit = max(len(keys), BATCH_FIRST)
        while last is not None and (rows := await read(after, limit)):
            result |= {self.key_of(row): row for row in rows if self.key_of(row) in keys}
            after = self.key_of(rows[-1])
            if after >= last:
                break
        return result


def batch_size(rows: Sequence[object]) -> int:
    """The number of rows of this size in a batch."""
    size = len(msgspec.msgpack.encode(rows))
    return min(BATCH, max(1, BATCH_BYTES * len(rows) // size))
