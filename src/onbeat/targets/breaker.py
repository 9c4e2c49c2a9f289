"""The breakers of the endpoints that this process calls."""

from collections import OrderedDict
from datetime import timedelta
from hashlib import blake2b
from typing import Final, Self

from yarl import URL

from onbeat.model.job import Job
from onbeat.model.outcome import Snoozed
from onbeat.ports.clock import Clock
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.breaking import Breaker, Pass

# A breaker takes about a kilobyte. The endpoint that was called least recently is forgotten first;
# if it is still down, ten calls tell so again.
ENDPOINTS_MAX: Final = 1_000
CHANCE_BYTES: Final = 8


class Breakers:
    """A breaker for each endpoint: scheme, host and port, since these go down together."""

    def __init__(self, clock: Clock, telemetry: Telemetry | None = None) -> None:
        self.clock = clock
        self.telemetry = telemetry
        self.breakers: OrderedDict[str, Breaker] = OrderedDict()

    def call(self, url: URL, job: Job) -> "Call | Snoozed":
        """The call of this job to this URL, or for how long it is put off."""
        endpoint = endpoint_of(url)
        breaker = self.breaker(endpoint)
        now = self.clock.monotonic()
        leave = breaker.admit(now)
        if leave is None:
            wait = timedelta(seconds=breaker.wait(now, chance_of(job)))
            return Snoozed(wait, f"{endpoint} seems to be down, so no call was made")
        return Call(self, endpoint, breaker, leave, chance_of(job))

    def breaker(self, endpoint: str) -> Breaker:
        found = self.breakers.get(endpoint)
        if found is not None:
            self.breakers.move_to_end(endpoint)
            return found
        if len(self.breakers) >= ENDPOINTS_MAX:
            forgotten, breaker = self.breakers.popitem(last=False)
            if breaker.is_open:
                self.tell(forgotten, is_open=False)
        self.breakers[endpoint] = Breaker()
        return self.breakers[endpoint]

    def tell(self, endpoint: str, *, is_open: bool) -> None:
        if self.telemetry is not None:
            self.telemetry.breaker_changed(endpoint, is_open)


class Call:
    """One call that was let through. As a context it gives its leave back if it has no verdict."""

    __slots__ = ("breaker", "breakers", "chance", "endpoint", "leave")

    def __init__(
        self, breakers: Breakers, endpoint: str, breaker: Breaker, leave: Pass, chance: float
    ) -> None:
        self.breakers = breakers
        self.endpoint = endpoint
        self.breaker = breaker
        self.leave: Pass | None = leave
        self.chance = chance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.leave is not None:
            self.breaker.give_back(self.leave, self.breakers.clock.monotonic())

    def answered(self) -> None:
        """The endpoint is there, whatever it made of the request."""
        was_open, leave = self.breaker.is_open, self.used()
        self.breaker.succeed(leave, self.breakers.clock.monotonic())
        self.tell_change(was_open=was_open)

    def failed(self, retry_after: timedelta | None = None) -> None:
        """The endpoint seems to be down, and may have asked for a pause."""
        was_open, leave = self.breaker.is_open, self.used()
        at_least = 0.0 if retry_after is None else retry_after.total_seconds()
        self.breaker.fail(leave, self.breakers.clock.monotonic(), self.chance, at_least)
        self.tell_change(was_open=was_open)

    def used(self) -> Pass:
        leave, self.leave = self.leave, None
        assert leave is not None, "a call has one verdict"
        return leave

    def tell_change(self, *, was_open: bool) -> None:
        # One that was forgotten meanwhile has been told as closed, and matters to nobody.
        is_kept = self.breakers.breakers.get(self.endpoint) is self.breaker
        if is_kept and self.breaker.is_open != was_open:
            self.breakers.tell(self.endpoint, is_open=self.breaker.is_open)


def endpoint_of(url: URL) -> str:
    return f"{url.scheme}://{url.host_subcomponent}:{url.port}"


def chance_of(job: Job) -> float:
    """From 0 to below 1, another for each job and each time that it is claimed."""
    digest = blake2b(f"{job.id} {job.token}".encode(), digest_size=CHANCE_BYTES).digest()
    # A float has no more than 53 bits; more would round up to 1.
    return (int.from_bytes(digest) >> 11) / (1 << 53)
