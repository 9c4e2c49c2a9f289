"""What readers of the stream get: a bounded memory, and the place of each reader in it."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice, takewhile
from typing import Final

import msgspec

from onbeat.model.live import LiveEvent

ENTRIES_MAX: Final = 20_000
AGE_MAX: Final = 300.0  # seconds
EVENTS_BEHIND_MAX: Final = 256
BYTES_BEHIND_MAX: Final = 262_144
IDS_MAX: Final = 50  # of each kind in one event `changed`
JOB: Final = "job"
PULSE: Final = "pulse"
CHANGED: Final = "changed"
DEFAULT_KINDS: Final = (JOB, "schedule", "queue", "alert", "bulk")
KINDS: Final = (*DEFAULT_KINDS, PULSE, CHANGED)


class Entry:
    """One event. `event` is None for pulses and summaries; `missed` counts the events that had no
    room just before it.
    """

    __slots__ = ("at", "event", "kind", "made", "make", "missed", "number")

    def __init__(
        self,
        number: int,
        at: float,
        kind: str,
        make: Callable[[int], bytes],
        event: LiveEvent | None = None,
        missed: int = 0,
    ) -> None:
        self.number, self.at, self.kind, self.make = number, at, kind, make
        self.event, self.missed = event, missed
        self.made: bytes | None = None

    @property
    def frame(self) -> bytes:
        """The event as text, made for the first reader who wants it: most want no jobs."""
        if self.made is None:
            self.made = self.make(self.number)
        return self.made


class StreamFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events a reader wants. The fields choose among jobs.

    `queue` also chooses among queues and alerts, and `schedule_id` among schedules.
    """

    kinds: frozenset[str] = frozenset(DEFAULT_KINDS)
    state: str | None = None
    queue: str | None = None
    task: str | None = None
    schedule_id: str | None = None
    label: tuple[str, str] | None = None

    def wants(self, entry: Entry) -> bool:
        if entry.kind not in self.kinds:
            return False
        event = entry.event
        if event is None:
            return True
        if event.kind == JOB:
            return self.wants_job(event)
        if event.kind == "alert":
            return self.queue in {None, event.queue}
        own = {"queue": self.queue, "schedule": self.schedule_id}.get(event.kind)
        return own in {None, event.id}

    def wants_job(self, event: LiveEvent) -> bool:
        return (
            self.state in {None, event.to}
            and self.queue in {None, event.queue}
            and self.task in {None, event.task}
            and self.schedule_id in {None, event.schedule_id}
            and (self.label is None or event.has_label(*self.label))
        )


class Ring:
    """The newest entries, numbered from 1; `now` is in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        self.others: deque[Entry] = deque()
        """Those that are not of jobs, once more: few among thousands."""
        self.last = 0
        self.missed = 0

    @property
    def first(self) -> int:
        """The number of the oldest entry; of the next one while there is none."""
        return self.last - len(self.entries) + 1

    def add(
        self, kind: str, now: float, frame: Callable[[int], bytes], event: LiveEvent | None = None
    ) -> None:
        """Add an entry, whose frame is made from its number; forget those that are too old."""
        self.last += 1
        entry = Entry(self.last, now, kind, frame, event, self.missed)
        self.entries.append(entry)
        if kind != JOB:
            self.others.append(entry)
        self.missed = 0
        while len(self.entries) > ENTRIES_MAX or self.entries[0].at < now - AGE_MAX:
            if self.entries.popleft().kind != JOB:
                self.others.popleft()

    def miss(self, count: int) -> None:
        """So many events had no room before the next one."""
        self.missed += count

    def since(self, number: int, *, jobs: bool = True) -> Sequence[Entry]:
        """The entries after `number` that are still known; the cost does not grow with others.

        Without `jobs` those of jobs are left out.
        """
        if jobs:
            newest = list(islice(reversed(self.entries), max(0, self.last - number)))
        else:
            newest = list(takewhile(lambda entry: entry.number > number, reversed(self.others)))
        return newest[::-1]

    def kinds_since(self, number: int) -> set[str]:
        """The kinds of the entries after `number`. The ring must still have these entries."""
        others = self.since(number, jobs=False)
        kinds = {entry.kind for entry in others}
        return kinds | {JOB} if self.last - number > len(others) else kinds


class Portion(msgspec.Struct, frozen=True):
    """What a reader is sent next; before the frames, that `missed` events are left out."""

    frames: Sequence[bytes]
    missed: int = 0


class Place:
    """Where one reader is in a ring.

    A reader is sent portions of bounded size. What came up to a look at the ring is sent whole,
    and counts as behind only if the reader took so long that more than `EVENTS_BEHIND_MAX` events
    or `BYTES_BEHIND_MAX` bytes came meanwhile: of those it gets their number and the newest pulse.
    """

    def __init__(self, ring: Ring, filter: StreamFilter, after: int | None = None) -> None:
        self.ring = ring
        self.filter = filter
        self.sent = ring.last if after is None else after
        self.goal = ring.last
        self.is_waiting = True

    @property
    def is_at_end(self) -> bool:
        return self.sent >= self.ring.last

    def wait(self) -> None:
        """The reader has got everything: whatever comes next finds it waiting."""
        self.is_waiting = True

    def pass_over(self, number: int) -> None:
        """Nothing after `number` is for this reader, which need not wake if it is there."""
        if self.is_waiting and self.sent == number:
            self.sent = self.goal = self.ring.last

    def take(self) -> Portion:
        """The next portion; empty where the filter wants nothing of it."""
        if self.sent >= self.goal:
            if not self.is_waiting and self.is_too_far_behind():
                return self.skip_to_end()
            self.goal = self.ring.last
        self.is_waiting = False
        missed = max(0, self.ring.first - 1 - self.sent)
        return self.portion(missed)

    def portion(self, missed: int) -> Portion:
        chosen: list[Entry] = []
        size = 0
        for entry in self.ring.since(self.sent, jobs=self.hears_of_jobs):
            if entry.number > self.goal or (
                chosen and (len(chosen) == EVENTS_BEHIND_MAX or size > BYTES_BEHIND_MAX)
            ):
                break
            self.sent = entry.number
            missed += entry.missed if self.hears_of_jobs else 0
            if self.filter.wants(entry):
                chosen.append(entry)
                size += len(entry.frame)
        else:
            self.sent = max(self.sent, self.goal)
        return Portion(newest_pulse_only(chosen), missed)

    def is_too_far_behind(self) -> bool:
        count = size = 0
        for entry in self.ring.since(self.sent, jobs=self.hears_of_jobs):
            if self.filter.wants(entry):
                count += 1
                size += len(entry.frame)
            if count > EVENTS_BEHIND_MAX or size > BYTES_BEHIND_MAX:
                return True
        return False

    def skip_to_end(self) -> Portion:
        since = self.ring.since(self.sent, jobs=self.hears_of_jobs)
        left = [entry for entry in since if self.filter.wants(entry)]
        pulses = [entry for entry in left if entry.kind == PULSE]
        missed = max(0, self.ring.first - 1 - self.sent) + len(left) - len(pulses)
        if self.hears_of_jobs:
            missed += sum(entry.missed for entry in since)
        self.sent = self.goal = self.ring.last
        return Portion(newest_pulse_only(pulses), missed)

    @property
    def hears_of_jobs(self) -> bool:
        """Whether events that had no room may have been for this reader; most are of jobs."""
        return JOB in self.filter.kinds


def newest_pulse_only(entries: Sequence[Entry]) -> Sequence[bytes]:
    """The frames, without the pulses that a newer one makes worthless."""
    newest = max((entry.number for entry in entries if entry.kind == PULSE), default=0)
    return [entry.frame for entry in entries if entry.kind != PULSE or entry.number == newest]


class ChangeSummary:
    """Collects what changed since the last summary: some ids of each kind, and how many more."""

    def __init__(self) -> None:
        self.ids: dict[str, dict[str, None]] = {}
        self.more = 0
        self.workers = False
        self.alerts = False

    def note(self, event: LiveEvent) -> None:
        self.more += event.jobs
        if event.kind == "alert":
            self.alerts = True
            return
        self.add(event.kind, event.id)
        for kind, id in (
            ("schedule", event.schedule_id),
            ("queue", event.queue),
            ("flow", event.flow),
        ):
            if id is not None:
                self.add(kind, id)

    def add(self, kind: str, id: str) -> None:
        ids = self.ids.setdefault(kind, {})
        if id not in ids and len(ids) >= IDS_MAX:
            self.more += 1
        else:
            ids[id] = None

    def miss(self, count: int) -> None:
        self.more += count

    def __bool__(self) -> bool:
        return bool(self.ids or self.more or self.workers or self.alerts)

    def of(self, kind: str) -> Sequence[str]:
        return tuple(self.ids.get(kind, ()))


def unknown_kinds(kinds: Collection[str]) -> Sequence[str]:
    return sorted(set(kinds) - set(KINDS))
