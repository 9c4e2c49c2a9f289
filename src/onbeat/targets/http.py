"""HTTP callbacks: one request per attempt, and its redirects, with an SSRF guard and limits."""

import asyncio
import errno
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import Final

import aiohttp

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Failed, Outcome, Snoozed
from onbeat.model.target import HttpTarget
from onbeat.ports.clock import Clock
from onbeat.ports.target import HandedOver, ReportAddress, Run
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.tracing import Tracing
from onbeat.rules.callback_policy import is_redirect
from onbeat.rules.outages import OnOutage
from onbeat.rules.shortage import shortage_in
from onbeat.targets.breaker import Breakers, GuardedCall
from onbeat.targets.descriptors import check_descriptors
from onbeat.targets.http_errors import AnswerError, ConnectionBroke, ConnectionTooSlow, NoAnswer
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.http_protocol import Connector, HttpConnection
from onbeat.targets.http_request import (
    Request,
    RequestUrl,
    bytes_of,
    redirected,
    request_for,
    with_active_trace,
    with_report_address,
)
from onbeat.targets.http_response import (
    DOWN,
    NO_ADDRESS,
    NO_LOOKUP,
    Response,
    failure_of,
    is_response_error,
    is_unresolved_for_now,
    kind_of,
    outcome_of,
    refusal_in,
    status_line,
    without_credentials,
)
from onbeat.targets.ssrf_guard import AddressGuard, GuardedResolver, Lookup, SystemLookup

USER_AGENT: Final = f"Onbeat/{version('onbeat')}"

# Both are well below a minute, so that a host name that moves to a new address is followed.
IDLE_SECONDS_MAX: Final = 15  # of an idle connection to one host and port
LOOKUP_SECONDS_MAX: Final = 10  # of a host's checked addresses in the cache
NO_TIME: Final = timedelta()


class BadLocation(Exception):
    """A redirect to something that is no URL."""


@dataclass(slots=True)
class Trip:
    """An attempt's request, replaced by each redirect, with the deadline of the attempt.

    `ends_at` is the deadline in seconds of the loop's clock.
    """

    request: Request
    until: datetime
    ends_at: float
    hops: int = 0


class HttpRunner:
    """Runs attempts at HTTP targets; thousands may be in flight at once."""

    def __init__(
        self,
        clock: Clock,
        options: HttpOptions,
        *,
        lookup: Lookup | None = None,
        telemetry: Telemetry | None = None,
        on_outage: OnOutage | None = None,
        tracing: Tracing | None = None,
        report_address: ReportAddress | None = None,
    ) -> None:
        self.clock = clock
        self.report_address = report_address
        self.tracing = tracing
        self.options = options
        self.lookup = lookup
        self.system_lookup: SystemLookup | None = None
        self.connectors: dict[bool, Connector] = {}
        self.breakers = Breakers(clock, telemetry, on_outage)

    async def open(self) -> None:
        if self.lookup is None:
            self.lookup = self.system_lookup = SystemLookup()
        tls = tls_context(self.options.ca_file)
        # Hosts that may be private have separate connections, so that a guard always has one
        # answer.
        self.connectors = {
            private_allowed: connector_for(self.options, tls, self.lookup, private_allowed)
            for private_allowed in (False, True)
        }

    async def close(self) -> None:
        for connector in self.connectors.values():
            await connector.close()
        self.connectors = {}
        if self.system_lookup is not None:
            self.system_lookup.close()
            self.lookup = self.system_lookup = None

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, HttpTarget)
        now = self.clock.now()
        try:
            request = request_for(run.job, target, now, USER_AGENT, run.events)
        except Invalid as error:
            return not_sent("the callback", error)
        time = self.timeout_of(run, now)
        if time <= NO_TIME:
            return Failed(f"{request.shown} was not sent: no time was left")
        call = self.breakers.call(request.url.endpoint, run.job)
        if isinstance(call, Snoozed):
            return call
        until = now + time
        with call:
            try:
                if self.report_address is not None and not run.is_question:
                    address = await self.report_address(run.job, until)
                    request = with_report_address(request, address)
                ends_at = asyncio.get_running_loop().time() + time.total_seconds()
                return await self.send_guarded(Trip(request, until, ends_at), time, call)
            except asyncio.CancelledError:
                # The worker has the same deadline, and may be the first to see it pass.
                if run.deadline is not None and self.clock.now() >= run.deadline:
                    call.fail(unfinished(time))
                raise

    def timeout_of(self, run: Run, now: datetime) -> timedelta:
        # A timeout set by the job counts, even if it is longer than the default.
        timeout = run.job.timeout or self.options.timeout
        return timeout if run.deadline is None else min(timeout, run.deadline - now)

    async def send_guarded(self, trip: Trip, time: timedelta, call: GuardedCall) -> Outcome:
        """Raises `HandedOver` where the endpoint reports the outcome later."""
        try:
            answer = await self.follow(trip)
        except TimeoutError as error:
            why = late_reason(error, trip.request, time)
            note_failure(call, trip, why)
            return Failed(f"{trip.request.shown} {why}")
        except Invalid as error:
            return not_sent(trip.request.shown, error)
        except (aiohttp.ClientError, OSError, NoAnswer, AnswerError) as error:
            request = trip.request
            check_shortage(error, request.url.host)
            note_error(call, trip, error)
            if is_unresolved_for_now(error):
                return call.put_off(f"{request.shown} was not sent: {NO_LOOKUP}")
            return failure_of(error, request.shown)
        except BadLocation as error:
            call.succeed()
            return Failed(str(error), retryable=False)
        request = trip.request
        answer = without_credentials(answer, request.target)
        outcome = outcome_of(answer, request.shown, self.clock.now(), request.target)
        note_response(call, trip, answer, outcome)
        if not answer.is_async:
            return outcome
        if not request.may_report:
            return Failed(f"{request.shown} {NO_ADDRESS}", retryable=False)
        raise HandedOver(trip.until)

    async def follow(self, trip: Trip) -> Response:
        """The response after all redirects that the target allows; `trip` has its request."""
        ask = self.exchange if self.tracing is None else self.trace
        while True:
            request = trip.request
            answer = await ask(request, trip.ends_at)
            location = answer.location
            if trip.hops == request.target.redirects or not is_redirect(answer.status, location):
                return answer
            assert location is not None, "a redirect has one"
            trip.hops += 1
            try:
                trip.request = redirected(request, answer.status, location)
            except Invalid as error:
                raise BadLocation(
                    f"{request.shown} answered {status_line(answer.status)} with a location that "
                    f"cannot be called: {error}"
                ) from None

    async def trace(self, request: Request, ends_at: float) -> Response:
        """The exchange inside a span of its own, which the receiver can continue."""
        assert self.tracing is not None, "something makes spans"
        url = request.url.url
        with self.tracing.request(request.method, url.scheme, request.url.host, url.port) as span:
            answer = await self.exchange(with_active_trace(request), ends_at)
            span.note_status(answer.status)
            return answer

    async def exchange(self, request: Request, ends_at: float) -> Response:
        """One request and its response.

        A server may close a kept connection just as the next request is sent on it. Such a request
        was not begun, so it is sent again on another connection within the same attempt; the
        idempotency key covers a server that did begin.
        """
        connector = self.connector_to(request.url.host)
        data = bytes_of(request)
        is_for_head = request.method == "HEAD"
        while True:
            connection = await connector.kept(request.url.place)
            if connection is None:
                span = request.target.connect_timeout
                connection = await connected(connector, request.url, span, ends_at)
            carrier = connection.protocol
            assert isinstance(carrier, HttpConnection)
            try:
                response = await carrier.exchange(data, is_for_head=is_for_head, until=ends_at)
            except (NoAnswer, ConnectionBroke):
                if not carrier.is_unanswered:
                    raise
            else:
                return response
            finally:
                connection.release()

    def connector_to(self, host: str) -> Connector:
        options = self.options
        return self.connectors[options.private_allowed or options.allowed.names(host)]


async def connected(
    connector: Connector, url: RequestUrl, span: timedelta | None, ends_at: float
) -> aiohttp.connector.Connection:
    """A new connection. Raises `ConnectionTooSlow` where it takes longer than `span`."""
    last = ends_at
    if span is not None:
        last = min(last, asyncio.get_running_loop().time() + span.total_seconds())
    try:
        async with asyncio.timeout_at(last):
            return await connector.connected(url.url)
    except TimeoutError as error:
        if last < ends_at:
            raise ConnectionTooSlow from error
        raise


def not_sent(shown: str, error: Invalid) -> Failed:
    return Failed(f"{shown} was not sent: {error}", retryable=False)


def unfinished(time: timedelta) -> str:
    return f"did not finish within {time.total_seconds():g} s"


def late_reason(error: TimeoutError, request: Request, time: timedelta) -> str:
    """Which of the two deadlines has passed."""
    span = request.target.connect_timeout
    if isinstance(error, ConnectionTooSlow) and span is not None:
        return f"got no connection within {span.total_seconds():g} s, its connect_timeout"
    return unfinished(time)


def check_shortage(error: Exception, host: str) -> None:
    """Raises an error for a shortage of this machine, which is no failure of the endpoint."""
    # The same number also reports an address family that is unreachable from here.
    is_no_address = isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL
    if shortage_in(error) is not None and not (is_no_address and ":" in host):
        raise error
    if not is_response_error(error):
        check_descriptors()  # without a descriptor, a lookup may report an unknown host name


def note_failure(call: GuardedCall, trip: Trip, error: str) -> None:
    """The breaker is that of the first endpoint, which has answered if it redirected."""
    if trip.hops:
        call.succeed()
    else:
        call.fail(error)


def note_error(call: GuardedCall, trip: Trip, error: Exception) -> None:
    if trip.hops or is_response_error(error):
        call.succeed()
    elif refusal_in(error) is None:
        call.fail(kind_of(error))


def note_response(call: GuardedCall, trip: Trip, answer: Response, outcome: Outcome) -> None:
    if answer.status in DOWN and isinstance(outcome, Failed) and not trip.hops:
        call.fail(f"answered {status_line(answer.status)}", outcome.retry_after)
    else:
        call.succeed()


def connector_for(
    options: HttpOptions,
    tls: ssl.SSLContext,
    lookup: Lookup,
    private_allowed: bool,  # noqa: FBT001  the connectors are keyed by nothing else
) -> Connector:
    guard = AddressGuard(options.allowed, private_allowed=private_allowed)
    return Connector(
        ssl=tls,
        resolver=GuardedResolver(lookup, guard),
        socket_factory=guard.socket_for,
        ttl_dns_cache=LOOKUP_SECONDS_MAX,
        keepalive_timeout=IDLE_SECONDS_MAX,
        limit=options.connections_max,
    ).use_own_protocol()


# Loading the system's certificate authorities takes about 30 ms; do it once per process.
@cache
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
