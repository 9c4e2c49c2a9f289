"""HTTP callbacks: one request an attempt, guarded, bounded and never redirected."""

import asyncio
import ssl
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Final

import aiohttp
import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.limits import CALLBACK_RESPONSE_HEADERS_MAX
from onbeat.model.outcome import Failed, Outcome, Snoozed
from onbeat.model.target import HttpTarget
from onbeat.ports.clock import Clock
from onbeat.ports.target import Run
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.addresses import NOTHING_MORE, Allowed
from onbeat.targets.breaker import Breakers, Call
from onbeat.targets.http_answer import (
    DOWN,
    Answer,
    failure_of,
    is_answer,
    outcome_of,
    read_answer,
    refusal_in,
)
from onbeat.targets.http_guard import Guard, GuardedResolver, Lookup, SystemLookup
from onbeat.targets.http_request import Request, request_for

# The deadline of an attempt is one for all its parts; aiohttp's own, one for each, are off.
NO_TIMEOUT: Final = aiohttp.ClientTimeout()

# Both well below a minute, so that a name that moves to another address is followed.
IDLE_SECONDS_MAX: Final = 15  # of a connection kept for the next request to the same host and port
LOOKUP_SECONDS_MAX: Final = 10  # of a host's addresses, all of them judged before they are kept


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How callbacks are made.

    `timeout` bounds a whole attempt, from the lookup of the name to the last byte of the answer,
    where the job does not set a bound itself. `connections_max` of 0 leaves it to the worker how
    many are in flight. `ca_file` replaces the system's authorities.
    """

    timeout: timedelta = timedelta(seconds=30)
    private_allowed: bool = False
    allowed: Allowed = NOTHING_MORE
    ca_file: str | None = None
    connections_max: int = 0
    user_agent: str = f"Onbeat/{version('onbeat')}"


class NoAnswer(Exception):
    """Carries the error of a request past the client, which would send it again by itself."""

    def __init__(self, error: aiohttp.ClientError) -> None:
        super().__init__(str(error))
        self.error = error


class HttpRunner:
    """Runs attempts at HTTP targets; thousands may be in flight at once."""

    def __init__(
        self,
        clock: Clock,
        options: HttpOptions | None = None,
        *,
        lookup: Lookup | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.clock = clock
        self.options = options or HttpOptions()
        self.lookup = lookup
        self.system_lookup: SystemLookup | None = None
        self.sessions: dict[bool, aiohttp.ClientSession] = {}
        self.breakers = Breakers(clock, telemetry)

    async def open(self) -> None:
        if self.lookup is None:
            self.lookup = self.system_lookup = SystemLookup()
        tls = tls_context(self.options.ca_file)
        # Hosts that may lie inside have connections of their own, so that a guard has one answer.
        self.sessions = {
            private_allowed: session_for(self.options, tls, self.lookup, private_allowed)
            for private_allowed in (False, True)
        }

    async def close(self) -> None:
        for session in self.sessions.values():
            await session.close()
        self.sessions = {}
        if self.system_lookup is not None:
            self.system_lookup.close()
            self.lookup = self.system_lookup = None

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, HttpTarget)
        try:
            request = request_for(run.job, target, self.clock.now(), self.options.user_agent)
        except Invalid as error:
            return Failed(f"the callback was not sent: {error}", retryable=False)
        time = self.time_for(run)
        if time <= timedelta():
            return Failed(f"{request.shown} was not sent: no time was left")
        call = self.breakers.call(request.place.url, run.job)
        if isinstance(call, Snoozed):
            return call
        with call:
            try:
                return await self.answered(request, time, call)
            except asyncio.CancelledError:
                # The worker has the same deadline, and may be the first to see it pass.
                if run.deadline is not None and self.clock.now() >= run.deadline:
                    call.failed()
                raise

    def time_for(self, run: Run) -> timedelta:
        # A job that says how long it may take is taken at its word, also where that is longer.
        timeout = run.job.timeout or self.options.timeout
        return timeout if run.deadline is None else min(timeout, run.deadline - self.clock.now())

    async def answered(self, request: Request, time: timedelta, call: Call) -> Outcome:
        try:
            async with asyncio.timeout(time.total_seconds()):
                answer = await self.exchange(request)
        except TimeoutError:
            call.failed()
            return Failed(f"{request.shown} was not done within {time.total_seconds():g} s")
        except (aiohttp.ClientError, OSError) as error:
            note_error(call, error)
            return failure_of(error, request.shown)
        outcome = outcome_of(answer, request.shown, self.clock.now())
        note_answer(call, answer, outcome)
        return outcome

    async def exchange(self, request: Request) -> Answer:
        """One request and its answer.

        A server may close a kept connection just as the next request goes out on it. Such a
        request was not begun, so it goes out again on another connection and is still this
        attempt; the idempotency key covers the server that did begin.
        """
        while True:
            connection = SimpleNamespace(stale=False)
            try:
                return await self.send(request, connection)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not connection.stale:
                    raise

    async def send(self, request: Request, connection: SimpleNamespace) -> Answer:
        try:
            response = await self.session_to(request.place.host).request(
                request.method,
                request.place.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                trace_request_ctx=connection,
            )
        except NoAnswer as no_answer:
            raise no_answer.error from no_answer.error.__cause__
        connection.stale = False
        try:
            return await read_answer(response)
        finally:
            # Does nothing to an answer read to its end, whose connection is back in the pool.
            response.close()

    def session_to(self, host: str) -> aiohttp.ClientSession:
        options = self.options
        return self.sessions[options.private_allowed or options.allowed.names(host)]


def note_error(call: Call, error: Exception) -> None:
    if is_answer(error):
        call.answered()
    elif refusal_in(error) is None:
        call.failed()


def note_answer(call: Call, answer: Answer, outcome: Outcome) -> None:
    if answer.status in DOWN and isinstance(outcome, Failed):
        call.failed(outcome.retry_after)
    else:
        call.answered()


def session_for(
    options: HttpOptions,
    tls: ssl.SSLContext,
    lookup: Lookup,
    private_allowed: bool,  # noqa: FBT001  the sessions are told apart by nothing else
) -> aiohttp.ClientSession:
    guard = Guard(options.allowed, private_allowed=private_allowed)
    connector = aiohttp.TCPConnector(
        ssl=tls,
        resolver=GuardedResolver(lookup, guard),
        socket_factory=guard.socket_for,
        ttl_dns_cache=LOOKUP_SECONDS_MAX,
        keepalive_timeout=IDLE_SECONDS_MAX,
        limit=options.connections_max,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=NO_TIMEOUT,
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=["Content-Type"],
        max_headers=CALLBACK_RESPONSE_HEADERS_MAX,
        trace_configs=[reuse_trace()],
        middlewares=[send_once],
    )


async def send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Retries are the job's alone: one that the client makes would be a call that nobody counts."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise NoAnswer(error) from error


def reuse_trace() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(note_reuse)
    return trace


async def note_reuse(
    _session: aiohttp.ClientSession,
    context: SimpleNamespace,
    _params: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    context.trace_request_ctx.stale = True


# Reading the system's authorities takes some 30 ms, which every Onbeat of a process would pay.
@cache
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
