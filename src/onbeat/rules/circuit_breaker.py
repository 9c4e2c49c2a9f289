"""A circuit breaker: holds calls to an endpoint back while it seems down, and probes it."""

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

# The failure rate covers the last minute. That is longer than the default timeout of callbacks, so
# that calls which all time out are counted together.
WINDOW_SECONDS: Final = 60.0
SLICES: Final = 6  # the window moves by one slice at a time
CALLS_MIN: Final = 10  # fewer calls are too small a sample
FAILED_SHARE: Final = 0.5  # a broken path among good ones stays below it, a dead endpoint does not

# How long the breaker makes no call; doubled after each failed probe.
HOLD_SECONDS_MIN: Final = 5.0  # enough for a restart
HOLD_SECONDS_MAX: Final = 30.0  # limits the delay until a recovered endpoint is noticed
PAUSE_SECONDS_MAX: Final = 60.0  # limits the pause that one response may request for all other jobs
PROBE_SECONDS_MAX: Final = 60.0  # a probe that hangs for longer does not block the next

# A postponed job returns after about as long as the endpoint has been down by then. It thus returns
# only a few times in an outage of any length, and its delay is at most the outage's length.
RETURN_SECONDS_MAX: Final = 600.0
RETURNS_PER_SECOND: Final = 2_000  # of the jobs of one hold, whose number is unbounded


# After the breaker closes, postponed jobs are sent evenly until the last of them was to return.
RAMP_JOBS_MIN: Final = 200  # fewer jobs need no ramp
PACE_MIN: Final = 10.0  # calls a second
TOKENS_SECONDS: Final = 0.05  # seconds of the pace that may be sent as a burst
RAMP_WAIT_SECONDS_MIN: Final = 0.5  # postponing a job costs more than a call that is slightly early


class Pass(msgspec.Struct, frozen=True, gc=False):
    """Permission for one call; the caller reports the result with it."""

    number: int
    is_probe: bool


class Breaker:
    """Holds calls to one endpoint back while the breaker is open.

    While closed, it counts calls, and opens when at least `CALLS_MIN` were made in a minute and at
    least half of them failed. While open, it blocks all calls for a hold and then admits a single
    probe: a failed probe makes the next hold longer, a successful one closes the breaker. `now` is
    in seconds of a monotonic clock, and `chance` from 0 to below 1.
    """

    __slots__ = (
        "back_at",
        "closed_at",
        "held",
        "holds",
        "number",
        "opened_at",
        "probe_at",
        "ramp",
        "rate",
        "returns",
    )

    def __init__(self) -> None:
        self.rate = FailureRate()
        self.number = 0
        self.opened_at: float | None = None
        self.closed_at: float | None = None
        self.holds = 0
        self.held = 0
        self.probe_at = 0.0
        self.back_at = 0.0
        self.returns: dict[int, int] = {}  # postponed jobs, by the second of their return
        self.ramp: Ramp | None = None

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def admit(self, now: float) -> Pass | None:
        """Permission for a call, or None while calls are held back."""
        if self.opened_at is None:
            return Pass(self.number, is_probe=False) if self.has_turn(now) else None
        if now < self.probe_at:
            return None
        self.number += 1
        self.probe_at = now + PROBE_SECONDS_MAX
        self.back_at = now + hold_seconds(self.holds + 1)
        return Pass(self.number, is_probe=True)

    def has_turn(self, now: float) -> bool:
        """Whether the ramp allows another call now."""
        if self.ramp is not None and now >= self.ramp.until:
            self.ramp = None
        return self.ramp is None or self.ramp.take(now)

    def wait(self, now: float, chance: float) -> float:
        """Seconds for which to postpone a job whose call was held back.

        At least until the next probe, and longer for a longer outage. The spread keeps jobs that
        were postponed together from returning together.
        """
        if self.opened_at is None:
            assert self.ramp is not None, "only an open breaker or a ramp holds calls back"
            return self.ramp.wait(now)
        self.held += 1
        half = max(now - self.opened_at, HOLD_SECONDS_MIN) / 2
        half = min(max(half, self.held / RETURNS_PER_SECOND), RETURN_SECONDS_MAX / 2)
        wait = max(self.back_at - now, half) + chance * half
        second = int(now + wait)
        self.returns[second] = self.returns.get(second, 0) + 1
        return wait

    def pause(self, now: float, chance: float) -> float:
        """Seconds for which to postpone a job whose call could not be attempted."""
        return self.wait(now, chance) if self.is_open else HOLD_SECONDS_MIN * (1 + chance)

    def succeed(self, leave: Pass, now: float) -> None:
        """The endpoint answered. A successful probe closes the breaker, even if it is late."""
        if self.opened_at is None:
            if leave.number == self.number:
                self.rate.note(now, failed=False)
        elif leave.is_probe:
            self.close(now)

    def fail(self, leave: Pass, now: float, chance: float, at_least: float = 0.0) -> None:
        """The call shows that the endpoint is down; it may request a pause of `at_least` seconds.

        Calls that were admitted before the breaker last changed are ignored.
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
        """The call was not made or was stopped. It says nothing, and another probe may go out."""
        if leave.is_probe and leave.number == self.number and self.is_open:
            self.probe_at = self.back_at = now

    def open(self, now: float, chance: float, at_least: float) -> None:
        # If the endpoint only seemed to have recovered, the holds continue from the same length.
        if self.closed_at is None or now - self.closed_at > WINDOW_SECONDS:
            self.holds = 0
        self.opened_at = now
        self.number += 1
        self.hold(now, chance, at_least)

    def hold(self, now: float, chance: float, at_least: float) -> None:
        self.holds += 1
        self.held = 0
        self.forget_returns(now)
        # Half of the span is random, so that many workers do not probe at the same moment.
        span = hold_seconds(self.holds) * (1 + chance) / 2
        self.probe_at = self.back_at = now + max(span, min(at_least, PAUSE_SECONDS_MAX))

    def forget_returns(self, now: float) -> None:
        """Forget the jobs that have already returned."""
        self.returns = {at: count for at, count in self.returns.items() if at >= int(now)}

    def close(self, now: float) -> None:
        assert self.opened_at is not None, "only an open breaker closes"
        self.forget_returns(now)
        self.ramp = ramp_for(self.returns, now, now - self.opened_at)
        self.returns = {}
        self.opened_at = None
        self.closed_at = now
        self.number += 1
        self.rate = FailureRate()


class Ramp:
    """Sends jobs that return after an outage at an even pace.

    Without it most would return right after the outage: jobs that were postponed early wait for a
    shorter time than those postponed late, so their returns coincide.
    """

    __slots__ = ("at", "pace", "promised_at", "tokens", "until")

    def __init__(self, pace: float, now: float, until: float) -> None:
        self.pace = pace
        self.until = until
        self.at = self.promised_at = now
        self.tokens = 1.0

    def take(self, now: float) -> bool:
        most = max(1.0, self.pace * TOKENS_SECONDS)
        self.tokens = min(most, self.tokens + (now - self.at) * self.pace)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def wait(self, now: float) -> float:
        """Each job is given a time of its own, one after the other."""
        self.promised_at = max(self.promised_at, now + RAMP_WAIT_SECONDS_MIN) + 1 / self.pace
        return self.promised_at - now


def ramp_for(returns: Mapping[int, int], now: float, down: float) -> Ramp | None:
    """The ramp after an outage of `down` seconds; None if few jobs are to return."""
    count = sum(returns.values())
    if count < RAMP_JOBS_MIN:
        return None
    until = max(returns) + 1.0
    # New jobs keep arriving at the rate of the outage. Adding half of that rate keeps the pace
    # within twice the fair one, and new jobs do not wait long behind the postponed ones.
    pace = count / max(until - now, 1.0) + count / max(down, 1.0) / 2
    return Ramp(max(PACE_MIN, pace), now, until)


class FailureRate:
    """How many calls of the last minute have failed."""

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
    """The calls in one slice of the window."""

    number: int
    calls: int = 0
    failed: int = 0


def hold_seconds(holds: int) -> float:
    """The length of the nth hold in a row (from 1), before it is randomized."""
    return min(HOLD_SECONDS_MIN * 2.0 ** min(holds - 1, 30), HOLD_SECONDS_MAX)
