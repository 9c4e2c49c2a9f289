"""A common clock for all processes that share a store: the store's own clock, if it has one."""

import threading
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.errors import Unavailable
from onbeat.ports.clock import Clock
from onbeat.ports.store import OperationsStore
from onbeat.ports.telemetry import Telemetry

FOLLOW_PERIOD: Final = 3.0
"""Seconds between two readings; in that time, clock drift adds an error of 1.5 ms."""

STEP_MIN: Final = 1.0
"""Seconds. A smaller difference may be a slow answer or a clock that is being slewed."""

DRIFT: Final = 0.0005
"""How far the rates of two clocks may differ: 0.5 ms per second, the slew rate of kernels."""


class ClockFit(msgspec.Struct, frozen=True):
    """A lower bound of a clock's time, taken at `read_at` on the monotonic clock.

    The clock may be ahead of `at` by up to `round_trip`, the duration of the reading.
    """

    at: datetime
    read_at: float
    round_trip: float

    def estimate(self, monotonic: float) -> datetime:
        """The clock's time, rounded down by the possible drift so that it is never ahead."""
        return self.at + timedelta(seconds=(monotonic - self.read_at) * (1 - DRIFT))

    def slack(self, monotonic: float) -> float:
        """Seconds by which the clock may be ahead of `estimate` without a step."""
        return self.round_trip + (monotonic - self.read_at) * 2 * DRIFT


class ClockReading(msgspec.Struct, frozen=True):
    """The clock's time at some moment between the request and the answer."""

    at: datetime
    sent_at: float
    received_at: float

    def step_from(self, line: ClockFit) -> float:
        """Seconds by which the clock was stepped; 0 if the reading agrees with the fit."""
        early = line.estimate(self.sent_at)
        if self.at < early:
            return (self.at - early).total_seconds()
        late = line.estimate(self.received_at) + timedelta(seconds=line.slack(self.received_at))
        return max(0.0, (self.at - late).total_seconds())

    @property
    def fit(self) -> ClockFit:
        return ClockFit(self.at, self.received_at, self.received_at - self.sent_at)

    def corrects(self, line: ClockFit) -> bool:
        """Whether the reading improves the fit: the clock is ahead of it or was stepped back."""
        return self.at >= line.estimate(self.received_at) or self.at < line.estimate(self.sent_at)


class StoreClock:
    """A `Clock` that shows the store's time after the first reading; before that, local time.

    It never runs ahead of the store's clock, and lags by at most one round trip. It goes back only
    if the store's clock did. If the store has no clock, it shows local time, and `follow` returns
    the steps of the local clock.
    """

    def __init__(self, own: Clock) -> None:
        self.own = own
        self.monotonic = own.monotonic  # no method of its own: each attempt asks several times
        self.fit: ClockFit | None = None
        self.leads_by_store = False
        self.followed_at: float | None = None
        self.lock = threading.Lock()

    def now(self) -> datetime:
        line = self.fit if self.leads_by_store else None
        return self.own.now() if line is None else line.estimate(self.own.monotonic())

    @property
    def is_stale(self) -> bool:
        """Whether the last reading is older than the period of `ClockKeeper`."""
        at = self.followed_at
        return at is None or self.own.monotonic() - at > 2 * FOLLOW_PERIOD

    async def follow(self, store: OperationsStore) -> float:
        """Read the store's clock. Returns the seconds by which it was stepped, usually 0.

        Raises `Unavailable`; the clock then continues from its last reading.
        """
        sent_at = self.own.monotonic()
        theirs = await store.now()
        at = self.own.now() if theirs is None else theirs
        self.leads_by_store = theirs is not None
        return self.learn(ClockReading(at, sent_at, self.own.monotonic()))

    def learn(self, reading: ClockReading) -> float:
        with self.lock:
            line, self.followed_at = self.fit, reading.received_at
            if line is None or reading.corrects(line):
                self.fit = reading.fit
            return 0.0 if line is None else reading.step_from(line)


class ClockKeeper:
    """Keeps a clock in step with the store's, and reports steps."""

    def __init__(self, clock: Clock, store: OperationsStore, telemetry: Telemetry) -> None:
        # Steps of a local clock are watched as well.
        self.clock = clock if isinstance(clock, StoreClock) else StoreClock(clock)
        self.store = store
        self.telemetry = telemetry

    async def step(self) -> float:
        """One reading; returns the seconds until the next. Raises `Unavailable`."""
        seconds = await self.clock.follow(self.store)
        if abs(seconds) > STEP_MIN:
            self.telemetry.clock_stepped(seconds)
        return FOLLOW_PERIOD

    async def refresh(self) -> None:
        """Read the clock if the last reading is old, for programs without loops.

        Raises `Unavailable` where it was never read: the local clock may be wrong by hours. A later
        reading may fail: the clock continues from the one before, and the caller's next query says
        whether the store is there.
        """
        if self.clock.is_stale:
            try:
                await self.step()
            except Unavailable:
                if self.clock.fit is None:
                    raise
