"""The HTTP client of a remote service: one request, one answer or the reported error."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from onbeat.app.system import SystemClock, SystemRandomness
from onbeat.model.errors import Misconfigured, OnbeatError, Unavailable
from onbeat.ports.tracing import active_trace
from onbeat.rules.idempotency import HEADER
from onbeat.rules.ip_policy import is_this_machine
from onbeat.telemetry.redaction import without_credentials
from onbeat.wire.errors import ProblemAnswer, error_of

TIMEOUT: Final = aiohttp.ClientTimeout(total=60, sock_connect=5)
IDLE_SECONDS: Final = 4.0
"""A connection is kept so long between requests. The service closes idle ones after 5 seconds."""
CONNECTIONS_MAX: Final = 100

# Retries of a repeatable request: their number and total time. Restarts take seconds.
TRIES_MAX: Final = 6
REPEAT_SECONDS: Final = 90.0
PAUSE_SECONDS: Final = 0.1
RETRY_AFTER: Final = "Retry-After"
SECONDS: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
PASSING: Final = frozenset({429, 502, 503, 504})
IN_FLIGHT: Final = 409
"""A conflict is retried only if its answer has Retry-After."""

PATH_FIELD: Final = re.compile(r"\{(\w+)\}")


CLOCK: Final = SystemClock()
CHANCE: Final = SystemRandomness()


class RetryPermission(msgspec.Struct, frozen=True):
    """Permission to repeat a request, with this idempotency key if it needs one."""

    key: str | None = None


class ExchangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one request. `is_transient`: a retry may succeed."""

    content: bytes = b""
    error: OnbeatError | None = None
    is_transient: bool = False
    retry_after: float = 0.0


class ServiceClient:
    """A client of the service at `server`. Raises `Misconfigured` for an invalid URL."""

    def __init__(self, server: str, api_key: str | None = None) -> None:
        self.display_url = without_credentials(server)
        self.base = server.rstrip("/").removesuffix("/api")
        if urlsplit(self.base).scheme not in {"http", "https"} or not urlsplit(self.base).netloc:
            raise Misconfigured(
                f"{self.display_url!r} must be a URL like http://127.0.0.1:8080", key="server"
            )
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.session: aiohttp.ClientSession | None = None
        self.is_measured = False
        self.tries_max = TRIES_MAX

    @asynccontextmanager
    async def measured(self, connections: int) -> AsyncGenerator[None]:
        """Send all requests of the block from this event loop, over up to so many connections, and
        repeat none.
        """
        await self.close()
        self.is_measured, self.tries_max = True, 1
        self.session = new_session(connections)
        try:
            yield
        finally:
            await self.close()
            self.is_measured, self.tries_max = False, TRIES_MAX

    def kept_session(self) -> aiohttp.ClientSession:
        """The session of all requests. All are to be sent from one event loop, until `close`."""
        if self.session is None:
            self.session = new_session(CONNECTIONS_MAX)
        return self.session

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        *,
        repeat: RetryPermission | None = None,
    ) -> bytes:
        """The content of a successful answer; raises the error of the service, or `Unavailable`.

        With `repeat` the request is retried a few times while no answer comes or the service asks
        to wait.
        """
        headers = {**self.headers, "Content-Type": "application/json"} if body else self.headers
        if repeat is not None and repeat.key is not None and self.tries_max > 1:
            headers = {**headers, HEADER: repeat.key}
        if (trace := active_trace()) is not None:
            headers = {**headers, **trace.headers()}
        started = CLOCK.monotonic()
        for number in range(self.tries_max):
            tried = await self.exchange(method, path, query, body, headers)
            if tried.error is None:
                return tried.content
            pause = pause_after(number, tried.retry_after)
            is_over = CLOCK.monotonic() - started + pause > REPEAT_SECONDS
            if repeat is None or not tried.is_transient or is_over or number == self.tries_max - 1:
                raise tried.error
            await asyncio.sleep(pause)
        raise AssertionError("the last try answers or raises")

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> "ExchangeResult":
        """Send one request."""
        try:
            async with self.kept_session().request(
                method,
                self.base + path,
                params=query,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=proxy_for(self.base),
            ) as response:
                content = await response.read()
                return self.classify(
                    response.status, content, response.headers.get(RETRY_AFTER, "")
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as cause:
            error = Unavailable(
                f"{self.display_url} did not answer: {reason_of(cause)};"
                " is `onbeat up` running there?"
            )
            error.__cause__ = cause
            return ExchangeResult(error=error, is_transient=True)

    def classify(self, status: int, content: bytes, retry_after: str) -> "ExchangeResult":
        if status < 400:
            return ExchangeResult(content=content)
        return ExchangeResult(
            error=self.error_of(status, content),
            is_transient=status in PASSING or (status == IN_FLIGHT and bool(retry_after)),
            retry_after=float(retry_after) if SECONDS.fullmatch(retry_after) else 0.0,
        )

    def error_of(self, status: int, content: bytes) -> OnbeatError:
        try:
            return error_of(msgspec.json.decode(content, type=ProblemAnswer).error)
        except msgspec.DecodeError:
            kind = Unavailable if status >= 500 else OnbeatError
            return kind(f"{self.display_url} answered {status}, and {NOT_ONBEAT}")

    def unreadable_answer(self) -> Unavailable:
        """The error for an answer that cannot be parsed."""
        return Unavailable(f"{self.display_url} answered, and {NOT_ONBEAT}")


NOT_ONBEAT: Final = "not as Onbeat does; check the server's address"


def new_session(connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=IDLE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=TIMEOUT,
    )


def fresh_key() -> str:
    return CHANCE.ids(1)[0]


def pause_after(number: int, retry_after: float) -> float:
    """A growing pause with jitter, so that clients do not retry at the same time."""
    spread = 0.5 + CHANCE.fraction()
    return retry_after + PAUSE_SECONDS * (1 << number) * spread


def reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) else str(error)


def proxy_for(base: str) -> str | None:
    """The proxy that the environment names for this service, if any.

    A loopback service is always called directly, because the key must not go to a proxy. The HTTP
    client's own use of the environment would use the proxy, and would replace the key by a password
    from .netrc.
    """
    parts = urlsplit(base)
    host = parts.hostname or ""
    if is_this_machine(host) or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme) or None


def path_of(template: str, texts: Mapping[str, str]) -> str:
    """The operation's path with these values in its placeholders."""
    return PATH_FIELD.sub(lambda result: quote(texts[result[1]], safe=""), template)
