"""Where changes are left for those who watch, while somebody does."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
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

OF_JOBS: Final = frozenset({"job", "log"})

EVENTS_HERE_MAX: Final = 500  # until the next look at them, a quarter of a second later
EVENTS_SENT_MAX: Final = 200  # of one process to another, every two seconds


def no_reader_yet() -> None:
    """Nobody has to be told that somebody reads."""


def nothing_is_remembered(ids: Iterable[str] | None) -> None:
    """Nobody remembers the past of schedules."""


class Outlet:
    """Keeps the newest events for one taker, and counts all of them.

    Of the starts and ends of jobs it keeps the first, until it is full: a drain of tens of
    thousands a second would make events for nothing. Events come from any thread; one thread takes.
    """

    def __init__(self, events_max: int) -> None:
        self.room = events_max
        """For starts and ends of jobs."""
        self.events: deque[LiveEvent] = deque(maxlen=events_max)
        self.noted = 0
        self.taken = 0
        self.started = self.succeeded = self.failed = 0
        self.lateness = [0] * (len(LATENESS_STEPS) + 1)

    def note(self, event: LiveEvent) -> None:
        self.events.append(event)
        self.noted += 1

    def note_start(self, seconds: float) -> bool:
        """Whether there is room for its event."""
        self.started += 1
        self.noted += 1
        self.lateness[bisect_left(LATENESS_STEPS, seconds)] += 1
        return len(self.events) < self.room

    def note_end(self, state: JobState) -> bool:
        """Whether there is room for its event."""
        if state is JobState.SUCCEEDED:
            self.succeeded += 1
        elif state is JobState.FAILED:
            self.failed += 1
        self.noted += 1
        return len(self.events) < self.room

    def keep(self, event: LiveEvent) -> None:
        if len(self.events) < self.room:
            self.events.append(event)

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
    `changes` counts what changed while somebody read, other than jobs and their logs.
    `on_past` is called with the schedules whose past was changed, or with None for any.
    """

    def __init__(self) -> None:
        self.is_read = False
        self.changes = 0
        self.here: Outlet | None = None
        self.away: Outlet | None = None
        self.outlets: tuple[Outlet, ...] = ()
        self.on_reader: Callable[[], None] = no_reader_yet
        self.on_past: Callable[[Iterable[str] | None], None] = nothing_is_remembered

    def open_here(self) -> Outlet:
        self.here = Outlet(EVENTS_HERE_MAX)
        self.note_outlets()
        self.on_reader()
        return self.here

    def close_here(self) -> None:
        self.here = None
        self.note_outlets()

    def open_away(self) -> None:
        if self.away is None:
            self.away = Outlet(EVENTS_SENT_MAX)
        self.note_outlets()

    def close_away(self) -> None:
        self.away = None
        self.note_outlets()

    def note_outlets(self) -> None:
        self.outlets = tuple(one for one in (self.here, self.away) if one is not None)
        self.is_read = bool(self.outlets)

    def note(self, event: LiveEvent) -> None:
        self.changes += event.kind not in OF_JOBS
        for outlet in self.outlets:
            outlet.note(event)

    def bring(self, batch: LiveBatch) -> None:
        """What another process saw, for the readers of this one."""
        self.changes += sum(event.kind not in OF_JOBS for event in batch.events)
        if self.here is not None:
            self.here.bring(batch)
        self.on_past({event.id for event in batch.events if event.kind == "schedule"})

    def started(self, job: Job, at: datetime, late: float) -> None:
        """An attempt began, `late` seconds after it was due."""
        has_room = False
        for outlet in self.outlets:
            has_room |= outlet.note_start(late)
        if has_room:
            event = event_of(job, lane_of(job.target), at, before=JobState.WAITING)
            self.note_moved(event)

    def ended(self, job: Job, at: datetime, cause: str | None) -> None:
        has_room = False
        for outlet in self.outlets:
            has_room |= outlet.note_end(job.state)
        if has_room:
            event = event_of(job, lane_of(job.target), at, before=JobState.RUNNING, cause=cause)
            self.note_moved(event)

    def note_moved(self, event: LiveEvent) -> None:
        """An event that every outlet has counted already."""
        for outlet in self.outlets:
            outlet.keep(event)

    def made(self, jobs: Iterable[Job], at: datetime) -> None:
        """Jobs are new, and wait. Of very many, those that have no room are only counted."""
        rest = iter(jobs)
        room = max((outlet.room for outlet in self.outlets), default=0)
        for job in islice(rest, room):
            self.note(event_of(job, lane_of(job.target), at))
        left = sum(1 for _ in rest)
        for outlet in self.outlets:
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
