"""Brings what other processes see to the readers of this one, and the reverse."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import msgspec

from onbeat.model.limits import PRUNE_MAX
from onbeat.model.live import LiveBatch, StreamBatch
from onbeat.ports.clock import Clock
from onbeat.ports.live import LiveStore
from onbeat.rules.live_feed import LiveFeed, Outlet

LOOK_SECONDS: Final = 10.0  # between two looks for readers elsewhere, and two notes of our own
EXCHANGE_SECONDS: Final = 2.0
WATCH_SPAN: Final = timedelta(seconds=30)
KEPT: Final = timedelta(minutes=5)
OVERLAP: Final = timedelta(seconds=6)  # clocks differ, and a commit comes later than its time
BATCHES_MAX: Final = 300  # a hundred processes
PRUNE_SECONDS: Final = 60.0

READ_BATCH: Final = msgspec.json.Decoder(LiveBatch)


class LiveExchange:
    """With no reader anywhere it reads one row or none in `LOOK_SECONDS`, and writes nothing.

    A lost batch costs a reader some events, never a job: errors of the store only end the round.
    """

    def __init__(self, store: LiveStore, clock: Clock, feed: LiveFeed, process: str) -> None:
        self.store = store
        self.clock = clock
        self.feed = feed
        self.process = process
        self.seq = 0
        self.read: dict[tuple[str, int], None] = {}
        self.is_first_read = True
        self.looked_at = self.noted_at = self.pruned_at = clock.monotonic() - PRUNE_SECONDS

    def wake_with(self, wake: Callable[[], None]) -> None:
        """Call `wake` when this process gets its first reader."""
        self.feed.on_reader = wake

    async def step(self) -> float:
        here = self.feed.here
        if here is not None:
            await self.note_readers()
            await self.read_batches()
        else:
            self.is_first_read = True
        if self.is_due(self.looked_at, LOOK_SECONDS):
            await self.look_for_readers()
            self.looked_at = self.clock.monotonic()
        away = self.feed.away
        if away is not None:
            await self.write_batch(away)
        is_busy = self.feed.here is not None or away is not None
        return EXCHANGE_SECONDS if is_busy else LOOK_SECONDS

    def is_due(self, last: float, period: float) -> bool:
        return self.clock.monotonic() - last >= period

    async def note_readers(self) -> None:
        if self.is_due(self.noted_at, LOOK_SECONDS):
            await self.store.watch_stream(self.process, self.clock.now() + WATCH_SPAN)
            self.noted_at = self.clock.monotonic()

    async def look_for_readers(self) -> None:
        watchers = await self.store.stream_watchers(self.clock.now())
        if any(process != self.process for process in watchers):
            self.feed.open_away()
        else:
            self.feed.close_away()

    async def read_batches(self) -> None:
        """What others wrote before the first reader came is passed over."""
        since = self.clock.now() - OVERLAP
        batches = await self.store.stream_batches(since, self.process, BATCHES_MAX)
        known, self.read = self.read, {(batch.source, batch.seq): None for batch in batches}
        if self.is_first_read:
            self.is_first_read = False
            return
        for batch in batches:
            if (batch.source, batch.seq) not in known:
                self.feed.bring(READ_BATCH.decode(batch.body))

    async def write_batch(self, away: Outlet) -> None:
        taken = away.take()
        if taken == LiveBatch():
            return
        self.seq += 1
        await self.store.add_stream_batch(
            StreamBatch(
                source=self.process,
                seq=self.seq,
                at=self.clock.now(),
                body=msgspec.json.encode(taken).decode(),
                missed=taken.missed,
            )
        )
        if self.is_due(self.pruned_at, PRUNE_SECONDS):
            self.pruned_at = self.clock.monotonic()
            await self.store.prune_stream(self.clock.now() - KEPT, PRUNE_MAX)
