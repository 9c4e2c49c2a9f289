"""Writes the history of rates and depths, and folds what is old."""

from collections import deque
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from onbeat.engine.loop import Rest
from onbeat.model.errors import Unavailable
from onbeat.model.limits import (
    COUNTED_QUEUES_MAX,
    PULSES_HELD_MAX,
    PULSES_READ_MAX,
    SAMPLED_QUEUES_MAX,
)
from onbeat.model.pulse import EndedCounts, Gauges, Pulse
from onbeat.ports.clock import Clock
from onbeat.ports.history import HistoryStore
from onbeat.ports.telemetry import ReadCounters
from onbeat.rules.pulses import (
    ENDED_SECONDS_MIN,
    EPOCH,
    FINEST,
    RETENTIONS,
    SAMPLE_SHARE,
    WHOLE,
    WHOLE_KEPT,
    Retention,
    deepest,
    folded,
    folded_gauges,
    must_count_ended,
    pause_after_sample,
    pulse_between,
    slot,
)

FOLD_PERIOD: Final = 60.0
FOLDED_SLOTS: Final = 10
"""New rows that one transaction makes, so that it stays short."""
AFTER_SLOT: Final = 0.1
"""Seconds after the end of a slot, so that a timer that is early does not wait for another."""


class PulseRecorder:
    """Writes what this process has counted, once in `FINEST` seconds if anything moved.

    While the store is away, or its disk is full, the newest rows are held: other loops and the
    disk guard report that. A kill loses at most the current row.
    """

    def __init__(
        self, store: HistoryStore, clock: Clock, read_counters: ReadCounters, source: str
    ) -> None:
        self.store = store
        self.clock = clock
        self.read_counters = read_counters
        self.source = source
        self.before = read_counters()
        self.over = slot(clock.now(), FINEST)
        self.held: deque[Pulse] = deque(maxlen=PULSES_HELD_MAX)

    async def step(self) -> float:
        now = self.clock.now()
        over = slot(now, FINEST)
        if over != self.over:
            self.over = over
            self.note(over - timedelta(seconds=FINEST))
        rest = FINEST - (now - over).total_seconds() + AFTER_SLOT
        try:
            await self.write()
        except Unavailable:
            return Rest(rest)
        return rest

    def note(self, at: datetime) -> None:
        """Keep what was counted since the last call as what happened from `at` on."""
        after = self.read_counters()
        pulse = pulse_between(self.before, after, at, self.source)
        self.before = after
        if pulse is not None:
            self.held.append(pulse)

    async def write(self) -> None:
        """Rows leave only when they are stored; one that is stored twice is there once.

        The last write may overlap one that is on its way, so that each looks for its own rows.
        """
        if self.held:
            pulses = tuple(self.held)
            await self.store.put_pulses(pulses)
            for pulse in pulses:
                if self.held and self.held[0] is pulse:
                    self.held.popleft()

    async def finish(self) -> None:
        """Write the rest at a clean end."""
        self.note(slot(self.clock.now(), FINEST))
        await self.write()


class DepthSampler:
    """Counts what stands in the queues. Of several processes the first of each slot wins."""

    def __init__(self, store: HistoryStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.rests_until = clock.monotonic()  # from counting ended jobs

    async def step(self) -> float:
        now = self.clock.now()
        newest = await self.store.newest_sample(FINEST)
        if newest is not None and now >= newest.at:
            rest = pause_after_sample(newest.took) - (now - newest.at).total_seconds()
            if rest > 0:
                return rest
        began = self.clock.monotonic()
        sample = await self.store.count_depths(now, COUNTED_QUEUES_MAX)
        took = self.clock.monotonic() - began
        sample = replace(sample, took=took)
        try:
            await self.put_whole(sample)
            ended = await self.count_ended(newest, now)
            kept = replace(deepest(sample, SAMPLED_QUEUES_MAX), ended=ended)
            await self.store.put_sample(FINEST, kept)
        except Unavailable:  # as above: a full disk can be read
            return Rest(pause_after_sample(took))
        return pause_after_sample(took)

    async def put_whole(self, sample: Gauges) -> None:
        """Store it with all its queues, in place of earlier ones."""
        await self.store.put_sample(WHOLE, sample)
        await self.store.fold_history(WHOLE, EPOCH, sample.at - WHOLE_KEPT, [], [])

    async def count_ended(self, newest: Gauges | None, now: datetime) -> EndedCounts | None:
        """Those of the newest sample where it is not yet time, or counting them was given up."""
        known = None if newest is None else newest.ended
        began = self.clock.monotonic()
        if began < self.rests_until or not must_count_ended(newest, now):
            return known
        try:
            ended = await self.store.count_ended(now)
        except Unavailable:  # so many that the store stops the statement
            spent = self.clock.monotonic() - began
            self.rests_until = began + spent + max(ENDED_SECONDS_MIN, SAMPLE_SHARE * spent)
            return known
        return replace(ended, took=self.clock.monotonic() - began)


class HistoryFolder:
    """Replaces old rows by fewer, and deletes the oldest."""

    def __init__(self, store: HistoryStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    async def step(self) -> float:
        for retention in RETENTIONS:
            if await self.fold(retention):
                return 0.0
        return FOLD_PERIOD

    async def fold(self, retention: Retention) -> bool:
        """Fold the oldest rows that are over; False where none are."""
        resolution, into = retention.resolution, retention.into
        oldest = await self.store.oldest_history(resolution)
        seconds = into or resolution
        until = slot(self.clock.now() - retention.keep, seconds)
        if oldest is None or (first := slot(oldest, seconds)) >= until:
            return False
        last = min(until, first + FOLDED_SLOTS * timedelta(seconds=seconds))
        if into is None:
            await self.store.fold_history(resolution, first, last, [], [])
            return True
        pulses = await self.store.pulses(resolution, first, last, PULSES_READ_MAX)
        samples = await self.store.samples(resolution, first, last, PULSES_READ_MAX)
        kept = [(into, sample) for sample in folded_gauges(samples, into)]
        await self.store.fold_history(resolution, first, last, folded(pulses, into), kept)
        return True
