"""One clock for all who share a store: the store's own, where it has one."""

import threading
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.errors import Unavailable
from onbeat.ports.clock import Clock
from onbeat.ports.store import OperationsStore
from onbeat.ports.telemetry import Telemetry

FOLLOW_PERIOD: Final = 3.0
"""Seconds between two readings: between them a clock's rate moves the estimate by 1.5 ms."""

STEP_MIN: Final = 1.0
"""Seconds. What differs by less is a slow answer or a clock that is being slewed."""

DRIFT: Final = 0.0005
"""How far the rates of two clocks may differ: as fast as a kernel slews one, 0.5 ms a second."""


class Line(msgspec.Struct, frozen=True):
    """Where a clock stood at the latest at `read_at` on the monotonic clock.

    `way` is how long the answer was under way in all: by so much the clock may be ahead of it.
    """

    at: datetime
    read_at: float
    way: float

    def present(self, monotonic: float) -> datetime:
        """A little slower than the clock that it stands for, so that it is never ahead of it."""
        return self.at + timedelta(seconds=(monotonic - self.read_at) * (1 - DRIFT))

    def slack(self, monotonic: float) -> float:
        """Seconds by which the clock may be ahead of `present` without having been set."""
        return self.way + (monotonic - self.read_at) * 2 * DRIFT


class Reading(msgspec.Struct, frozen=True):
    """What a clock said at some moment between the question and the answer."""

    at: datetime
    asked_at: float
    answered_at: float

    def step_from(self, line: Line) -> float:
        """Seconds by which the clock was set since: 0 where it may just have gone on."""
        early = line.present(self.asked_at)
        if self.at < early:
            return (self.at - early).total_seconds()
        late = line.present(self.answered_at) + timedelta(seconds=line.slack(self.answered_at))
        return max(0.0, (self.at - late).total_seconds())

    @property
    def line(self) -> Line:
        return Line(self.at, self.answered_at, self.answered_at - self.asked_at)

    def corrects(self, line: Line) -> bool:
        """Whether it tells more than the line: the clock is further on, or certainly not so far."""
        return self.at >= line.present(self.answered_at) or self.at < line.present(self.asked_at)


class StoreClock:
    """A `Clock` that shows the store's time, once it was read; until then its own machine's.

    It never runs ahead of the store's clock, and lags by at most the way of an answer. It goes
    back only where the store's clock did. Without a store's clock it is the machine's own, and
    what `follow` tells are the steps of that one.
    """

    def __init__(self, own: Clock) -> None:
        self.own = own
        self.line: Line | None = None
        self.leads_by_store = False
        self.followed_at: float | None = None
        self.lock = threading.Lock()

    def now(self) -> datetime:
        line = self.line if self.leads_by_store else None
        return self.own.now() if line is None else line.present(self.own.monotonic())

    def monotonic(self) -> float:
        return self.own.monotonic()

    @property
    def is_stale(self) -> bool:
        """Whether the last reading is older than a keeper would let it become."""
        at = self.followed_at
        return at is None or self.own.monotonic() - at > 2 * FOLLOW_PERIOD

    async def follow(self, store: OperationsStore) -> float:
        """Read the store's clock. Answers with the seconds by which it was set, mostly 0.

        Raises `Unavailable`; the clock then goes on with what it has.
        """
        asked_at = self.own.monotonic()
        theirs = await store.now()
        at = self.own.now() if theirs is None else theirs
        self.leads_by_store = theirs is not None
        return self.learn(Reading(at, asked_at, self.own.monotonic()))

    def learn(self, reading: Reading) -> float:
        with self.lock:
            line, self.followed_at = self.line, reading.answered_at
            if line is None or reading.corrects(line):
                self.line = reading.line
            return 0.0 if line is None else reading.step_from(line)


class ClockKeeper:
    """Keeps a clock with its store's, and tells of steps."""

    def __init__(self, clock: Clock, store: OperationsStore, telemetry: Telemetry) -> None:
        # A clock that follows nothing is watched all the same.
        self.clock = clock if isinstance(clock, StoreClock) else StoreClock(clock)
        self.store = store
        self.telemetry = telemetry

    async def step(self) -> float:
        """One reading; answers in how many seconds the next is wanted. Raises `Unavailable`."""
        seconds = await self.clock.follow(self.store)
        if abs(seconds) > STEP_MIN:
            self.telemetry.clock_stepped(seconds)
        return FOLLOW_PERIOD

    async def refresh(self) -> None:
        """A reading where the last is old, for programs without loops.

        A store that is away changes nothing here: whoever asks it something next is told.
        """
        if self.clock.is_stale:
            try:
                await self.step()
            except Unavailable:
                return
