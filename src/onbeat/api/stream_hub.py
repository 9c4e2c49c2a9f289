"""The streams of one process: one look at what happened serves all of them."""

import asyncio
import contextlib
import secrets
from collections import Counter
from typing import Final

import msgspec

from onbeat.model.errors import OnbeatError, RateLimited, Unavailable
from onbeat.model.limits import PAGE_LIMIT_MAX, STREAMS_MAX, STREAMS_OF_KEY_MAX, STREAMS_SHARE
from onbeat.model.live import LiveBatch, LiveCounts, LiveEvent
from onbeat.operations.context import OperationContext
from onbeat.operations.invoke import call
from onbeat.operations.tables.fleet import QUEUE_LIST, WORKER_LIST
from onbeat.rules.live_feed import EVENTS_HERE_MAX, Outlet, add_counts, moved, percentile
from onbeat.rules.stream_memory import (
    CHANGED,
    IDS_MAX,
    KINDS,
    PULSE,
    ChangeSummary,
    Place,
    Ring,
    StreamFilter,
)
from onbeat.wire.queues import QueueAnswer
from onbeat.wire.requests import ListQueues, ListWorkers
from onbeat.wire.stream import Changed, LatenessSpread, OldestDue, PulseEvent, event_data, frame
from onbeat.wire.workers import WorkerAnswer

LOOK_SECONDS: Final = 0.25
CHANGED_SECONDS: Final = 1.0
PULSE_SECONDS: Final = 2.0
QUIET_PULSE_SECONDS: Final = 10.0
DEPTHS_SHARE: Final = 20  # reading the depths takes at most one part in so many of the time
LINGER_SECONDS: Final = 60.0  # a reader that comes back within this time has missed nothing
CLOSE_SECONDS: Final = 1.0
FULL_SECONDS: Final = 30
BOOT_BYTES: Final = 4


class Depths(msgspec.Struct, frozen=True, kw_only=True):
    """What waits and runs, as the operations tell."""

    due: int | None = None
    running: int | None = None
    slots: int | None = None
    workers: int | None = None
    oldest: QueueAnswer | None = None
    fleet: tuple[tuple[str, bool, int], ...] = ()

    @property
    def alive(self) -> set[str]:
        return {id for id, is_alive, _ in self.fleet if is_alive}


UNKNOWN: Final = Depths()


class OpenStream:
    """One stream; `woken` is set when there may be something for it."""

    def __init__(self, key: str, place: Place, *, is_reset: bool) -> None:
        self.key = key
        self.place = place
        self.is_reset = is_reset
        self.woken = asyncio.Event()
        self.is_gone = False

    def leave(self) -> None:
        self.is_gone = True
        self.woken.set()


class StreamHub:
    """Looks at the feed while there are readers, and a little longer, so that they can resume."""

    def __init__(self, context: OperationContext, streams_max: int = STREAMS_MAX) -> None:
        self.context = context
        self.streams_max = streams_max
        self.readers: set[OpenStream] = set()
        self.of_key: Counter[str] = Counter()
        self.is_closing = False
        self.emptied = asyncio.Event()
        self.closed: asyncio.Event | None = None
        self.work: asyncio.Task[None] | None = None
        self.reading: asyncio.Task[None] | None = None
        self.outlet: Outlet | None = None
        self.begin_memory()

    def begin_memory(self) -> None:
        """Ids of another memory are unknown from now on."""
        now = self.context.clock.monotonic()
        self.boot = secrets.token_hex(BOOT_BYTES)
        self.ring = Ring()
        self.changes = ChangeSummary()
        self.counts = LiveCounts()
        self.depths = UNKNOWN
        self.has_other_workers = False
        self.jobs_until = now
        self.changed_at = self.counted_from = self.depths_due_at = self.left_at = now
        # The first pulse comes once the depths are read.
        self.pulse_at = now - QUIET_PULSE_SECONDS + 2 * LOOK_SECONDS

    # Readers

    def admit(
        self, key: str, filter: StreamFilter, after: int | None, *, is_back: bool
    ) -> OpenStream:
        """A new reader, which begins after the event of this number, else at the newest one.

        `is_back` says that it has read before. Raises `RateLimited` where there are too many, and
        `Unavailable` while the service stops.
        """
        if self.is_closing:
            raise Unavailable("This process stops; another one may have the stream")
        if len(self.readers) >= self.streams_max:
            raise RateLimited(
                f"{self.streams_max} streams are open, which is the most of one process; "
                "ask the API again from time to time instead",
                FULL_SECONDS,
            )
        if self.of_key[key] >= STREAMS_OF_KEY_MAX:
            raise RateLimited(
                f"The key {key!r} has {STREAMS_OF_KEY_MAX} streams open, which is the most of one"
                " key; end one, or ask the API again from time to time instead",
                FULL_SECONDS,
            )
        self.start()
        is_known = after is not None and self.ring.first - 1 <= after <= self.ring.last
        place = Place(self.ring, filter, after if is_known else None)
        reader = OpenStream(key, place, is_reset=is_back and not is_known)
        self.readers.add(reader)
        self.of_key[key] += 1
        self.make_room_for_jobs()
        return reader

    def dismiss(self, reader: OpenStream) -> None:
        self.readers.discard(reader)
        self.of_key[reader.key] -= 1
        self.of_key += Counter()  # forgets keys without streams
        self.left_at = self.context.clock.monotonic()
        if self.is_closing and not self.readers:
            self.emptied.set()

    def start(self) -> None:
        if self.outlet is None:
            self.begin_memory()
            self.outlet = self.context.live.open_here()
        if self.work is None or self.work.done():
            self.closed = asyncio.Event()
            self.work = asyncio.create_task(self.run(self.closed))

    async def close(self) -> None:
        """Tell all readers that it ends, and wait until they are gone."""
        self.is_closing = True
        if not self.readers:
            self.emptied.set()
        for reader in self.readers:
            reader.woken.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.emptied.wait()
        if self.closed is not None:
            self.closed.set()
        for task in (self.work, self.reading):
            if task is not None:
                await asyncio.wait([task], timeout=CLOSE_SECONDS)

    # Looking

    async def run(self, closed: asyncio.Event) -> None:
        while not closed.is_set() and self.is_wanted():
            self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await closed.wait()
        self.context.live.close_here()
        self.outlet = None

    def is_wanted(self) -> bool:
        return bool(self.readers) or (
            self.context.clock.monotonic() - self.left_at < LINGER_SECONDS
        )

    def look(self) -> None:
        """Take what came since the last look, and tell the readers."""
        assert self.outlet is not None, "it was started"
        now, before = self.context.clock.monotonic(), self.ring.last
        self.make_room_for_jobs()
        self.take(self.outlet.take(), now)
        if self.changes and now - self.changed_at >= CHANGED_SECONDS:
            self.tell_changes(now)
        has_news = moved(self.counts) or self.has_other_workers
        span = PULSE_SECONDS if has_news else QUIET_PULSE_SECONDS
        if now - self.pulse_at >= span:
            self.tell_pulse(now)
        if now >= self.depths_due_at and self.readers and is_done(self.reading):
            self.reading = asyncio.create_task(self.read_depths())
        kinds = self.ring.kinds_since(before)
        for reader in self.readers:
            if kinds & reader.place.filter.kinds:
                reader.woken.set()
            else:
                reader.place.pass_over(before)

    def make_room_for_jobs(self) -> None:
        """How many starts and ends of jobs make an event until the next look.

        Without a reader of jobs, or one that may come back for them, only the summary needs some.
        """
        assert self.outlet is not None, "it was started"
        now = self.context.clock.monotonic()
        if any(reader.place.hears_of_jobs for reader in self.readers):
            self.jobs_until = now + LINGER_SECONDS
        self.outlet.room = EVENTS_HERE_MAX if now < self.jobs_until else IDS_MAX

    def take(self, batch: LiveBatch, now: float) -> None:
        if batch.missed:
            self.ring.miss(batch.missed)
            self.changes.miss(batch.missed)
        for event in batch.events:
            self.changes.note(event)
            if event.kind in KINDS:
                self.ring.add(event.kind, now, EventFrame(self.boot, event), event)
        self.counts = add_counts(self.counts, batch.counts)

    def tell_changes(self, now: float) -> None:
        found, self.changes, self.changed_at = self.changes, ChangeSummary(), now
        summary = Changed(
            jobs=tuple(found.of("job")),
            more=found.more,
            schedules=tuple(found.of("schedule")),
            queues=tuple(found.of("queue")),
            flows=tuple(found.of("flow")),
            logs=tuple(found.of("log")),
            faults=tuple(found.of("fault")),
            bulks=tuple(found.of("bulk")),
            workers=found.workers,
            alerts=found.alerts,
        )
        self.ring.add(CHANGED, now, Frame(CHANGED, self.boot, summary))

    def tell_pulse(self, now: float) -> None:
        counts, self.counts = self.counts, LiveCounts()
        self.has_other_workers = False
        seconds = round(now - self.counted_from, 3)
        self.counted_from = self.pulse_at = now
        pulse = pulse_of(self.context, counts, self.depths, seconds)
        self.ring.add(PULSE, now, Frame(PULSE, self.boot, pulse))

    async def read_depths(self) -> None:
        clock = self.context.clock
        begun = clock.monotonic()
        try:
            listed = await call(self.context, QUEUE_LIST, ListQueues(limit=PAGE_LIMIT_MAX))
            found = await call(self.context, WORKER_LIST, ListWorkers(jobs=0))
        except OnbeatError:
            self.depths = UNKNOWN
        else:
            depths = depths_of(listed.queues, found.workers)
            self.changes.workers |= depths.fleet != self.depths.fleet
            self.has_other_workers |= depths.alive != self.depths.alive
            self.depths = depths
        now = clock.monotonic()
        self.depths_due_at = now + max(PULSE_SECONDS, DEPTHS_SHARE * (now - begun))


class Frame:
    """Makes the frame of a pulse or a summary from its number."""

    def __init__(self, kind: str, boot: str, data: PulseEvent | Changed) -> None:
        self.kind, self.boot, self.data = kind, boot, data

    def __call__(self, number: int) -> bytes:
        return frame(self.kind, f"{self.boot}.{number}", msgspec.json.encode(self.data))


class EventFrame:
    """Makes the frame of an event from its number."""

    def __init__(self, boot: str, event: LiveEvent) -> None:
        self.boot, self.event = boot, event

    def __call__(self, number: int) -> bytes:
        return frame(self.event.kind, f"{self.boot}.{number}", event_data(self.event))


def streams_max(connections: int) -> int:
    """How many of a server's connections may be streams: they must not take all."""
    return max(1, min(STREAMS_MAX, connections // STREAMS_SHARE))


def is_done(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()


def depths_of(queues: tuple[QueueAnswer, ...], workers: tuple[WorkerAnswer, ...]) -> Depths:
    alive = [worker for worker in workers if worker.alive]
    late = [queue for queue in queues if queue.oldest_due_at and not queue.paused]
    return Depths(
        due=sum(queue.due for queue in queues),
        running=sum(queue.running for queue in queues),
        slots=sum(worker.concurrency for worker in alive),
        workers=len(alive),
        oldest=min(late, key=lambda queue: str(queue.oldest_due_at), default=None),
        fleet=tuple((worker.id, worker.alive, worker.running) for worker in workers),
    )


def pulse_of(
    context: OperationContext, counts: LiveCounts, depths: Depths, seconds: float
) -> PulseEvent:
    at, oldest = context.clock.now(), depths.oldest
    due_at = None if oldest is None else oldest.oldest_due_at
    return PulseEvent(
        at=at,
        seconds=seconds,
        started=counts.started,
        succeeded=counts.succeeded,
        failed=counts.failed,
        lateness=LatenessSpread(
            percentile(counts.lateness, 0.5), percentile(counts.lateness, 0.95)
        ),
        oldest_due=None
        if oldest is None or due_at is None
        else OldestDue(max(0.0, (at - due_at).total_seconds()), oldest.name),
        due=depths.due,
        running=depths.running,
        slots=depths.slots,
        workers=depths.workers,
    )
