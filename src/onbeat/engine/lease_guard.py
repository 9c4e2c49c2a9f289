"""Decides from the heartbeats whether this process may act on its leases."""

import asyncio
from collections.abc import Callable
from math import inf

from onbeat.ports.clock import Clock
from onbeat.rules.liveness import (
    BeatState,
    after_accepted,
    after_refused,
    may_claim,
    may_have_ended,
    sure_until,
)


class LeaseGuard:
    """The renewer updates it from its thread; claims and starts of attempts check it.

    `on_regained` is called in the worker's loop when claims are allowed again.

    Everything is allowed before `begin`: a program that calls the steps itself sends heartbeats as
    it likes.

    Each attempt compares the time with `held_until`: the leases known here are certainly held until
    then. It rises once an answer has been applied, for that may say that some are lost. An answer
    counts if its heartbeat was sent from `sure_from` on.
    """

    def __init__(self, clock: Clock, lease_seconds: float, on_regained: Callable[[], None]) -> None:
        self.clock = clock
        self.on_regained = on_regained
        self.pulse = BeatState(lease_seconds)
        self.held_until = inf
        self.sure_from = -inf
        self.was_refused = False
        self.waiting: list[tuple[float, asyncio.Future[None]]] = []
        self.beat_now: Callable[[], None] | None = None

    def begin(self, beat_now: Callable[[], None]) -> None:
        """Start to check heartbeats; `beat_now` sends one at once."""
        self.beat_now = beat_now
        self.held_until = sure_until(self.pulse)

    def on_accepted(self, sent_at: float) -> None:
        """Note that the store accepted the heartbeat sent at `sent_at`."""
        self.pulse = after_accepted(self.pulse, sent_at)

    def on_refused(self) -> None:
        self.pulse = after_refused(self.pulse)

    def may_claim(self) -> bool:
        """Thread-safe."""
        if self.beat_now is None or may_claim(self.pulse, self.clock.monotonic()):
            return True
        self.was_refused = True
        return False

    def holds(self) -> bool:
        """Whether this process certainly holds its leases. Thread-safe."""
        return self.clock.monotonic() <= self.held_until

    def on_claimed(self, sent_at: float) -> None:
        """Note the answer to a claim that was sent at `sent_at`, before its jobs are accepted.

        After a slow one, such as of a frozen process, only a new heartbeat can tell which of its
        leases are left: earlier ones did not ask for them.
        """
        now = self.clock.monotonic()
        if self.beat_now is not None and may_have_ended(self.pulse, sent_at, now):
            self.sure_from, self.held_until = now, -inf

    async def confirm(self) -> None:
        """Wait until the leases are held for certain and the store's answer has been applied."""
        while self.beat_now is not None and not self.holds():
            answered = asyncio.get_running_loop().create_future()
            self.waiting.append((self.clock.monotonic(), answered))
            self.beat_now()
            await answered

    def on_applied(self, sent_at: float) -> None:
        """Note, in the worker's loop, that the answer to a heartbeat has been applied."""
        if self.beat_now is not None and sent_at >= self.sure_from:
            self.held_until = sure_until(after_accepted(self.pulse, sent_at))
        waiting = self.waiting
        self.waiting = [one for one in waiting if one[0] > sent_at and not one[1].done()]
        for requested_at, answered in waiting:
            if requested_at <= sent_at and not answered.done():
                answered.set_result(None)
        if self.was_refused and self.may_claim():
            self.was_refused = False
            self.on_regained()
