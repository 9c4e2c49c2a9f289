"""The circuit breakers of the endpoints and brokers that this process calls."""

from collections import OrderedDict
from datetime import timedelta
from hashlib import blake2b
from typing import Final, Self

from onbeat.model.job import Job
from onbeat.model.outcome import Snoozed
from onbeat.ports.clock import Clock
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.circuit_breaker import Breaker, Pass
from onbeat.rules.job_events import may_cause
from onbeat.rules.outages import TYPE, OnOutage, Outage, depth_after

# A breaker takes about a kilobyte. The least recently called endpoint is forgotten first; if it is
# still down, ten calls open a breaker again.
ENDPOINTS_MAX: Final = 1_000
CHANCE_BYTES: Final = 8

DOWN: Final = "seems to be down, so no call was made"
BACK: Final = (
    "was down until just now; its backlog is sent at an even rate, so this call was put off"
)


class Breakers:
    """A breaker for each endpoint: an origin (scheme, host, port) or a broker.

    `on_outage` is called once for each time that a breaker opens.
    """

    def __init__(
        self,
        clock: Clock,
        telemetry: Telemetry | None = None,
        on_outage: OnOutage | None = None,
    ) -> None:
        self.clock = clock
        self.telemetry = telemetry
        self.on_outage = on_outage
        self.breakers: OrderedDict[str, Breaker] = OrderedDict()
        self.reported: set[str] = set()

    def call(self, endpoint: str, job: Job) -> "GuardedCall | Snoozed":
        """Permission for this job's call to the endpoint, or a snooze while calls are held back."""
        breaker = self.breaker(endpoint)
        now = self.clock.monotonic()
        leave = breaker.admit(now)
        if leave is None:
            wait = timedelta(seconds=breaker.wait(now, chance_of(job)))
            return Snoozed(wait, f"{endpoint} {DOWN if breaker.is_open else BACK}")
        return GuardedCall(self, endpoint, breaker, leave, job)

    def breaker(self, endpoint: str) -> Breaker:
        result = self.breakers.get(endpoint)
        if result is not None:
            self.breakers.move_to_end(endpoint)
            return result
        if len(self.breakers) >= ENDPOINTS_MAX:
            forgotten, breaker = self.breakers.popitem(last=False)
            if breaker.is_open:
                self.report_change(forgotten, is_open=False)
        self.breakers[endpoint] = Breaker()
        return self.breakers[endpoint]

    def report_outage(self, endpoint: str, breaker: Breaker, job: Job, error: str) -> None:
        """Report an open breaker, at the first failure of a job that may cause such an event.

        So an alert that goes to a dead endpoint raises no alert, and hides no outage from others.
        """
        is_new = breaker.opened_at is not None and endpoint not in self.reported
        if self.on_outage is None or not is_new or not may_cause(job.cause, TYPE):
            return
        assert breaker.opened_at is not None, "it is new"
        self.reported.add(endpoint)
        ago = timedelta(seconds=self.clock.monotonic() - breaker.opened_at)
        self.on_outage(
            Outage(
                endpoint=endpoint,
                since=self.clock.now() - ago,
                calls=breaker.rate.calls,
                failures=breaker.rate.failed,
                error=error,
                depth=depth_after(job.cause),
            )
        )

    def report_change(self, endpoint: str, *, is_open: bool) -> None:
        if not is_open:
            self.reported.discard(endpoint)
        if self.telemetry is not None:
            self.telemetry.breaker_changed(endpoint, is_open)


class GuardedCall:
    """An admitted call. As a context manager it gives back a pass without a result."""

    __slots__ = ("breaker", "breakers", "endpoint", "job", "leave")

    def __init__(
        self, breakers: Breakers, endpoint: str, breaker: Breaker, leave: Pass, job: Job
    ) -> None:
        self.breakers = breakers
        self.endpoint = endpoint
        self.breaker = breaker
        self.leave: Pass | None = leave
        self.job = job

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.leave is not None:
            self.breaker.give_back(self.leave, self.breakers.clock.monotonic())

    def succeed(self) -> None:
        """The endpoint answered, even if it rejected the request."""
        was_open, leave = self.breaker.is_open, self.take_pass()
        self.breaker.succeed(leave, self.breakers.clock.monotonic())
        self.tell_change(was_open=was_open)

    def fail(self, error: str, retry_after: timedelta | None = None) -> None:
        """The endpoint seems to be down, and may have requested a pause.

        `error` says how the call failed, without a word of what was sent or answered.
        """
        was_open, leave = self.breaker.is_open, self.take_pass()
        at_least = 0.0 if retry_after is None else retry_after.total_seconds()
        self.breaker.fail(leave, self.breakers.clock.monotonic(), chance_of(self.job), at_least)
        self.tell_change(was_open=was_open)
        if self.is_kept:
            self.breakers.report_outage(self.endpoint, self.breaker, self.job, error)

    def put_off(self, reason: str) -> Snoozed:
        """Snooze the job, since nothing could be sent for a reason other than the endpoint."""
        now = self.breakers.clock.monotonic()
        return Snoozed(timedelta(seconds=self.breaker.pause(now, chance_of(self.job))), reason)

    def take_pass(self) -> Pass:
        leave, self.leave = self.leave, None
        assert leave is not None, "a call has one verdict"
        return leave

    @property
    def is_kept(self) -> bool:
        """An evicted breaker was already reported as closed."""
        return self.breakers.breakers.get(self.endpoint) is self.breaker

    def tell_change(self, *, was_open: bool) -> None:
        if self.is_kept and self.breaker.is_open != was_open:
            self.breakers.report_change(self.endpoint, is_open=self.breaker.is_open)


def chance_of(job: Job) -> float:
    """A number from 0 to below 1 that differs for each job and each of its claims."""
    digest = blake2b(f"{job.id} {job.token}".encode(), digest_size=CHANCE_BYTES).digest()
    # A float has no more than 53 bits; more would round up to 1.
    return (int.from_bytes(digest) >> 11) / (1 << 53)
