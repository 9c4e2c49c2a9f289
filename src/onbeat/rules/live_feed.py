"""Where changes are left for those who watch, while somebody does."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice, zip_longest
from typing import Final

from onbeat.model.job import Job, JobState
from onbeat.model.live import LiveBatch, LiveCounts, LiveEvent, event_of
from onbeat.model.target import lane_of

LATENESS_STEPS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0,
    300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0,
)  # fmt: skip
"""Upper bounds of the buckets of lateness, in seconds; the last bucket has none."""

EVENTS_HERE_MAX: Final = 500  # until the next look at them, a quarter of a second later
EVENTS_SENT_MAX: Final = 200  # of one process to another, every two seconds


def no_reader_yet() -> None:
    """Nobody has to be told that somebody reads."""


def nothing_is_remembered(ids: Iterable[str] | None) -> None:
    """Nobody remembers the past of schedules."""


class Outlet:
    """Keeps the newest events for one taker, and counts all of them.

    Events come from any thread; one thread takes.
    """

    def __init__(self, events_max: int) -> None:
        self.events: deque[LiveEvent] = deque(maxlen=events_max)
        self.noted = 0
        self.taken = 0
        self.started = self.succeeded = self.failed = 0
        self.lateness = [0] * (len(LATENESS_STEPS) + 1)

    def note(self, event: LiveEvent) -> None:
        self.events.append(event)
        self.noted += 1

    def note_start(self, seconds: float) -> None:
        self.started += 1
        self.lateness[bisect_left(LATENESS_STEPS, seconds)] += 1

    def note_end(self, state: JobState) -> None:
        self.succeeded += state is JobState.SUCCEEDED
        self.failed += state is JobState.FAILED

    def bring(self, batch: LiveBatch) -> None:
        """Add what another process saw."""
        for event in batch.events:
            self.note(event)
        self.noted += batch.missed
        self.started += batch.counts.started
        self.succeeded += batch.counts.succeeded
        self.failed += batch.counts.failed
        for place, count in enumerate(batch.counts.lateness[: len(self.lateness)]):
            self.lateness[place] += count

    def take(self) -> LiveBatch:
        """What came since the last call."""
        noted = self.noted
        events: list[LiveEvent] = []
        while self.events:
            events.append(self.events.popleft())
        missed = max(0, noted - self.taken - len(events))
        self.taken += len(events) + missed
        counts = LiveCounts(self.started, self.succeeded, self.failed, tuple(self.lateness))
        self.started = self.succeeded = self.failed = 0
        self.lateness = [0] * (len(LATENESS_STEPS) + 1)
        return LiveBatch(tuple(events), counts if moved(counts) else NOTHING, missed)


NOTHING: Final = LiveCounts()


def add_counts(one: LiveCounts, other: LiveCounts) -> LiveCounts:
    """The counts of two spans together."""
    pairs = zip_longest(one.lateness, other.lateness, fillvalue=0)
    return LiveCounts(
        one.started + other.started,
        one.succeeded + other.succeeded,
        one.failed + other.failed,
        tuple(first + second for first, second in pairs),
    )


def moved(counts: LiveCounts) -> bool:
    return bool(counts.started or counts.succeeded or counts.failed)


class LiveFeed:
    """The changes of one process, kept only while somebody reads.

    `is_read` is all that the engine looks at otherwise. `here` is the outlet for readers of this
    process, `away` the one for those of others; `on_reader` is called when the first one comes.
    `on_past` is called with the schedules whose past was changed, or with None for any.
    """

    def __init__(self) -> None:
        self.is_read = False
        self.here: Outlet | None = None
        self.away: Outlet | None = None
        self.on_reader: Callable[[], None] = no_reader_yet
        self.on_past: Callable[[Iterable[str] | None], None] = nothing_is_remembered

    def open_here(self) -> Outlet:
        self.here = Outlet(EVENTS_HERE_MAX)
        self.is_read = True
        self.on_reader()
        return self.here

    def close_here(self) -> None:
        self.here = None
        self.is_read = self.away is not None

    def open_away(self) -> None:
        if self.away is None:
            self.away = Outlet(EVENTS_SENT_MAX)
        self.is_read = True

    def close_away(self) -> None:
        self.away = None
        self.is_read = self.here is not None

    def outlets(self) -> Iterable[Outlet]:
        return [outlet for outlet in (self.here, self.away) if outlet is not None]

    def note(self, event: LiveEvent) -> None:
        for outlet in self.outlets():
            outlet.note(event)

    def bring(self, batch: LiveBatch) -> None:
        """What another process saw, for the readers of this one."""
        if self.here is not None:
            self.here.bring(batch)
        self.on_past({event.id for event in batch.events if event.kind == "schedule"})

    def started(self, job: Job, at: datetime, lateness: timedelta) -> None:
        for outlet in self.outlets():
            outlet.note_start(lateness.total_seconds())
        self.note(event_of(job, lane_of(job.target), at, before=JobState.WAITING))

    def ended(self, job: Job, at: datetime, cause: str | None) -> None:
        for outlet in self.outlets():
            outlet.note_end(job.state)
        self.note(event_of(job, lane_of(job.target), at, before=JobState.RUNNING, cause=cause))

    def made(self, jobs: Iterable[Job], at: datetime) -> None:
        """Jobs are new, and wait. Of very many, those that have no room are only counted."""
        rest = iter(jobs)
        for job in islice(rest, EVENTS_HERE_MAX):
            self.note(event_of(job, lane_of(job.target), at))
        left = sum(1 for _ in rest)
        for outlet in self.outlets():
            outlet.noted += left


def percentile(lateness: Sequence[int], share: float) -> float | None:
    """The seconds that this share of the starts was late at most, read from the buckets."""
    wanted = sum(lateness) * share
    if not wanted:
        return None
    below = 0
    for place, count in enumerate(lateness):
        if below + count >= wanted:
            return between(place, (wanted - below) / count)
        below += count
    return LATENESS_STEPS[-1]


def between(place: int, share: float) -> float:
    """The point of a bucket that lies this share into it."""
    low = LATENESS_STEPS[place - 1] if place else 0.0
    high = LATENESS_STEPS[min(place, len(LATENESS_STEPS) - 1)]
    return round(low + (high - low) * share, 6)
