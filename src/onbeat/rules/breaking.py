"""When calls to an endpoint are held back because it seems to be down, and how one finds out."""

from collections import deque
from typing import Final

import msgspec

# The rate of failures is that of the last minute: longer than the time-out that callbacks have
# by default, so that calls which all time out are seen together.
WINDOW_SECONDS: Final = 60.0
SLICES: Final = 6  # of the window, which moves by one of them at a time
CALLS_MIN: Final = 10  # fewer are chance rather than a rate
FAILED_SHARE: Final = 0.5  # a bad path among good ones stays below it, an endpoint that is down not

# How long no call is made, doubled after each probe that failed.
HOLD_SECONDS_MIN: Final = 5.0  # a restart, perhaps
HOLD_SECONDS_MAX: Final = 30.0  # so an endpoint that is back is noticed soon
PAUSE_SECONDS_MAX: Final = 60.0  # what one answer may ask for on behalf of all other jobs
PROBE_SECONDS_MAX: Final = 60.0  # a probe that hangs for longer does not keep others from trying

# A job that was put off comes back after about as long as the endpoint has been down by then: so
# it does so a few times in an outage of any length, and is not late by more than the outage.
RETURN_SECONDS_MAX: Final = 600.0
RETURNS_PER_SECOND: Final = 2_000  # of the jobs of one hold, which may be any number


class Pass(msgspec.Struct, frozen=True, gc=False):
    """Leave for one call, to be handed back with what became of it."""

    number: int
    is_probe: bool


class Breaker:
    """Holds calls to one endpoint back while it is open.

    Closed, it counts calls, and opens when at least half of at least `CALLS_MIN` in a minute have
    failed. Open, it lets nothing through for a while, and then a single probe: one that fails makes
    it wait for longer, one that does not closes it. `now` is in seconds of a monotonic clock, and
    `chance` from 0 to below 1.
    """

    __slots__ = ("back_at", "closed_at", "held", "holds", "number", "opened_at", "probe_at", "rate")

    def __init__(self) -> None:
        self.rate = Rate()
        self.number = 0
        self.opened_at: float | None = None
        self.closed_at: float | None = None
        self.holds = 0
        self.held = 0
        self.probe_at = 0.0
        self.back_at = 0.0

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def admit(self, now: float) -> Pass | None:
        """Leave for a call, or None while it is held back."""
        if self.opened_at is None:
            return Pass(self.number, is_probe=False)
        if now < self.probe_at:
            return None
        self.number += 1
        self.probe_at = now + PROBE_SECONDS_MAX
        self.back_at = now + hold_seconds(self.holds + 1)
        return Pass(self.number, is_probe=True)

    def wait(self, now: float, chance: float) -> float:
        """For how many seconds to put off a job whose call was held back.

        Never less than until the next probe, and longer the longer the endpoint has been down. The
        spread keeps jobs that were put off together from coming back together.
        """
        assert self.opened_at is not None, "only an open breaker holds calls back"
        self.held += 1
        half = max(now - self.opened_at, HOLD_SECONDS_MIN) / 2
        half = min(max(half, self.held / RETURNS_PER_SECOND), RETURN_SECONDS_MAX / 2)
        return max(self.back_at - now, half) + chance * half

    def succeed(self, leave: Pass, now: float) -> None:
        """The endpoint answered. The success of any probe closes, however late it comes."""
        if self.opened_at is None:
            if leave.number == self.number:
                self.rate.note(now, failed=False)
        elif leave.is_probe:
            self.close(now)

    def fail(self, leave: Pass, now: float, chance: float, at_least: float = 0.0) -> None:
        """The call says that the endpoint is down; it may have asked for `at_least` a pause.

        Calls that were let through before the breaker changed say nothing about the time since.
        """
        if leave.number != self.number:
            return
        if self.opened_at is not None:
            if leave.is_probe:
                self.hold(now, chance, at_least)
            return
        self.rate.note(now, failed=True)
        if self.rate.is_bad:
            self.open(now, chance, at_least)

    def give_back(self, leave: Pass, now: float) -> None:
        """The call was not made, or was stopped: nothing is known, and another may probe."""
        if leave.is_probe and leave.number == self.number and self.is_open:
            self.probe_at = self.back_at = now

    def open(self, now: float, chance: float, at_least: float) -> None:
        # One that only seemed to be back goes on where it was, rather than be tried as often again.
        if self.closed_at is None or now - self.closed_at > WINDOW_SECONDS:
            self.holds = 0
        self.opened_at = now
        self.number += 1
        self.hold(now, chance, at_least)

    def hold(self, now: float, chance: float, at_least: float) -> None:
        self.holds += 1
        self.held = 0
        # Half of it is left to chance, so that many workers do not probe at the same moment.
        span = hold_seconds(self.holds) * (1 + chance) / 2
        self.probe_at = self.back_at = now + max(span, min(at_least, PAUSE_SECONDS_MAX))

    def close(self, now: float) -> None:
        self.opened_at = None
        self.closed_at = now
        self.number += 1
        self.rate = Rate()


class Rate:
    """How many of the calls of the last minute have failed."""

    __slots__ = ("calls", "failed", "slices")

    def __init__(self) -> None:
        self.slices: deque[Slice] = deque()
        self.calls = 0
        self.failed = 0

    def note(self, now: float, *, failed: bool) -> None:
        number = int(now * SLICES // WINDOW_SECONDS)
        while self.slices and self.slices[0].number <= number - SLICES:
            old = self.slices.popleft()
            self.calls -= old.calls
            self.failed -= old.failed
        if not self.slices or self.slices[-1].number != number:
            self.slices.append(Slice(number))
        self.slices[-1].calls += 1
        self.slices[-1].failed += failed
        self.calls += 1
        self.failed += failed

    @property
    def is_bad(self) -> bool:
        return self.calls >= CALLS_MIN and self.failed >= self.calls * FAILED_SHARE


class Slice(msgspec.Struct, gc=False):
    """The calls of one part of the window."""

    number: int
    calls: int = 0
    failed: int = 0


def hold_seconds(holds: int) -> float:
    """The length of the nth hold in a row (from 1), before chance shortens it."""
    return min(HOLD_SECONDS_MIN * 2.0 ** min(holds - 1, 30), HOLD_SECONDS_MAX)
