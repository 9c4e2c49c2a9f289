"""The request that an attempt sends."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from aiohttp.client_reqrep import ConnectionKey
from standardwebhooks import Webhook
from yarl import URL

from onbeat.model.credentials import signing
from onbeat.model.errors import Invalid
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.model.target import HttpTarget
from onbeat.model.trace_context import STATE_HEADER, trace_context
from onbeat.ports.tracing import active_trace
from onbeat.rules.callback_policy import hop_after
from onbeat.rules.urls import METHODS, shown_url, url_parts
from onbeat.wire.cloud_events import delivered

TEXT: Final = "text/plain; charset=utf-8"
URLS_KEPT: Final = 1_000
OCCURRENCES_KEPT: Final = 100  # the jobs of a moment have few
REPORT_HEADER: Final = "Onbeat-Report-Url"
NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]*", re.ASCII)
FRAMING: Final = frozenset(
    {"connection", "content-length", "expect", "host", "transfer-encoding", "upgrade"}
)
# Without a body, requests with other methods say that theirs is empty.
WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestUrl(msgspec.Struct, frozen=True):
    """The destination of requests to one URL; `shown` is the URL for messages.

    `endpoint` is its scheme, host and port, and `place` the same for the connector. `start` begins
    the head of a request, after its method.
    """

    url: URL
    host: str
    shown: str
    endpoint: str
    place: ConnectionKey
    start: str


class Request(msgspec.Struct, frozen=True):
    """One request, ready to be sent; `shown` names it in messages.

    `target` holds credentials that must not appear in a result or an error. `origin` is the request
    that was redirected here, as it is shown.
    """

    method: str
    url: RequestUrl
    headers: dict[str, str]
    body: bytes | None
    target: HttpTarget
    origin: str | None = None

    @property
    def shown(self) -> str:
        shown = f"{self.method} {self.url.shown}"
        return shown if self.origin is None else f"{shown}, redirected from {self.origin},"

    @property
    def may_report(self) -> bool:
        """Whether the endpoint is given an address to report to."""
        return REPORT_HEADER in self.headers


def request_for(
    job: Job, target: HttpTarget, now: datetime, user_agent: str, events: Sequence[Event] = ()
) -> Request:
    """Without a body of its own, the target gets the events.

    Raises `Invalid` for a URL, a method or headers that were not checked at creation.
    """
    if target.method not in METHODS:
        raise Invalid("there is no such method", "method")
    place = request_url(target.url)
    kind = TEXT
    if events and target.body is None:
        target, kind = with_events(target, events)
    headers = defaults_of(target, user_agent, kind)
    add_identity(headers, job)
    if target.secret is not None:
        headers |= signature_of(job, target.body or "", signing(target), now)
    body = None if target.body is None else target.body.encode()
    return Request(target.method, place, headers, body, target)


def with_active_trace(request: Request) -> Request:
    """The request as a part of the active span."""
    trace = active_trace()
    if trace is None:
        return request
    kept = {name: text for name, text in request.headers.items() if name != STATE_HEADER}
    return msgspec.structs.replace(request, headers=kept | trace.headers())


def redirected(request: Request, status: int, location: str) -> Request:
    """The request that follows a redirect. Raises `Invalid` for a location that is no URL."""
    hop = hop_after(
        status,
        location,
        method=request.method,
        url=str(request.url.url),
        headers=request.headers,
        body=request.body,
    )
    return msgspec.structs.replace(
        request,
        method=hop.method,
        url=request_url(hop.url),
        headers=hop.headers,
        body=hop.body,
        origin=request.origin or request.shown,
    )


def with_report_address(request: Request, address: str) -> Request:
    return msgspec.structs.replace(request, headers=request.headers | {REPORT_HEADER: address})


def with_events(target: HttpTarget, events: Sequence[Event]) -> tuple[HttpTarget, str]:
    """The target with the events as its body, and their content type; GET, the default, is POST."""
    body, kind = delivered(events)
    method = "POST" if target.method == "GET" else target.method
    return msgspec.structs.replace(target, method=method, body=body.decode()), kind


# Schedules call the same URLs repeatedly, and parsing is a third of our overhead per request.
@lru_cache(URLS_KEPT)
def request_url(text: str) -> RequestUrl:
    """The URL as the client needs it; refused if the client parses another host from it."""
    parts = url_parts(text)
    url = URL(str(parts), encoded=True)
    if (url.raw_host, url.port) != (parts.host, parts.port_or_default):
        raise Invalid("the URL's host is ambiguous", "url")
    start = f" {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
    return RequestUrl(url, parts.host, shown_url(text), endpoint_of(url), place_of(url), start)


def endpoint_of(url: URL) -> str:
    return f"{url.scheme}://{url.host_subcomponent}:{url.port}"


def place_of(url: URL) -> ConnectionKey:
    return ConnectionKey(
        host=url.raw_host or "",
        port=url.port,
        is_ssl=url.scheme == "https",
        ssl=True,
        proxy=None,
        proxy_auth=None,
        proxy_headers_hash=None,
    )


def bytes_of(request: Request) -> bytes:
    """The request as it is sent.

    Raises `Invalid` for a header that would change where the request begins or ends, which nothing
    that was checked at creation has.
    """
    headers, body = request.headers, request.body
    lines = "".join([f"{name}: {text}\r\n" for name, text in headers.items()])
    if lines.count("\r") != len(headers) or lines.count("\n") != len(headers) or "\0" in lines:
        raise Invalid("a header holds a line break", "headers")
    if body is None:
        length = "" if request.method in WITHOUT_BODY else "Content-Length: 0\r\n"
        return f"{request.method}{request.url.start}{lines}{length}\r\n".encode()
    head = f"{request.method}{request.url.start}{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def defaults_of(target: HttpTarget, user_agent: str, kind: str = TEXT) -> dict[str, str]:
    """The caller's headers, and defaults for those that are missing.

    Raises `Invalid` for a name that is none, or says where a request ends.
    """
    given = {name.lower() for name in target.headers}
    if not NAMES.fullmatch("".join(given)) or not given.isdisjoint(FRAMING):
        raise Invalid("a header is not a caller's to set", "headers")
    headers = dict(target.headers)
    if "user-agent" not in given:
        headers["User-Agent"] = user_agent
    if "accept" not in given:
        headers["Accept"] = "*/*"
    if target.body is not None and "content-type" not in given:
        headers["Content-Type"] = kind
    return headers


def add_identity(headers: dict[str, str], job: Job) -> None:
    """Headers that identify the job; `Idempotency-Key` is the same for every attempt."""
    headers["Accept-Encoding"] = "identity"
    headers["Idempotency-Key"] = headers["Onbeat-Job-Id"] = job.id
    headers["Onbeat-Attempt"] = str(job.attempt)
    headers["Onbeat-Token"] = str(job.token)
    if job.schedule_id is not None:
        headers["Onbeat-Schedule-Id"] = job.schedule_id
    if job.traceparent is not None:
        sender = trace_context(job.traceparent, job.tracestate)
        if sender is not None:
            headers |= sender.headers()
    if job.occurrence is not None:
        headers["Onbeat-Occurrence"] = rfc3339(job.occurrence)


def signature_of(job: Job, body: str, secrets: tuple[str, ...], now: datetime) -> dict[str, str]:
    """A Standard Webhooks signature of the exact body and the time of this attempt.

    One signature for each secret; a receiver accepts any that it can verify.
    """
    signatures = (Webhook(secret).sign(job.id, now, body) for secret in secrets)
    return {
        "webhook-id": job.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


@lru_cache(OCCURRENCES_KEPT)
def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
