"""Keeps what handlers log with their jobs, in batches beside all other work."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import OnbeatError, Unavailable
from onbeat.model.job import Job
from onbeat.model.limits import LOG_LAST_LINES, LOG_LINES_MAX, LOG_WAITING_BYTES_MAX
from onbeat.model.live import LiveEvent
from onbeat.model.log_line import JobLogLine, LogEntry, line_number
from onbeat.ports.job_log import JobLogStore
from onbeat.rules.live_feed import LiveFeed
from onbeat.rules.log_lines import bounded_entry, fields_text

LOG_PERIOD: Final = 1.0
BATCH_MAX: Final = 1_000
WATCHED_MAX: Final = 50  # jobs of a batch that those who watch are told of
FIRST_LINES: Final = LOG_LINES_MAX - LOG_LAST_LINES
LINE_BYTES: Final = 200  # of one that waits, beside its texts

Clean = Callable[[LogEntry], LogEntry]
"""Hides secrets."""


class LinesDropped(OnbeatError):
    """Some log lines of jobs are not kept."""


class LinesOfAttempt(msgspec.Struct):
    """How many lines an attempt has logged, and the newest of those beyond the first."""

    count: int = 0
    last: deque[JobLogLine] = msgspec.field(default_factory=lambda: deque(maxlen=LOG_LAST_LINES))


class JobLog:
    """The log lines of one process that are not stored yet. May be used from any thread.

    `level` is the least that is kept, None for no lines at all.
    """

    def __init__(self, level: int | None = None, clean: Clean = bounded_entry) -> None:
        self.level = level
        self.clean = clean
        self.lock = threading.Lock()
        self.waiting: deque[JobLogLine] = deque()
        self.bytes = 0
        self.dropped = 0
        self.on_ready: Callable[[], None] = lambda: None

    def add(self, lines: LinesOfAttempt, job: Job, entry: LogEntry) -> None:
        entry = bounded_entry(self.clean(entry))
        line = JobLogLine(
            job_id=job.id,
            number=0,
            attempt=job.attempt,
            at=entry.at,
            level=entry.level,
            logger=entry.logger,
            text=entry.text,
            fields=fields_text(entry.fields),
        )
        with self.lock:
            lines.count += 1
            if lines.count > FIRST_LINES:
                lines.last.append(line)
                return
            self.put(numbered(line, job, lines.count))
            is_ready = len(self.waiting) >= BATCH_MAX
        if is_ready:
            self.on_ready()

    def end(self, lines: LinesOfAttempt, job: Job) -> None:
        """The attempt has ended: its last lines wait too, and all of them are stored soon."""
        with self.lock:
            last, place = lines.last, min(lines.count, FIRST_LINES) + 1
            gone = lines.count - FIRST_LINES - len(last)
            if gone > 0:
                self.put(numbered(gone_line(last[0], gone), job, place))
                place += 1
            for at, line in enumerate(last, place):
                self.put(numbered(line, job, at))
        self.on_ready()

    def put(self, line: JobLogLine) -> None:
        size = size_of(line)
        if self.bytes + size > LOG_WAITING_BYTES_MAX:
            self.dropped += 1
            return
        self.waiting.append(line)
        self.bytes += size

    def take(self) -> Sequence[JobLogLine]:
        """The lines that wait, the oldest first, up to a batch."""
        with self.lock:
            taken = [self.waiting.popleft() for _ in range(min(BATCH_MAX, len(self.waiting)))]
            self.bytes -= sum(map(size_of, taken))
        return taken

    def put_back(self, lines: Sequence[JobLogLine]) -> None:
        """Lines that could not be stored wait on, before the others."""
        with self.lock:
            self.waiting.extendleft(reversed(lines))
            self.bytes += sum(map(size_of, lines))

    def drop(self, count: int) -> None:
        with self.lock:
            self.dropped += count

    def take_dropped(self) -> int:
        """How many lines were dropped since the last call."""
        with self.lock:
            dropped, self.dropped = self.dropped, 0
        return dropped


def numbered(line: JobLogLine, job: Job, place: int) -> JobLogLine:
    return replace(line, number=line_number(job.token, place))


def gone_line(following: JobLogLine, count: int) -> JobLogLine:
    text = (
        f"{count:,} lines were dropped here: the first {FIRST_LINES} and the last "
        f"{LOG_LAST_LINES} of an attempt are kept"
    )
    return replace(following, level="warning", logger="onbeat", text=text, fields=None)


def size_of(line: JobLogLine) -> int:
    return len(line.text) + len(line.fields or "") + LINE_BYTES


class JobLogWriter:
    """Stores lines; with none it asks the store nothing.

    Lines wait while the store is unavailable, up to a bound. Those that it refuses are dropped: no
    job depends on a line.
    """

    def __init__(self, store: JobLogStore, log: JobLog, live: LiveFeed | None = None) -> None:
        self.store = store
        self.log = log
        self.live = live or LiveFeed()
        self.flushing = asyncio.Lock()

    async def step(self) -> float:
        await self.flush()
        return LOG_PERIOD

    async def flush(self) -> None:
        """Store what waits. Raises `Unavailable`, and `LinesDropped` once others are stored."""
        async with self.flushing:
            await self.store_all()

    async def store_all(self) -> None:
        refused: Exception | None = None
        while lines := self.log.take():
            try:
                await self.store.add_log_lines(lines)
                self.tell(lines)
            except BaseException as error:
                if isinstance(error, Unavailable) or not isinstance(error, Exception):
                    self.log.put_back(lines)
                    raise
                self.log.drop(len(lines))
                refused = error
        self.report_dropped(refused)

    def report_dropped(self, refused: Exception | None) -> None:
        if dropped := self.log.take_dropped():
            why = "too many waited for the store" if refused is None else str(refused)
            raise LinesDropped(f"{dropped:,} log lines of jobs were dropped: {why}") from refused

    def tell(self, lines: Sequence[JobLogLine]) -> None:
        """Those who watch these jobs; of very many only the first."""
        if not self.live.is_read:
            return
        newest = {line.job_id: line.at for line in lines}
        for id, at in islice(newest.items(), WATCHED_MAX):
            self.live.note(LiveEvent(kind="log", id=id, at=at, to="logged"))
